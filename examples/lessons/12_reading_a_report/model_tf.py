"""The tower, as it stands in the old code."""

import tensorflow.compat.v1 as tf


def tower(inputs, labels):
    hidden = tf.nn.relu(dense(inputs, 8, "hidden"))
    logits = dense(hidden, 3, "logits")
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    return loss, {"hidden": hidden, "logits": logits}


def dense(x, units, name):
    with tf.variable_scope(name):
        kernel = tf.get_variable(
            "kernel", [int(x.shape[-1]), units], x.dtype, tf.glorot_uniform_initializer(dtype=x.dtype)
        )
        return tf.matmul(x, kernel) + tf.get_variable("bias", [units], x.dtype, tf.zeros_initializer())
