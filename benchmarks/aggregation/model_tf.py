"""The towers: two words looked up and added, then a dense layer."""

import tensorflow.compat.v1 as tf


def tower(words, targets):
    """Returns the mean squared error over this tower's shard."""
    table = tf.get_variable("table", [10, 4], targets.dtype, tf.random_uniform_initializer(-1.0, 1.0, seed=1))
    kernel = tf.get_variable("kernel", [4, 3], targets.dtype, tf.random_uniform_initializer(-1.0, 1.0, seed=2))
    looked_up = tf.reduce_sum(tf.nn.embedding_lookup(table, words), 1)
    return tf.reduce_mean(tf.square(tf.matmul(looked_up, kernel) - targets))
