"""The largest of windows over three axes, which TensorFlow computes in float32 alone, is written out in float64."""

from pathlib import Path

from .conftest import run

CODE = """
import sys
sys.path.insert(0, {root!r})
import numpy as np
import tensorflow.compat.v1 as tf
from tf_towers.float64.op_rewrites import EXPANSIONS
tf.disable_eager_execution()
random = np.random.RandomState(0)
for padding in ("SAME", "VALID"):
    for window, steps in (([2, 3, 2], [2, 2, 1]), ([1, 2, 2], [1, 2, 2]), ([3, 2, 3], [1, 1, 2])):
        attributes = dict(ksize=[1, *window, 1], strides=[1, *steps, 1], padding=padding)
        x = random.randn(2, 5, 6, 7, 3)
        with tf.Graph().as_default(), tf.Session() as session:
            single = tf.constant(x.astype(np.float32))
            pooled = tf.nn.max_pool3d(single, attributes["ksize"], attributes["strides"], padding)
            dy = random.randn(*session.run(pooled).shape)
            wide = tf.placeholder(tf.float64)
            own = [*EXPANSIONS["MaxPool3D"]([wide], attributes)]
            own += EXPANSIONS["MaxPool3DGrad"]([wide, own[0], tf.constant(dy)], attributes)
            theirs = [pooled, *tf.gradients(pooled, single, tf.constant(dy.astype(np.float32)))]
            for one, other in zip(session.run(own, {{wide: x}}), session.run(theirs)):
                print(one.dtype == np.float64 and one.shape == other.shape and np.abs(one - other).max() < 1e-5)
"""


def test_largest_elements_and_their_gradients_are_those_of_the_op(tf_python, tmp_path):
    script = tmp_path / "pooled.py"
    script.write_text(CODE.format(root=str(Path(__file__).parents[3])), encoding="utf-8")
    done = run(tf_python, [str(script)], tmp_path)
    assert done.stdout.split() == ["True"] * 12, done.stdout + done.stderr[-2000:]
