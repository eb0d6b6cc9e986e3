"""Least-squares GAN with spectral normalisation of the discriminator; both networks are updated at once, at two rates.

The vectors u are refreshed by a separate call between epochs, in which nothing trains.
"""
import tensorflow.compat.v1 as tf

REAL_LABEL = 0.9  # one-sided smoothing
POWER_ITERATIONS = 2
INIT = tf.random_normal_initializer(stddev=0.02)


def lrelu(x, leak=0.2):
    return tf.maximum(x, leak * x)


def l2_norm(v, eps=1e-12):
    return v / (tf.reduce_sum(v ** 2) ** 0.5 + eps)


def spectral_norm(w):
    w_shape = w.shape.as_list()
    matrix = tf.reshape(w, [-1, w_shape[-1]])
    u = tf.get_variable("u", [1, w_shape[-1]], w.dtype.base_dtype, tf.random_normal_initializer(), trainable=False)
    u_hat = u
    for _ in range(POWER_ITERATIONS):
        v_hat = l2_norm(tf.matmul(u_hat, matrix, transpose_b=True))
        u_hat = l2_norm(tf.matmul(v_hat, matrix))
    u_hat, v_hat = tf.stop_gradient(u_hat), tf.stop_gradient(v_hat)
    sigma = tf.matmul(tf.matmul(v_hat, matrix), u_hat, transpose_b=True)
    return w / tf.reshape(sigma, [])


def sn_conv(x, channels, kernel, stride, scope):
    with tf.variable_scope(scope):
        w = tf.get_variable("kernel", [kernel, kernel, x.shape.as_list()[-1], channels], x.dtype, INIT)
        b = tf.get_variable("bias", [channels], x.dtype, tf.zeros_initializer())
        return tf.nn.bias_add(tf.nn.conv2d(x, spectral_norm(w), [1, stride, stride, 1], padding="SAME"), b)


def deconv(x, channels, scope):
    with tf.variable_scope(scope):
        return tf.layers.conv2d_transpose(x, channels, 5, strides=2, padding="SAME", use_bias=False,
                                          kernel_initializer=INIT, name="deconv")


def batch_norm(x, training, scope):
    return tf.layers.batch_normalization(x, momentum=0.9, epsilon=1e-5, training=training, fused=False, name=scope)


def generator(z, training):
    with tf.variable_scope("generator"):
        x = tf.layers.dense(z, 4 * 4 * 32, use_bias=False, kernel_initializer=INIT, name="fc")
        x = tf.reshape(tf.nn.relu(batch_norm(x, training, "bn0")), [-1, 4, 4, 32])
        x = tf.nn.relu(batch_norm(deconv(x, 16, "up1"), training, "bn1"))
        bias = tf.get_variable("bias", [1], x.dtype, tf.zeros_initializer())
        return tf.nn.tanh(deconv(x, 1, "up2") + bias)


def discriminator(x):
    with tf.variable_scope("discriminator"):
        x = lrelu(sn_conv(x, 12, 3, 1, "conv_a"))
        x = lrelu(sn_conv(x, 16, 4, 2, "conv_b"))
        x = lrelu(sn_conv(x, 24, 4, 2, "conv_c"))
        features = tf.reduce_sum(x, [1, 2])
        with tf.variable_scope("score"):
            w = tf.get_variable("kernel", [24, 1], x.dtype, INIT)
            b = tf.get_variable("bias", [1], x.dtype, tf.zeros_initializer())
            return tf.matmul(features, spectral_norm(w)) + b


def tower(images, noise, training=True):
    fake = generator(noise, training)
    # one pass over both, so that every weight is normalised once
    scores = discriminator(tf.concat([images, fake], axis=0))
    real_score, fake_score = tf.split(scores, 2, axis=0)
    d_real = 0.5 * tf.reduce_mean(tf.square(real_score - REAL_LABEL))
    d_fake = 0.5 * tf.reduce_mean(tf.square(fake_score))
    g_loss = 0.5 * tf.reduce_mean(tf.square(fake_score - 1.0))
    return d_real + d_fake, {"fake": fake, "scores": scores, "d_real": d_real, "d_fake": d_fake, "g_loss": g_loss}
