"""Towers whose losses are averaged, with one minimize: the closest relative of DataParallel (Python 3.7 and up)."""

import numpy as np
import tensorflow.compat.v1 as tf

import tf_towers

tf.disable_v2_behavior()


def measure(x, y, weights, count, momentum):
    def tower(x, y):
        w = tf.get_variable("w", [len(weights)], x.dtype, tf.constant_initializer(weights))
        images = tf.reshape(tf.tensordot(x, w, 1), [-1, 1, 1, 1])
        normal = tf_towers.batch_norm(images, "norm", momentum, epsilon=1e-3)
        return tf.reduce_mean(tf.square(tf.tanh(normal[:, 0, 0, 0]) - y))

    shapes = {"x": ("float64", list(np.shape(x))), "y": ("float64", list(np.shape(y)))}
    training = tf_towers.build(
        tower,
        inputs=shapes,
        towers=count,
        optimizer=lambda: tf.train.GradientDescentOptimizer(0.125),
        reduce="mean_of_losses",
        batch_norm_updates="first",
    )
    stepper = tf_towers.Stepper(training, tf_towers.session(training.graph, count))
    stepper.initialize()
    recorded = stepper.step({"x": np.array(x), "y": np.array(y)})
    statistics = {name: value for name, value in stepper.state().items() if name.endswith("moving_mean")}
    stepper.close()
    return {"gradient": recorded["grad/w"], "moving_mean": next(iter(statistics.values()))[0]}
