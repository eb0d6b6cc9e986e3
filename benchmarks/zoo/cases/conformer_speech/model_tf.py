"""Keyword classifier of one conformer block on subsampled features."""
import numpy as np
import tensorflow.compat.v1 as tf

DIM = 16
HEADS = 4
FF = 48
KERNEL = 5
CLASSES = 6
L2 = 1e-3


def position_signal(length, channels):
    """Sines in the first half of the channels, cosines in the second."""
    position = np.arange(length)
    num_timescales = channels // 2
    increment = np.log(1.0e4) / (num_timescales - 1)
    inv_timescales = np.exp(np.arange(num_timescales) * -increment)
    scaled_time = position[:, None] * inv_timescales[None, :]
    return np.concatenate([np.sin(scaled_time), np.cos(scaled_time)], axis=1)


def layer_norm(x, name):
    with tf.variable_scope(name):
        gamma = tf.get_variable("gamma", [DIM], x.dtype, tf.ones_initializer())
        beta = tf.get_variable("beta", [DIM], x.dtype, tf.zeros_initializer())
        mean, variance = tf.nn.moments(x, [-1], keep_dims=True)
        return tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-6)


def swish(x):
    return x * tf.sigmoid(x)


def ff_module(x, name):
    with tf.variable_scope(name):
        y = layer_norm(x, "ln")
        y = swish(tf.layers.dense(y, FF, name="dense_1"))
        y = tf.layers.dense(y, DIM, name="dense_2")
        return x + 0.5 * y


def mhsa_module(x, mask, name):
    with tf.variable_scope(name):
        y = layer_norm(x, "ln")
        batch, length = tf.shape(x)[0], x.shape.as_list()[1]

        def heads(z):
            return tf.transpose(tf.reshape(z, [batch, length, HEADS, DIM // HEADS]), [0, 2, 1, 3])

        query = heads(tf.layers.dense(y, DIM, name="query")) * (DIM // HEADS) ** -0.5
        key = heads(tf.layers.dense(y, DIM, name="key"))
        value = heads(tf.layers.dense(y, DIM, name="value"))
        logits = tf.matmul(query, key, transpose_b=True) + (1.0 - mask[:, None, None, :]) * -1e9
        y = tf.matmul(tf.nn.softmax(logits), value)
        y = tf.reshape(tf.transpose(y, [0, 2, 1, 3]), [batch, length, DIM])
        return x + tf.layers.dense(y, DIM, name="output")


def conv_module(x, mask, training, name):
    with tf.variable_scope(name):
        y = layer_norm(x, "ln")
        y = tf.layers.conv1d(y, 2 * DIM, 1, name="pw_conv_1")
        y, gate = tf.split(y, 2, axis=-1)
        y = y * tf.sigmoid(gate)
        y = y * mask[:, :, None]
        kernel = tf.get_variable("dw_conv/kernel", [KERNEL, 1, DIM, 1], x.dtype,
                                 initializer=tf.random_normal_initializer(stddev=KERNEL ** -0.5))
        bias = tf.get_variable("dw_conv/bias", [DIM], x.dtype, initializer=tf.zeros_initializer())
        y = tf.nn.depthwise_conv2d(tf.expand_dims(y, 2), kernel, [1, 1, 1, 1], "SAME")
        y = tf.squeeze(y, 2) + bias
        y = tf.layers.batch_normalization(y, momentum=0.98, epsilon=1e-3, training=training, name="bn")
        y = tf.layers.conv1d(swish(y), DIM, 1, name="pw_conv_2")
        return x + y


def tower(features, frames, labels, training=True):
    with tf.variable_scope("conformer"):
        x = tf.layers.conv1d(features, DIM, 3, strides=2, padding="same", activation=tf.nn.relu, name="subsampling")
        length = x.shape.as_list()[1]
        mask = tf.sequence_mask((frames + 1) // 2, length, dtype=x.dtype)
        x = x + tf.constant(position_signal(length, DIM), x.dtype)
        with tf.variable_scope("block_0"):
            x = ff_module(x, "ff_module_1")
            x = mhsa_module(x, mask, "mhsa_module")
            attended = x
            x = conv_module(x, mask, training, "conv_module")
            x = ff_module(x, "ff_module_2")
            x = layer_norm(x, "ln")
        encoded = x
        x = tf.reduce_sum(x * mask[:, :, None], axis=1) / tf.reduce_sum(mask, axis=1, keepdims=True)
        logits = tf.layers.dense(x, CLASSES, name="logits")
    xent = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    l2 = tf.add_n([tf.nn.l2_loss(v) for v in tf.trainable_variables() if v.op.name.endswith("kernel")])
    return xent + L2 * l2, {"attended": attended, "encoded": encoded, "logits": logits, "cross_entropy": xent}
