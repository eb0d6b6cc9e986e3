"""A batch that the towers do not divide, by the ways that legacy code knows (Python 3.7 and up)."""

import numpy as np
import tensorflow.compat.v1 as tf

import tf_towers

tf.disable_v2_behavior()


def gradient(x, y, weights, towers, uneven, reduce):
    def tower(x, y):
        w = tf.get_variable("w", [len(weights)], x.dtype, tf.constant_initializer(weights))
        return tf.reduce_mean(tf.square(tf.tensordot(x, w, 1) - y))

    training = tf_towers.build(
        tower,
        inputs={"x": ("float64", list(np.shape(x))), "y": ("float64", list(np.shape(y)))},
        towers=towers,
        optimizer=lambda: tf.train.GradientDescentOptimizer(0.125),
        uneven=uneven,
        reduce=reduce,
    )
    stepper = tf_towers.Stepper(training, tf_towers.session(training.graph, towers))
    stepper.initialize()
    recorded = stepper.step({"x": np.array(x), "y": np.array(y)})
    stepper.close()
    return recorded["grad/w"], [len(recorded["feed/%d/x" % index]) for index in range(towers)]


def measure(x, y, weights, ranks):
    mean, sizes = gradient(x, y, weights, ranks, "sizes", "mean")
    examples, _ = gradient(x, y, weights, ranks, "sizes", "examples")
    drop, kept = gradient(x, y, weights, ranks, "drop", "mean")
    return {"mean": mean, "examples": examples, "drop": drop, "sizes": sizes, "kept": kept}
