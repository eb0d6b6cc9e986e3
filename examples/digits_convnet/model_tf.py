"""The legacy side: one tower of the convolutional net, channels last."""

import tensorflow.compat.v1 as tf

from tf_towers import batch_norm


def tower(images, labels, training=True):
    """Returns the mean cross entropy over this tower's shard, and what else to compare.

    Args:
      images: ``[shard, 28, 28, 1]``.
      labels: int32 ``[shard]``.
      training: normalise with this shard's statistics, or with the moving ones.
    """
    layer1 = block(images, 16, "layer1", training)
    layer2 = block(layer1, 32, "layer2", training)
    logits = dense(tf.reshape(layer2, [-1, 7 * 7 * 32]), 10, "logits")
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    return loss, {"layer1": layer1, "layer2": layer2, "logits": logits}


def block(x, channels, name, training):
    """Convolves 5x5, normalises, rectifies, pools 2x2: ``[n, h, w, c]`` to ``[n, h / 2, w / 2, channels]``."""
    with tf.variable_scope(name):
        shape = [5, 5, int(x.shape[-1]), channels]
        kernel = tf.get_variable("conv/kernel", shape, x.dtype, tf.glorot_uniform_initializer(dtype=x.dtype))
        bias = tf.get_variable("conv/bias", [channels], x.dtype, tf.zeros_initializer())
        x = tf.nn.conv2d(x, kernel, strides=[1, 1, 1, 1], padding="SAME") + bias
        x = tf.nn.relu(batch_norm(x, "norm", training=training))
        return tf.nn.max_pool(x, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")


def dense(x, units, name):
    with tf.variable_scope(name):
        size = int(x.shape[-1])
        kernel = tf.get_variable("kernel", [size, units], x.dtype, tf.glorot_uniform_initializer(dtype=x.dtype))
        bias = tf.get_variable("bias", [units], x.dtype, tf.zeros_initializer())
        return tf.matmul(x, kernel) + bias
