"""Two towers of which the first moves an average of its inputs that is corrected for where it starts."""

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.training.moving_averages import assign_moving_average

tf.disable_v2_behavior()


def loss(piece, tower):
    kernel = tf.get_variable("kernel", [3, 2], initializer=tf.constant_initializer(np.arange(6.0).reshape(3, 2) / 7))
    mean = tf.get_variable("mean", [2], trainable=False, initializer=tf.zeros_initializer())
    y = tf.matmul(piece, kernel)
    if not tower:
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, assign_moving_average(mean, tf.reduce_mean(y, 0), 0.875))
    return tf.reduce_mean(tf.square(y - 1.0))


def main():
    x, opt, towers = tf.placeholder(tf.float32, [4, 3], "x"), tf.train.GradientDescentOptimizer(0.1), []
    for number, piece in enumerate(tf.split(x, 2)):
        with tf.name_scope(f"tower_{number}"), tf.variable_scope("net", reuse=number > 0):
            towers.append(opt.compute_gradients(loss(piece, number)))
    combined = [(tf.add_n([a, b]) / 2.0, variable) for (a, variable), (b, _) in zip(*towers)]  # noqa: B905  Python 3.7
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train = opt.apply_gradients(combined)
    draw = np.random.RandomState(0)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            session.run(train, {x: draw.randn(4, 3)})


if __name__ == "__main__":
    main()
