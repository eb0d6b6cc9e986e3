"""The legacy side: one layer makes points, another tells them from real ones."""

import tensorflow.compat.v1 as tf


def tower(noise, points):
    """Returns the generator's loss, and as `fooled` the discriminator's."""
    with tf.variable_scope("generator"):
        made = dense(noise, 3, 2)
    with tf.variable_scope("discriminator"):
        real = dense(points, 2, 1)
    with tf.variable_scope("discriminator", reuse=True):
        fake = dense(made, 2, 1)
    fooled = tf.reduce_mean(tf.nn.softplus(-real)) + tf.reduce_mean(tf.nn.softplus(fake))
    return tf.reduce_mean(tf.nn.softplus(-fake)), {"made": made, "fooled": fooled}


def dense(x, size, units):
    kernel = tf.get_variable("kernel", [size, units], x.dtype, tf.glorot_uniform_initializer(dtype=x.dtype))
    bias = tf.get_variable("bias", [units], x.dtype, tf.zeros_initializer())
    return tf.matmul(x, kernel) + bias
