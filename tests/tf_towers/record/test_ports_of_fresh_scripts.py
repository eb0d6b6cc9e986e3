"""Scripts as people have them, recorded, ported and proven: each was refused, or called different, at first."""

import re

import pytest
from support.tiers import few

from parity.cli import main
from parity.trace import Trace, read_json

from .conftest import run_recorded

pytestmark = pytest.mark.usefixtures("forked_torch")

HEAD = """
import numpy as np
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()

def mean(towers):
    return [(tf.add_n([g for g, _ in pairs]) / len(pairs), pairs[0][1]) for pairs in zip(*towers)]
"""
SCRIPTS = {
    # Two optimizers of the same weights, in turn.
    "shared_weights": """
x = tf.placeholder(tf.float32, [None, 3], "x")
w = tf.get_variable("w", [3, 2])
first, second = tf.train.AdamOptimizer(0.01), tf.train.AdamOptimizer(0.01)
towers_a, towers_b = [], []
for i, shard in enumerate(tf.split(x, 2)):
    with tf.device("/gpu:%d" % i), tf.name_scope("tower_%d" % i):
        y = tf.matmul(shard, w)
        towers_a.append(first.compute_gradients(tf.reduce_mean(tf.square(y - 1))))
        towers_b.append(second.compute_gradients(tf.reduce_mean(tf.sin(y))))
updates = [first.apply_gradients(mean(towers_a)), second.apply_gradients(mean(towers_b))]
shape = 8, 3
""",
    # The UPDATE_OPS of its norms are never run: one has a gamma and a beta, the other one neither.
    "unmoved_norms": """
x = tf.placeholder(tf.float32, [None, 4, 4, 3], "x")
optimizer, towers = tf.train.MomentumOptimizer(0.1, 0.9), []
for i, shard in enumerate(tf.split(x, 2)):
    with tf.device("/gpu:%d" % i), tf.name_scope("tower_%d" % i), tf.variable_scope("net", reuse=i > 0):
        y = tf.layers.conv2d(shard, 4, 3, name="conv")
        y = tf.nn.relu(tf.layers.batch_normalization(y, training=True, name="norm"))
        y = tf.layers.dense(tf.layers.flatten(y), 2, name="fc")
        y = tf.layers.batch_normalization(y, training=True, center=False, scale=False, name="last")
        towers.append(optimizer.compute_gradients(tf.reduce_mean(tf.square(y - [[1.0, 2.0]]) * y)))
updates = [optimizer.apply_gradients(mean(towers))]
shape = 8, 4, 4, 3
""",
    # An op that only checks, and that TensorFlow 1.15 calls stateful.
    "checked_gradients": """
x = tf.placeholder(tf.float32, [None, 3], "x")
w = tf.get_variable("w", [3, 2])
optimizer, towers = tf.train.MomentumOptimizer(0.1, 0.9), []
for i, shard in enumerate(tf.split(x, 2)):
    with tf.device("/gpu:%d" % i), tf.name_scope("tower_%d" % i):
        towers.append(optimizer.compute_gradients(tf.reduce_mean(tf.square(tf.matmul(shard, w) - 1))))
gradients = mean(towers)
with tf.control_dependencies([tf.check_numerics(g, "not finite") for g, _ in gradients]):
    updates = [optimizer.apply_gradients(gradients)]
shape = 8, 3
""",
}
CONSTANT_BATCHES = """
batches = np.split(np.random.RandomState(0).randn(8, 3).astype("float32"), 2)
x = tf.placeholder_with_default(np.float32(0), [], "x")
w = tf.get_variable("w", [3, 2])
optimizer, towers = tf.train.GradientDescentOptimizer(0.1), []
for i in range(2):
    with tf.device("/gpu:%d" % i), tf.name_scope("tower_%d" % i):
        towers.append(optimizer.compute_gradients(tf.reduce_mean(tf.square(tf.matmul(batches[i], w) - x))))
updates = [optimizer.apply_gradients(mean(towers))]
shape = ()
"""
CTC = """
x = tf.placeholder(tf.float32, [5, 4, 3], "x")
labels = tf.SparseTensor([[0, 0], [1, 0]], [0, 1], [2, 1])
w = tf.get_variable("w", [3, 3])
optimizer, towers = tf.train.GradientDescentOptimizer(0.1), []
for i, shard in enumerate(tf.split(x, 2, axis=1)):
    with tf.device("/gpu:%d" % i), tf.name_scope("tower_%d" % i):
        losses = tf.nn.ctc_loss(labels, tf.tensordot(shard, w, 1), [5, 5])
        towers.append(optimizer.compute_gradients(tf.reduce_mean(losses)))
updates = [optimizer.apply_gradients(mean(towers))]
shape = 5, 4, 3
"""
TAIL = """
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for step in range(4):
        session.run(updates[step % len(updates)], {x: np.random.RandomState(step).randn(*shape)})
"""


def recorded_of(tf_python, folder, name, source, options=()):
    script = folder / f"{name}.py"
    script.write_text("\n".join((HEAD, source, TAIL)), encoding="utf-8")
    # tf.layers of TensorFlow 2.21 is that of the Keras before the third.
    recorded = run_recorded(tf_python, script, options=options, cwd=folder, TF_USE_LEGACY_KERAS="1")
    assert recorded.code == 0, recorded.said
    return recorded


def test_data_that_is_built_into_the_graph_is_named(tf_python, tmp_path, capsys):
    recorded = recorded_of(tf_python, tmp_path, "constant", CONSTANT_BATCHES, ("--no-shadow",))
    assert main(["port", str(recorded.out), "--out", str(tmp_path / "port")]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "got tower 1, which has other numbers in the constant tower_1/MatMul/a" in said
    assert re.search(r"\(constant\.py:[0-9]+\)", said) and "feed it through a placeholder" in said


@pytest.mark.slow
def test_a_recorded_loss_whose_float64_kernel_is_rough_says_so(tf_python, tmp_path):
    shadow = recorded_of(tf_python, tmp_path, "ctc", CTC).trace.directory + "/shadow"
    assert Trace(shadow).facts["inexact_in_float64"] == {
        "places": ["tower_0/CTCLoss", "tower_1/CTCLoss"],
        "outputs": [""],
    }


@pytest.mark.parametrize("name", few(SCRIPTS, "unmoved_norms"))
def test_its_port_is_written_and_proven(tf_python, tmp_path, name, capsys):
    recorded, result = recorded_of(tf_python, tmp_path, name, SCRIPTS[name]), tmp_path / "result.json"
    code = main(["port", str(recorded.out), "--out", str(tmp_path / "port"), "--quiet", "--json", str(result)])
    judged = read_json(str(result))
    assert (code, judged["verdict"], judged["port"]["missing"]) == (0, "same", []), capsys.readouterr().out
    assert judged["port"]["rests_on"]["tensors_of_train"] > 0
    if name == "unmoved_norms":
        assert "nn.BatchNorm2d(4, eps=0.001, momentum=0.0)" in (tmp_path / "port" / "port.py").read_text()
        assert [note for note in judged["notes"] if "net/last/moving_mean has no counterpart" in note]
