"""The legacy side: one dense layer, its examples weighted where the batch was padded."""

import tensorflow.compat.v1 as tf


def tower(features, targets, example_weights=None):
    """Returns the mean squared error over what counts in this tower's shard, and the layer's output."""
    kernel = tf.get_variable("kernel", [5, 3], features.dtype, tf.glorot_uniform_initializer(dtype=features.dtype))
    bias = tf.get_variable("bias", [3], features.dtype, tf.zeros_initializer())
    out = tf.tanh(tf.matmul(features, kernel) + bias)
    losses = tf.reduce_mean(tf.square(out - targets), axis=1)
    if example_weights is None:
        return tf.reduce_mean(losses), {"out": out}
    return tf.reduce_sum(losses * example_weights) / tf.reduce_sum(example_weights), {"out": out}
