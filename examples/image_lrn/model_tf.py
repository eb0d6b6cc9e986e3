"""The legacy side: one tower of an image net, with the parts that the CIFAR-10 tutorial made popular."""

import tensorflow.compat.v1 as tf

from tf_towers import local_response_normalization


def tower(images, labels, training=True):
    """Returns the loss over this tower's shard, weight decay included, and what else to compare.

    Args:
      images: ``[shard, 28, 28, 1]``.
      labels: int32 ``[shard]``.
      training: nothing here depends on it; after training the averages stand in for the weights, from outside.
    """
    norm1 = normalise(pool(conv(images, 8, "conv1")))
    norm2 = normalise(conv(norm1, 12, "conv2"))
    flat = tf.reshape(pool(norm2), [-1, 7 * 7 * 12])
    local3 = tf.nn.relu(dense(flat, 32, "local3", decay=0.004))
    local4 = tf.nn.relu(dense(local3, 24, "local4", decay=0.004))
    logits = dense(local4, 10, "logits")
    cross_entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    tf.add_to_collection("losses", tf.reduce_mean(cross_entropy))
    # Only the terms that this tower has put there: the collection is the graph's, and holds those of all towers.
    scope = tf.get_default_graph().get_name_scope()
    loss = tf.add_n(tf.get_collection("losses", scope + "/"))
    return loss, {"norm1": norm1, "norm2": norm2, "local3": local3, "local4": local4, "logits": logits}


def conv(x, channels, name):
    """Convolves 5x5 and rectifies: ``[n, h, w, c]`` to ``[n, h, w, channels]``."""
    with tf.variable_scope(name):
        kernel = weights([5, 5, int(x.shape[-1]), channels], x.dtype)
        bias = tf.get_variable("bias", [channels], x.dtype, tf.zeros_initializer())
        return tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, kernel, strides=[1, 1, 1, 1], padding="SAME"), bias))


def pool(x):
    """Takes the largest of overlapping 3x3 windows: ``[n, h, w, c]`` to ``[n, h / 2, w / 2, c]``."""
    return tf.nn.max_pool(x, ksize=[1, 3, 3, 1], strides=[1, 2, 2, 1], padding="SAME")


def normalise(x):
    # tf.nn.lrn as it stands in old code has a kernel for float32 only; this is that kernel, and its formula in float64.
    return local_response_normalization(x, depth_radius=2, bias=1.0, alpha=0.001 / 9.0, beta=0.75)


def dense(x, units, name, decay=None):
    with tf.variable_scope(name):
        kernel = weights([int(x.shape[-1]), units], x.dtype)
        if decay is not None:
            tf.add_to_collection("losses", decay * tf.nn.l2_loss(kernel))
        bias = tf.get_variable("bias", [units], x.dtype, tf.constant_initializer(0.1))
        return tf.matmul(x, kernel) + bias


def weights(shape, dtype):
    return tf.get_variable("kernel", shape, dtype, tf.glorot_uniform_initializer(dtype=dtype))
