"""A progressively grown GAN while its second resolution, 8x8, fades in; WGAN-GP losses."""
import numpy as np
import tensorflow.compat.v1 as tf

NF = 12
LOD = 0.4              # 0: the new resolution counts alone
WGAN_LAMBDA = 10.0
WGAN_EPSILON = 0.001


def lerp(a, b, t):
    return a + (b - a) * t


def get_weight(shape, dtype, gain=np.sqrt(2), use_wscale=True):
    fan_in = np.prod(shape[:-1])
    std = gain / np.sqrt(fan_in)
    if use_wscale:
        wscale = tf.constant(std, dtype=dtype, name="wscale")
        return tf.get_variable("weight", shape, dtype, initializer=tf.random_normal_initializer()) * wscale
    return tf.get_variable("weight", shape, dtype, initializer=tf.random_normal_initializer(0, std))


def dense(x, fmaps, gain=np.sqrt(2)):
    if len(x.shape) > 2:
        x = tf.reshape(x, [-1, np.prod(x.shape.as_list()[1:])])
    return tf.matmul(x, get_weight([x.shape.as_list()[1], fmaps], x.dtype, gain=gain))


def conv2d(x, fmaps, kernel, gain=np.sqrt(2)):
    w = get_weight([kernel, kernel, x.shape.as_list()[-1], fmaps], x.dtype, gain=gain)
    return tf.nn.conv2d(x, w, strides=[1, 1, 1, 1], padding="SAME")


def apply_bias(x):
    return x + tf.get_variable("bias", [x.shape.as_list()[-1]], x.dtype, initializer=tf.initializers.zeros())


def act(x, alpha=0.2):
    alpha = tf.constant(alpha, dtype=x.dtype, name="alpha")
    return tf.maximum(x * alpha, x, name="LeakyReLU")


def upscale2d(x, factor=2):
    s = x.shape.as_list()
    x = tf.reshape(x, [-1, s[1], 1, s[2], 1, s[3]])
    x = tf.tile(x, [1, 1, factor, 1, factor, 1])
    return tf.reshape(x, [-1, s[1] * factor, s[2] * factor, s[3]])


def downscale2d(x, factor=2):
    return tf.nn.avg_pool(x, [1, factor, factor, 1], [1, factor, factor, 1], padding="VALID")


def pixel_norm(x, epsilon=1e-8):
    return x * tf.rsqrt(tf.reduce_mean(tf.square(x), axis=-1, keepdims=True) + tf.constant(epsilon, x.dtype))


def minibatch_stddev_layer(x, group_size=4):
    s = x.shape.as_list()
    y = tf.reshape(x, [group_size, -1, s[1], s[2], s[3]])
    y -= tf.reduce_mean(y, axis=0, keepdims=True)
    y = tf.reduce_mean(tf.square(y), axis=0)
    y = tf.sqrt(y + 1e-8)
    y = tf.reduce_mean(y, axis=[1, 2, 3], keepdims=True)
    y = tf.tile(y, [group_size, s[1], s[2], 1])
    return tf.concat([x, y], axis=3)


def G(latents):
    with tf.variable_scope("G", reuse=tf.AUTO_REUSE):
        x = pixel_norm(latents)
        with tf.variable_scope("4x4"):
            with tf.variable_scope("Dense"):
                x = dense(x, NF * 16, gain=np.sqrt(2) / 4)
                x = tf.reshape(x, [-1, 4, 4, NF])
                x = pixel_norm(act(apply_bias(x)))
            with tf.variable_scope("Conv"):
                x = pixel_norm(act(apply_bias(conv2d(x, NF, 3))))
        with tf.variable_scope("ToRGB_lod1"):
            images_old = apply_bias(conv2d(x, 3, 1, gain=1))
        with tf.variable_scope("8x8"):
            x = upscale2d(x)
            with tf.variable_scope("Conv0"):
                x = pixel_norm(act(apply_bias(conv2d(x, NF // 2, 3))))
            with tf.variable_scope("Conv1"):
                x = pixel_norm(act(apply_bias(conv2d(x, NF // 2, 3))))
        with tf.variable_scope("ToRGB_lod0"):
            images = apply_bias(conv2d(x, 3, 1, gain=1))
        return lerp(images, upscale2d(images_old), LOD)


def D(images):
    with tf.variable_scope("D", reuse=tf.AUTO_REUSE):
        with tf.variable_scope("FromRGB_lod0"):
            x = act(apply_bias(conv2d(images, NF // 2, 1)))
        with tf.variable_scope("8x8"):
            with tf.variable_scope("Conv0"):
                x = act(apply_bias(conv2d(x, NF // 2, 3)))
            with tf.variable_scope("Conv1"):
                x = downscale2d(act(apply_bias(conv2d(x, NF, 3))))
        with tf.variable_scope("FromRGB_lod1"):
            y = act(apply_bias(conv2d(downscale2d(images), NF, 1)))
        x = lerp(x, y, LOD)
        with tf.variable_scope("4x4"):
            x = minibatch_stddev_layer(x)
            with tf.variable_scope("Conv"):
                x = act(apply_bias(conv2d(x, NF, 3)))
            with tf.variable_scope("Dense0"):
                x = act(apply_bias(dense(x, NF)))
            with tf.variable_scope("Dense1"):
                x = apply_bias(dense(x, 1, gain=1))
        return x


def tower(latents, reals, mixing):
    reals = reals / 127.5 - 1.0
    fakes = G(latents)
    real_scores = D(reals)
    fake_scores = D(fakes)
    g_loss = tf.reduce_mean(-fake_scores)

    d_loss = fake_scores - real_scores
    mixed = lerp(reals, fakes, mixing)
    mixed_scores = D(mixed)
    mixed_grads = tf.gradients(tf.reduce_sum(mixed_scores), [mixed])[0]
    mixed_norms = tf.sqrt(tf.reduce_sum(tf.square(mixed_grads), axis=[1, 2, 3]))
    gradient_penalty = tf.square(mixed_norms - 1.0)
    d_loss += gradient_penalty[:, None] * WGAN_LAMBDA
    d_loss += tf.square(real_scores) * WGAN_EPSILON
    return g_loss, {"fakes": fakes, "real_scores": real_scores, "fake_scores": fake_scores,
                    "d_loss": tf.reduce_mean(d_loss)}
