import tensorflow.compat.v1 as tf

from tf_towers import batch_norm


def tower(x, y, training=True):
    first = dense(x, 3, "first")
    normalised = tf.reshape(batch_norm(tf.reshape(first, [-1, 1, 1, 3]), "norm", 0.9, training=training), [-1, 3])
    second = dense(tf.tanh(normalised), 2, "second")
    return tf.reduce_mean(tf.square(second - y)), {"first": first, "second": second}


def dense(x, units, name):
    with tf.variable_scope(name):
        kernel = tf.get_variable("kernel", [int(x.shape[-1]), units], x.dtype)
        return tf.matmul(x, kernel) + tf.get_variable("bias", [units], x.dtype, tf.zeros_initializer())
