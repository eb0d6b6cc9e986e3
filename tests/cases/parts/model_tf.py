"""The legacy side: every tower has the first layer, towers 0 and 2 the second too."""

import tensorflow.compat.v1 as tf

TOWERS = 3


def tower(features, targets):
    """Returns the mean squared error over this tower's shard."""
    index = tower.calls % TOWERS
    tower.calls += 1
    first = dense(features, "first")
    second = dense(first, "second")
    out = second if index % 2 == 0 else first
    return tf.reduce_mean(tf.square(out - targets)), {"out": out}


tower.calls = 0


def dense(x, name):
    with tf.variable_scope(name):
        kernel = tf.get_variable("kernel", [4, 4], x.dtype, tf.glorot_uniform_initializer(dtype=x.dtype))
        bias = tf.get_variable("bias", [4], x.dtype, tf.zeros_initializer())
        return tf.tanh(tf.matmul(x, kernel) + bias)
