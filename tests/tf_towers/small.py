"""Small towers and what tests ask of graphs (Python 3.7 and up; imported by the TensorFlow process only)."""

import numpy as np
import tensorflow.compat.v1 as tf

import tf_towers


def linear(x, y):
    """Mean squared error of a matrix and a bias: ``x [n, 3]``, ``y [n, 2]``."""
    w = tf.get_variable("w", [3, 2], x.dtype, tf.ones_initializer())
    b = tf.get_variable("b", [2], x.dtype, tf.zeros_initializer())
    return tf.reduce_mean(tf.square(tf.matmul(x, w) + b - y))


def inputs(batch, dtype="float64"):
    """The inputs of `linear`."""
    return {"x": (dtype, [batch, 3]), "y": (dtype, [batch, 2])}


def batch(size, seed=0, dtype="float64"):
    """A batch for `linear`."""
    random = np.random.RandomState(seed)
    return {"x": random.randn(size, 3).astype(dtype), "y": random.randn(size, 2).astype(dtype)}


def sgd(rate=0.5):
    """Makes a function that makes the optimizer."""
    return lambda: tf.train.GradientDescentOptimizer(rate)


def stepper(training):
    """Opens a session over a training and initialises it."""
    opened = tf_towers.Stepper(training, tf_towers.session(training.graph, len(training.towers)))
    opened.initialize()
    return opened


def run(fetches, towers=1, graph=None):
    """Initialises every variable and runs `fetches` once."""
    with tf_towers.session(graph or tf.get_default_graph(), towers) as opened:
        with opened.graph.as_default():
            opened.run(tf.global_variables_initializer())
        return opened.run(fetches)


def cpu(device):
    """Returns "/cpu:1" for a device's full name, upper case or lower."""
    return "/cpu:" + device.lower().split("cpu:")[-1]


def gradient_scopes(training):
    """Returns the name scope of each tower's gradients, e.g. "tower_0/gradients/tower_0"."""
    return [f"tower_{index}/gradients/tower_{index}" for index in range(len(training.towers))]


def refused(function, *arguments, **keywords):
    """Returns the message of the ValueError that a call raises."""
    try:
        function(*arguments, **keywords)
    except ValueError as error:
        return str(error)
    raise AssertionError("nothing was refused")


def moving_averages():
    """TensorFlow's own module of moving averages, which `tf.layers` and slim call."""
    from tensorflow.python.training import moving_averages

    return moving_averages


def eager_mode():
    """Turns eager execution on for a while."""
    from tensorflow.python.eager import context

    return context.eager_mode()
