"""The legacy side: the larger of two sums of products, the second where they tie, and a rectified third."""

import tensorflow.compat.v1 as tf


def tower(features, targets):
    """Returns the mean squared error over this tower's shard, and the larger sum."""
    weights = tf.get_variable("weights", [2, 1], features.dtype, tf.constant_initializer(0.5))
    zeros = tf.get_variable("zeros", [4, 1], features.dtype, tf.zeros_initializer())
    one, other = tf.matmul(features[:, :2], weights), tf.matmul(features[:, 2:], weights)
    larger = tf.where(one > other, one, other) + tf.nn.relu(tf.matmul(features, zeros))
    return tf.reduce_mean(tf.square(larger[:, 0] - targets)), {"larger": larger}
