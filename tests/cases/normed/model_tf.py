"""The legacy side: batch norm, then a dense layer."""

import tensorflow.compat.v1 as tf

from tf_towers import batch_norm


def tower(images, targets):
    """Returns the mean squared error over this tower's shard, and what the batch norm gives."""
    normed = tf.reshape(batch_norm(images, "norm", momentum=0.9), [-1, 3])
    kernel = tf.get_variable("kernel", [3, 2], images.dtype, tf.glorot_uniform_initializer(dtype=images.dtype))
    return tf.reduce_mean(tf.square(tf.matmul(normed, kernel) - targets)), {"normed": normed}
