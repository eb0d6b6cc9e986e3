"""A style-based generator with modulated, demodulated convolutions and skip connections to RGB, a residual discriminator with the
deviation of small groups, the logistic losses, and the R1 penalty; every weight is scaled at run time."""
import numpy as np
import tensorflow.compat.v1 as tf

LATENT = 12
MAPPING_LAYERS, MAPPING_LRMUL = 2, 0.1
FMAPS = {4: 12, 8: 10, 16: 8}
GROUP_SIZE = 2
R1_GAMMA = 5.0


def get_weight(shape, dtype, name="weight", gain=1.0, lrmul=1.0):
    he_std = gain / np.sqrt(np.prod(shape[:-1]))
    init = tf.random_normal_initializer(0.0, 1.0 / lrmul, dtype=dtype)
    return tf.get_variable(name, shape, dtype, init) * float(he_std * lrmul)


def dense_layer(x, fmaps, name="weight", lrmul=1.0):
    units = int(np.prod(x.shape.as_list()[1:]))
    return tf.matmul(tf.reshape(x, [-1, units]), get_weight([units, fmaps], x.dtype, name, lrmul=lrmul))


def apply_bias_act(x, act="linear", name="bias", lrmul=1.0):
    x = x + tf.get_variable(name, [x.shape[-1]], x.dtype, tf.zeros_initializer()) * lrmul
    return tf.maximum(x, x * 0.2) * float(np.sqrt(2)) if act == "lrelu" else x


def fir(x, gain=1.0, pad=(0, 0)):
    """Filters every channel with the binomial kernel of four taps."""
    taps = np.outer([1, 3, 3, 1], [1, 3, 3, 1]).astype("float64")
    taps *= gain / taps.sum()
    channels = int(x.shape[-1])
    x = tf.pad(x, [[0, 0], pad, pad, [0, 0]])
    kernel = tf.constant(np.tile(taps[:, :, None, None], [1, 1, channels, 1]), x.dtype)
    return tf.nn.depthwise_conv2d(x, kernel, [1, 1, 1, 1], "VALID")


def upsample_2d(x):
    _, height, width, channels = x.shape.as_list()
    x = tf.reshape(x, [-1, height, 1, width, 1, channels])
    x = tf.pad(x, [[0, 0], [0, 0], [0, 1], [0, 0], [0, 1], [0, 0]])
    return fir(tf.reshape(x, [-1, 2 * height, 2 * width, channels]), gain=4.0, pad=(2, 1))


def conv2d(x, fmaps, kernel, down=False):
    w = get_weight([kernel, kernel, x.shape.as_list()[-1], fmaps], x.dtype)
    if down:
        p = 2 + kernel - 1
        return tf.nn.conv2d(fir(x, pad=((p + 1) // 2, p // 2)), w, [1, 2, 2, 1], "VALID")
    return tf.nn.conv2d(x, w, [1, 1, 1, 1], "SAME")


def modulated_conv2d(x, dlatents, fmaps, kernel, up=False, demodulate=True):
    channels = x.shape.as_list()[-1]
    w = get_weight([kernel, kernel, channels, fmaps], x.dtype)
    s = apply_bias_act(dense_layer(dlatents, channels, name="mod_weight"), name="mod_bias") + 1.0
    if up:
        x = upsample_2d(x)
    x = tf.nn.conv2d(x * s[:, None, None, :], w, [1, 1, 1, 1], "SAME")
    if demodulate:
        ww = w[None] * s[:, None, None, :, None]
        x = x * tf.rsqrt(tf.reduce_sum(tf.square(ww), [1, 2, 3]) + 1e-8)[:, None, None, :]
    return x


def generator(latents, noises):
    with tf.variable_scope("generator/mapping"):
        x = latents * tf.rsqrt(tf.reduce_mean(tf.square(latents), axis=1, keepdims=True) + 1e-8)
        for i in range(MAPPING_LAYERS):
            with tf.variable_scope("dense%d" % i):
                x = apply_bias_act(dense_layer(x, LATENT, lrmul=MAPPING_LRMUL), "lrelu", lrmul=MAPPING_LRMUL)
    dlatents, noises = x, list(noises)

    def layer(x, fmaps, up=False):
        x = modulated_conv2d(x, dlatents, fmaps, 3, up=up)
        x += noises.pop(0) * tf.get_variable("noise_strength", [], x.dtype, tf.zeros_initializer())
        return apply_bias_act(x, "lrelu")

    def torgb(x, y):
        with tf.variable_scope("torgb"):
            t = apply_bias_act(modulated_conv2d(x, dlatents, 3, 1, demodulate=False))
            return t if y is None else y + t

    with tf.variable_scope("generator/synthesis"):
        with tf.variable_scope("4x4"):
            with tf.variable_scope("const"):
                x = tf.get_variable("const", [1, 4, 4, FMAPS[4]], latents.dtype, tf.random_normal_initializer(dtype=latents.dtype))
                x = tf.tile(x, [tf.shape(latents)[0], 1, 1, 1])
            with tf.variable_scope("conv"):
                x = layer(x, FMAPS[4])
            y = torgb(x, None)
        for res in (8, 16):
            with tf.variable_scope("%dx%d" % (res, res)):
                with tf.variable_scope("conv0_up"):
                    x = layer(x, FMAPS[res], up=True)
                with tf.variable_scope("conv1"):
                    x = layer(x, FMAPS[res])
                y = torgb(x, upsample_2d(y))
    return dlatents, y


def minibatch_stddev_layer(x, group_size):
    _, height, width, channels = x.shape.as_list()
    y = tf.reshape(x, [group_size, -1, height, width, channels])
    y -= tf.reduce_mean(y, axis=0, keepdims=True)
    y = tf.sqrt(tf.reduce_mean(tf.square(y), axis=0) + 1e-8)
    y = tf.reduce_mean(y, axis=[1, 2, 3], keepdims=True)
    return tf.concat([x, tf.tile(y, [group_size, height, width, 1])], axis=3)


def discriminator(images):
    with tf.variable_scope("discriminator", reuse=tf.AUTO_REUSE):
        with tf.variable_scope("fromrgb"):
            x = apply_bias_act(conv2d(images, FMAPS[16], 1), "lrelu")
        for res in (16, 8):
            with tf.variable_scope("%dx%d" % (res, res)):
                t = x
                with tf.variable_scope("conv0"):
                    x = apply_bias_act(conv2d(x, FMAPS[res], 3), "lrelu")
                with tf.variable_scope("conv1_down"):
                    x = apply_bias_act(conv2d(x, FMAPS[res // 2], 3, down=True), "lrelu")
                with tf.variable_scope("skip"):
                    t = conv2d(t, FMAPS[res // 2], 1, down=True)
                x = (x + t) * float(1 / np.sqrt(2))
        with tf.variable_scope("4x4"):
            x = minibatch_stddev_layer(x, GROUP_SIZE)
            with tf.variable_scope("conv"):
                x = apply_bias_act(conv2d(x, FMAPS[4], 3), "lrelu")
            with tf.variable_scope("dense0"):
                x = apply_bias_act(dense_layer(x, FMAPS[4]), "lrelu")
        with tf.variable_scope("output"):
            return apply_bias_act(dense_layer(x, 1))


def tower(reals, latents, noise0, noise1, noise2, noise3, noise4):
    dlatents, fakes = generator(latents, [noise0, noise1, noise2, noise3, noise4])
    fake_scores = discriminator(fakes)
    real_scores = discriminator(reals)
    g_loss = tf.reduce_mean(tf.nn.softplus(-fake_scores))
    d_loss = tf.reduce_mean(tf.nn.softplus(fake_scores) + tf.nn.softplus(-real_scores))
    real_grads = tf.gradients(tf.reduce_sum(real_scores), [reals])[0]
    r1_penalty = tf.reduce_mean(tf.reduce_sum(tf.square(real_grads), axis=[1, 2, 3]))
    d_loss += r1_penalty * (R1_GAMMA * 0.5)
    return g_loss, {"dlatents": dlatents, "fakes": fakes, "fake_scores": fake_scores, "real_scores": real_scores, "d_loss": d_loss}
