"""The legacy side: two words looked up and added, then a dense layer."""

import tensorflow.compat.v1 as tf


def tower(words, targets):
    """Returns the mean squared error over this tower's shard, and the sum of the words' rows."""
    table = tf.get_variable("table", [10, 4], targets.dtype, tf.random_uniform_initializer(-1.0, 1.0))
    kernel = tf.get_variable("kernel", [4, 3], targets.dtype, tf.glorot_uniform_initializer(dtype=targets.dtype))
    words = tf.reduce_sum(tf.nn.embedding_lookup(table, words), 1)
    return tf.reduce_mean(tf.square(tf.matmul(words, kernel) - targets)), {"words": words}
