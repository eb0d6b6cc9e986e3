"""The legacy side: one tower, as it stands inside a `for i in range(num_gpus)` loop."""

import tensorflow.compat.v1 as tf


def tower(images, labels, training=True):
    """Returns the mean cross entropy over this tower's shard, and what else to compare.

    Args:
      images: ``[shard, 28, 28, 1]``.
      labels: int32 ``[shard]``.
      training: nothing here depends on it; that it is taken has the net judged after training too.
    """
    pixels = tf.reshape(images, [-1, 784])
    hidden = tf.nn.relu(dense(pixels, 64, "hidden"))
    logits = dense(hidden, 10, "logits")
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    return loss, {"hidden": hidden, "logits": logits}


def dense(x, units, name):
    with tf.variable_scope(name):
        size = int(x.shape[-1])
        kernel = tf.get_variable("kernel", [size, units], x.dtype, tf.glorot_uniform_initializer(dtype=x.dtype))
        bias = tf.get_variable("bias", [units], x.dtype, tf.zeros_initializer())
        return tf.matmul(x, kernel) + bias
