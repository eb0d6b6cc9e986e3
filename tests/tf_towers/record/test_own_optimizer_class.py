"""Optimizers of a class that the script has itself: the numbers of their updates are the script's."""

from pathlib import Path

from .conftest import run

CODE = """
import sys
sys.path.insert(0, {root!r})
import tensorflow.compat.v1 as tf
from tf_towers.record.hooks import ApplyCall
from tf_towers.record.manual_updates import is_by_hand

class Taking(tf.train.Optimizer):
    def __init__(self):
        super().__init__(False, "Taking")
    def _apply_dense(self, grad, var):
        return tf.assign_sub(var, 0.1 * grad)

class Renamed(tf.train.GradientDescentOptimizer):
    pass

for make in (Taking, lambda: Renamed(0.1), lambda: tf.train.GradientDescentOptimizer(0.1)):
    with tf.Graph().as_default():
        weight = tf.get_variable("w", [3], use_resource=False)
        optimizer = make()
        pairs = optimizer.compute_gradients(tf.reduce_sum(weight * weight))
        print(is_by_hand(ApplyCall(optimizer, pairs, None, optimizer.apply_gradients(pairs))))
"""


def test_updates_that_a_class_of_the_script_computes_are_written_by_hand(tf_python, tmp_path):
    script = tmp_path / "classes.py"
    script.write_text(CODE.format(root=str(Path(__file__).parents[3])), encoding="utf-8")
    done = run(tf_python, [str(script)], tmp_path)
    assert done.stdout.split() == ["True", "False", "False"], done.stderr[-2000:]
