"""A loss of several numbers: TensorFlow differentiates their sum, so that is what is recorded of it."""

import json

from .conftest import run_recorded

SCRIPT = """
import numpy as np
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
x = tf.placeholder(tf.float32, [4, 3])
w = tf.get_variable("w", [3, 2], initializer=tf.random_normal_initializer(seed=1))
b = tf.get_variable("b", [2], initializer=tf.ones_initializer())
optimizer = tf.train.GradientDescentOptimizer(0.1)
found = []
for tower in range(2):
    with tf.name_scope("tower_%d" % tower):
        fit = tf.reduce_mean(tf.square(tf.matmul(x[2 * tower : 2 * tower + 2], w) + b))
        # a list that is added to a number, as decay often is
        found.append(optimizer.compute_gradients(fit + [tf.nn.l2_loss(w), tf.nn.l2_loss(b)]))
mean = [(tf.add_n([g for g, _ in pairs]) / 2, pairs[0][1]) for pairs in zip(*found)]
train = optimizer.apply_gradients(mean)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for step in range(2):
        session.run(train, {x: np.random.RandomState(step).randn(4, 3)})
"""


def test_a_loss_of_several_numbers_is_recorded_as_their_sum(tf_python, tmp_path):
    script = tmp_path / "several.py"
    script.write_text(SCRIPT, encoding="utf-8")
    recorded = run_recorded(tf_python, script, cwd=tmp_path)
    assert recorded.code == 0, recorded.said
    step = recorded.trace.step(0)
    assert step.shape("loss/0") == step.shape("loss/1") == ()
    runs = json.loads((recorded.out / "graph.json").read_text(encoding="utf-8"))["runs"]
    assert runs[0]["values"]["loss/0"]["reduced"] == "sum"
