"""The legacy side: two dense layers, each before a batch norm, and a third."""

import tensorflow.compat.v1 as tf

from tf_towers import batch_norm


def tower(features, targets, training=True, example_weights=None):
    """Returns the mean squared error over this tower's shard, and what the layers give."""
    first = normed(dense(features, 3, "first"), "norm1", training)
    second = normed(dense(tf.tanh(first), 3, "second"), "norm2", training)
    losses = tf.reduce_mean(tf.square(dense(tf.tanh(second), 2, "out") - targets), axis=1)
    if example_weights is None:
        return tf.reduce_mean(losses), {"first": first, "second": second}
    return tf.reduce_sum(losses * example_weights) / tf.reduce_sum(example_weights), {"first": first, "second": second}


def dense(x, units, name):
    """Returns ``x @ kernel + bias``, ``[shard, units]``."""
    with tf.variable_scope(name):
        kernel = tf.get_variable(
            "kernel", [int(x.shape[-1]), units], x.dtype, tf.glorot_uniform_initializer(dtype=x.dtype)
        )
        return tf.matmul(x, kernel) + tf.get_variable("bias", [units], x.dtype, tf.zeros_initializer())


def normed(x, name, training):
    """Returns `x`, ``[shard, 3]``, normalised over the examples."""
    return tf.reshape(batch_norm(tf.reshape(x, [-1, 1, 1, 3]), name, momentum=0.9, training=training), [-1, 3])
