"""A Real NVP of two scales: affine couplings under checkerboard masks, a squeeze, and couplings between halves of the channels.
Trained by bits per dimension; the magnitudes of the weight-normalised kernels are penalised."""
import numpy as np
import tensorflow.compat.v1 as tf

DIM = 12
DATA_CONSTRAINT = 0.9
L2_COEFF = 5e-3


def conv_layer(x, filter_size, dim_out, name, magnitudes, he=2.0):
    """A convolution with weight normalisation: direction times magnitude, one for each filter."""
    dim_in = x.get_shape().as_list()[3]
    with tf.variable_scope(name):
        stddev = np.sqrt(he / (dim_in * filter_size * filter_size))
        direction = tf.get_variable('direction', [filter_size, filter_size, dim_in, dim_out], x.dtype,
                                    tf.random_normal_initializer(stddev=stddev, dtype=x.dtype))
        magnitude = tf.get_variable('magnitude', [dim_out], x.dtype, tf.constant_initializer(0.8))
        biases = tf.get_variable('biases', [dim_out], x.dtype, tf.zeros_initializer())
    magnitudes.append(magnitude)
    weights = direction / tf.sqrt(tf.reduce_sum(tf.square(direction), [0, 1, 2])) * magnitude
    return tf.nn.bias_add(tf.nn.conv2d(x, weights, strides=[1, 1, 1, 1], padding='SAME'), biases)


def resnet(x, dim_out, name, magnitudes):
    with tf.variable_scope(name):
        res = conv_layer(x, 3, DIM, 'h_in', magnitudes)
        skip = res
        res = conv_layer(tf.nn.relu(res), 3, DIM, 'h_0', magnitudes)
        res = conv_layer(tf.nn.relu(res), 3, DIM, 'h_1', magnitudes)
        return conv_layer(tf.nn.relu(skip + res), 1, dim_out, 'out', magnitudes)


def rescaled(log_rescaling):
    scale = tf.get_variable('rescaling_scale', [], log_rescaling.dtype, tf.constant_initializer(0.5))
    scale_shift = tf.get_variable('scale_shift', [], log_rescaling.dtype, tf.zeros_initializer())
    return scale * tf.tanh(log_rescaling) + scale_shift


def checkerboard_coupling(x, mask_in, name, magnitudes):
    with tf.variable_scope(name):
        _, height, width, channels = x.get_shape().as_list()
        mask = np.arange(height).reshape((-1, 1)) + np.arange(width)
        mask = np.mod(mask_in + mask, 2).reshape([1, height, width, 1])
        mask = tf.constant(mask, x.dtype)
        res = x * mask
        ones = tf.ones_like(x[:, :, :, :1])
        res = tf.nn.relu(tf.concat([res, -res, mask * ones], 3))
        shift, log_rescaling = tf.split(resnet(res, 2 * channels, 'resnet', magnitudes), 2, axis=3)
        log_rescaling = rescaled(log_rescaling) * (1. - mask)
        shift = shift * (1. - mask)
        return (x + shift) * tf.exp(log_rescaling), log_rescaling


def channel_coupling(x, change_bottom, name, magnitudes):
    with tf.variable_scope(name):
        if change_bottom:
            given, canvas = tf.split(x, 2, axis=3)
        else:
            canvas, given = tf.split(x, 2, axis=3)
        channels = canvas.get_shape().as_list()[3]
        res = tf.nn.relu(tf.concat([given, -given], 3))
        shift, log_rescaling = tf.split(resnet(res, 2 * channels, 'resnet', magnitudes), 2, axis=3)
        log_rescaling = rescaled(log_rescaling)
        canvas = (canvas + shift) * tf.exp(log_rescaling)
        if change_bottom:
            return tf.concat([given, canvas], 3), log_rescaling
        return tf.concat([canvas, given], 3), log_rescaling


def squeeze_2x2(x):
    _, height, width, channels = x.get_shape().as_list()
    res = tf.reshape(x, [-1, height // 2, 2, width // 2, 2, channels])
    res = tf.transpose(res, [0, 1, 3, 5, 2, 4])
    return tf.reshape(res, [-1, height // 2, width // 2, 4 * channels])


def total(x):
    return tf.reduce_sum(x, [1, 2, 3])


def encoder(x, magnitudes):
    log_diff = 0.
    for n in range(3):
        x, diff = checkerboard_coupling(x, n % 2, 'checkerboard_%d' % n, magnitudes)
        log_diff += total(diff)
    x = squeeze_2x2(x)
    for n in range(2):
        x, diff = channel_coupling(x, n == 0, 'channel_%d' % n, magnitudes)
        log_diff += total(diff)
    return x, log_diff


def tower(images, noise):
    n_dim = int(np.prod(images.get_shape().as_list()[1:]))
    x = (images + noise) / 256.
    x = (2. * x - 1.) * DATA_CONSTRAINT
    x = (1. + x) / 2.
    logit_x = tf.log(x) - tf.log(1. - x)
    pre_logit_scale = np.log(DATA_CONSTRAINT) - np.log(1. - DATA_CONSTRAINT)
    transform_cost = total(tf.nn.softplus(logit_x) + tf.nn.softplus(-logit_x)) - n_dim * np.log1p(np.exp(-pre_logit_scale))
    magnitudes = []
    with tf.variable_scope('encoder'):
        z, log_diff = encoder(logit_x, magnitudes)
    prior = total(-0.5 * (tf.square(z) + np.log(2. * np.pi)))
    nll = -(prior + log_diff + transform_cost) / (n_dim * np.log(2.)) + 8.
    bits = tf.reduce_mean(nll)
    l2_reg = L2_COEFF * tf.add_n([tf.reduce_sum(tf.square(m)) for m in magnitudes])
    return bits + l2_reg, {'z': z, 'bits': bits}
