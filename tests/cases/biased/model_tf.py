"""The legacy side: a layer with a bias, a batch norm of this shard, a tangent, and a layer without one."""

import tensorflow.compat.v1 as tf


def tower(features, prices):
    """Returns the summed squared error over this tower's shard."""

    def variable(name, shape, init):
        return tf.get_variable(name, shape, features.dtype, init)

    weights = variable("weights", [3, 4], tf.random_uniform_initializer(-0.5, 0.5, seed=5, dtype=features.dtype))
    x = tf.matmul(features, weights) + variable("bias", [4], tf.zeros_initializer())
    gamma, beta = variable("gamma", [4], tf.ones_initializer()), variable("beta", [4], tf.zeros_initializer())
    mean, variance = tf.nn.moments(x, [0])
    x = tf.nn.tanh(tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-3))
    out = variable("out", [4, 1], tf.random_uniform_initializer(-0.5, 0.5, seed=6, dtype=features.dtype))
    return tf.reduce_sum(tf.square(tf.matmul(x, out) - prices))
