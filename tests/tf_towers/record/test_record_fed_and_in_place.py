"""Recording scripts that feed what is no placeholder, and scripts whose forward pass writes variables."""

import numpy as np
import pytest

from parity.trace import Trace

from .conftest import run_bare, run_recorded

FED = """
import numpy as np
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
x = tf.placeholder(tf.float32, [2, 3], "x")
state = tf.zeros([2, 3], name="first_state")
w = tf.get_variable("w", [3, 3], initializer=tf.random_normal_initializer(seed=1))
last = tf.tanh(tf.matmul(x, w) + state)
train = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(tf.square(last - 1.0)))
random = np.random.RandomState(0)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    held = session.run(state)
    for _ in range(3):
        held, _ = session.run([last, train], {x: random.randn(2, 3), state: held})
"""
IN_PLACE = """
import os
import numpy as np
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
x = tf.placeholder(tf.float32, [4, 3], "x")
w = tf.get_variable("w", [3, 2], initializer=tf.random_normal_initializer(seed=1))
moving = tf.get_variable("moving", [2], initializer=tf.zeros_initializer(), trainable=False)
y = tf.matmul(x, w)
with tf.control_dependencies([tf.assign(moving, 0.9 * moving + 0.1 * tf.reduce_mean(y, 0))]):
    loss = tf.reduce_mean(tf.square(tf.identity(y)))
train = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
random = np.random.RandomState(0)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for _ in range(3):
        session.run(train, {x: random.randn(4, 3)})
    print(session.run(moving).tobytes().hex(), session.run(w).tobytes().hex())
"""


@pytest.fixture
def write(tmp_path):
    def write(text):
        (tmp_path / "script.py").write_text(text)
        return tmp_path / "script.py"

    return write


@pytest.mark.slow
def test_a_fed_tensor_that_is_no_placeholder_is_an_input(tf_python, tmp_path, write):
    done = run_recorded(tf_python, write(FED), options=(), cwd=tmp_path)
    assert done.code == 0, done.said
    step, shadow = done.trace.step(2), Trace(done.out / "shadow").step(2)
    assert set(done.trace.facts["inputs"]) == {"x", "first_state"}
    assert np.any(step.read("feed/0/first_state"))
    np.testing.assert_allclose(shadow.read("grad/w"), step.read("grad/w"), rtol=1e-5, atol=1e-7)


@pytest.mark.slow
def test_a_forward_pass_that_writes_statistics_runs_once_a_step(tf_python, tmp_path, write):
    script = write(IN_PLACE)
    bare = run_bare(tf_python, script, cwd=tmp_path)
    done = run_recorded(tf_python, script, options=(), cwd=tmp_path)
    assert bare.stdout, bare.stderr
    assert done.printed == bare.stdout
    assert done.trace.facts["observed"] == "inside"
    step, shadow = done.trace.step(1), Trace(done.out / "shadow").step(1)
    for key in ("stat/moving", "grad/w", "var/w"):
        np.testing.assert_allclose(shadow.read(key), step.read(key), rtol=1e-5, atol=1e-7)
