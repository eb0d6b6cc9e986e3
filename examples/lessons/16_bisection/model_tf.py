"""The tower, as it stands in the old code: four blocks of a dense layer, a layer norm and a tanh."""

import tensorflow.compat.v1 as tf

BLOCKS = 4
EPSILON = 1e-6


def tower(inputs, labels):
    seen, x = {}, inputs
    for place in range(BLOCKS):
        with tf.variable_scope("block%d" % place):
            x = seen["dense%d" % place] = dense(x, 8, "dense")
            x = seen["norm%d" % place] = layer_norm(x, "norm")
            x = seen["tanh%d" % place] = tf.tanh(x)
    logits = seen["logits"] = dense(x, 3, "logits")
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    return loss, seen


def dense(x, units, name):
    with tf.variable_scope(name):
        kernel = tf.get_variable(
            "kernel", [int(x.shape[-1]), units], x.dtype, tf.glorot_uniform_initializer(dtype=x.dtype)
        )
        return tf.matmul(x, kernel) + tf.get_variable("bias", [units], x.dtype, tf.zeros_initializer())


def layer_norm(x, name):
    with tf.variable_scope(name):
        gamma = tf.get_variable("gamma", [int(x.shape[-1])], x.dtype, tf.ones_initializer())
        beta = tf.get_variable("beta", [int(x.shape[-1])], x.dtype, tf.zeros_initializer())
        mean, variance = tf.nn.moments(x, [-1], keep_dims=True)
        return (x - mean) * tf.rsqrt(variance + EPSILON) * gamma + beta
