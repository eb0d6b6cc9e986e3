"""Flow with invertible 1x1 convolutions, after the kind of TensorFlow 1 code that Glow was released with: steps of actnorm, 1x1 convolution
and affine coupling, a split with a learned prior between two levels, the loss in bits per dimension."""
import numpy as np
import tensorflow.compat.v1 as tf

N_LEVELS = 2
DEPTH = 2
WIDTH = 16
N_BINS = 256.0
LOGSCALE_FACTOR = 3.0


def squeeze2d(x, factor=2):
    _, height, width, n_channels = x.shape.as_list()
    x = tf.reshape(x, [-1, height // factor, factor, width // factor, factor, n_channels])
    x = tf.transpose(x, [0, 1, 3, 5, 2, 4])
    return tf.reshape(x, [-1, height // factor, width // factor, n_channels * factor * factor])


def actnorm(name, x, objective):
    _, height, width, n = x.shape.as_list()
    with tf.variable_scope(name):
        b = tf.get_variable("b", [1, 1, 1, n], x.dtype, initializer=tf.zeros_initializer())
        logs = tf.get_variable("logs", [1, 1, 1, n], x.dtype, initializer=tf.zeros_initializer()) * LOGSCALE_FACTOR
        x = (x + b) * tf.exp(logs)
        dlogdet = tf.reduce_sum(logs) * (height * width)
        return x, objective + dlogdet


def invertible_1x1_conv(name, z, objective):
    _, height, width, n = z.shape.as_list()
    with tf.variable_scope(name):
        w_init = np.linalg.qr(np.random.RandomState(n).randn(n, n))[0]
        w = tf.get_variable("W", [n, n], z.dtype, initializer=tf.constant_initializer(w_init))
        dlogdet = tf.log(tf.abs(tf.matrix_determinant(w))) * (height * width)
        z = tf.nn.conv2d(z, tf.reshape(w, [1, 1, n, n]), [1, 1, 1, 1], "SAME")
        return z, objective + dlogdet


def conv2d(name, x, width, filter_size):
    with tf.variable_scope(name):
        n_in = x.shape.as_list()[-1]
        w = tf.get_variable("W", filter_size + [n_in, width], x.dtype, initializer=tf.random_normal_initializer(0, 0.05))
        b = tf.get_variable("b", [1, 1, 1, width], x.dtype, initializer=tf.zeros_initializer())
        return tf.nn.conv2d(x, w, [1, 1, 1, 1], "SAME") + b


def conv2d_zeros(name, x, width):
    with tf.variable_scope(name):
        n_in = x.shape.as_list()[-1]
        w = tf.get_variable("W", [3, 3, n_in, width], x.dtype, initializer=tf.zeros_initializer())
        b = tf.get_variable("b", [1, 1, 1, width], x.dtype, initializer=tf.zeros_initializer())
        logs = tf.get_variable("logs", [1, width], x.dtype, initializer=tf.zeros_initializer())
        x = tf.nn.conv2d(x, w, [1, 1, 1, 1], "SAME") + b
        return x * tf.exp(logs * LOGSCALE_FACTOR)


def f(name, h, width, n_out):
    with tf.variable_scope(name):
        h = tf.nn.relu(conv2d("l_1", h, width, [3, 3]))
        h = tf.nn.relu(conv2d("l_2", h, width, [1, 1]))
        return conv2d_zeros("l_last", h, n_out)


def gaussian_logp(mean, logsd, x):
    log2pi = float(np.log(2 * np.pi))
    return tf.reduce_sum(-0.5 * (log2pi + 2.0 * logsd + tf.square(x - mean) / tf.exp(2.0 * logsd)), [1, 2, 3])


def revnet2d_step(name, z, objective):
    with tf.variable_scope(name):
        n_z = z.shape.as_list()[-1]
        z, objective = actnorm("actnorm", z, objective)
        z, objective = invertible_1x1_conv("invconv", z, objective)
        z1 = z[:, :, :, :n_z // 2]
        z2 = z[:, :, :, n_z // 2:]
        h = f("f1", z1, WIDTH, n_z)
        shift = h[:, :, :, 0::2]
        scale = tf.nn.sigmoid(h[:, :, :, 1::2] + 2.0)
        z2 = (z2 + shift) * scale
        objective += tf.reduce_sum(tf.log(scale), [1, 2, 3])
        return tf.concat([z1, z2], 3), objective


def split2d(name, z, objective):
    with tf.variable_scope(name):
        n_z = z.shape.as_list()[-1]
        z1 = z[:, :, :, :n_z // 2]
        z2 = z[:, :, :, n_z // 2:]
        h = conv2d_zeros("conv", z1, n_z)
        mean, logs = h[:, :, :, 0::2], h[:, :, :, 1::2]
        return z1, objective + gaussian_logp(mean, logs, z2)


def tower(images):
    _, height, width, n_channels = images.shape.as_list()
    n_dims = height * width * n_channels
    objective = tf.zeros_like(images[:, 0, 0, 0]) - np.log(N_BINS) * n_dims
    end_points = {}
    z = images
    with tf.variable_scope("model"):
        for i in range(N_LEVELS):
            with tf.variable_scope("level_%d" % i):
                z = squeeze2d(z)
                for k in range(DEPTH):
                    z, objective = revnet2d_step("step_%d" % k, z, objective)
                if i < N_LEVELS - 1:
                    z, objective = split2d("pool", z, objective)
            end_points["z_%d" % i] = z
    objective += gaussian_logp(tf.zeros_like(z), tf.zeros_like(z), z)
    bits_x = -objective / (np.log(2.0) * n_dims)
    end_points["bits_x"] = bits_x
    return tf.reduce_mean(bits_x), end_points
