"""Unrolled reconstruction: a denoiser and a step of data consistency, the same weights in every cascade."""
import numpy as np
import tensorflow.compat.v1 as tf

SIZE = 12
CASCADES = 3
FILTERS = 12
GLOBAL_BATCH = 8
CASCADE_WEIGHTS = [0.25, 0.5, 1.0]


def dct_matrix(n, dtype):
    k = np.arange(n)[:, None]
    i = np.arange(n)[None, :]
    m = np.cos(np.pi * k * (2 * i + 1) / (2.0 * n)) * np.sqrt(2.0 / n)
    m[0] *= np.sqrt(0.5)
    return tf.constant(m, dtype)


def forward_op(x, d):
    """D x D' of each image."""
    return tf.einsum("ki,nijc,lj->nklc", d, x, d)


def adjoint_op(k, d):
    return tf.einsum("ki,nklc,lj->nijc", d, k, d)


def lrelu(x, leak=0.2):
    return tf.maximum(x, leak * x)


def conv(x, filters, name, use_bias=False):
    with tf.variable_scope(name):
        w = tf.get_variable("weights", [3, 3, x.shape.as_list()[-1], filters], x.dtype,
                            initializer=tf.truncated_normal_initializer(stddev=0.15))
        x = tf.nn.conv2d(x, w, [1, 1, 1, 1], "SAME")
        if use_bias:
            b = tf.get_variable("biases", [filters], x.dtype, initializer=tf.zeros_initializer())
            x = tf.nn.bias_add(x, b)
        return x


def instance_norm(x, name):
    with tf.variable_scope(name):
        depth = x.shape.as_list()[-1]
        scale = tf.get_variable("scale", [depth], x.dtype, initializer=tf.random_normal_initializer(1.0, 0.02))
        offset = tf.get_variable("offset", [depth], x.dtype, initializer=tf.zeros_initializer())
        mean, variance = tf.nn.moments(x, axes=[1, 2], keep_dims=True)
        return scale * (x - mean) * tf.rsqrt(variance + 1e-5) + offset


def denoiser(x):
    with tf.variable_scope("denoiser", reuse=tf.AUTO_REUSE):
        h = lrelu(instance_norm(conv(x, FILTERS, "conv1"), "norm1"))
        h = lrelu(instance_norm(conv(h, FILTERS, "conv2"), "norm2"))
        return x + conv(h, 1, "conv3", use_bias=True)


def data_consistency(x, measured, mask, d):
    with tf.variable_scope("dc", reuse=tf.AUTO_REUSE):
        noise = tf.nn.softplus(tf.get_variable("lambda", [], x.dtype, initializer=tf.constant_initializer(0.5)))
    k = forward_op(x, d)
    mixed = (k + noise * measured) / (1.0 + noise)
    return adjoint_op((1.0 - mask) * k + mask * mixed, d)


def tower(spectrum, mask, target):
    d = dct_matrix(SIZE, spectrum.dtype)
    zero_filled = adjoint_op(spectrum, d)
    peak = tf.reduce_max(tf.abs(zero_filled), axis=[1, 2, 3], keepdims=True)
    x = zero_filled / peak
    measured = spectrum / peak
    wanted = target / peak
    outputs = {"zero_filled": zero_filled}
    losses = []
    for i in range(CASCADES):
        x = data_consistency(denoiser(x), measured, mask, d)
        outputs["cascade_%d" % i] = x
        error = tf.sqrt(tf.square(x - wanted) + 1e-6)
        # a tower's share: divided by the whole batch, the towers' gradients are added
        losses.append(CASCADE_WEIGHTS[i] * tf.reduce_sum(tf.reduce_mean(error, axis=[1, 2, 3])) / GLOBAL_BATCH)
    outputs["last"] = losses[-1]
    return tf.add_n(losses), outputs
