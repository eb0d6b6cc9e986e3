"""Noise conditional score network: dilated residual blocks, conditional instance norm plus, annealed denoising score matching."""
import numpy as np
import tensorflow.compat.v1 as tf

NUM_LEVELS = 6
SIGMAS = np.exp(np.linspace(np.log(1.0), np.log(0.1), NUM_LEVELS))
NGF = 10


def cond_instance_norm_plus(x, levels, name):
    """Instance norm whose scale, shift and share of the means depend on the level of noise."""
    with tf.variable_scope(name):
        c = int(x.shape[-1])

        def init(shape, dtype=None, partition_info=None):
            scales = tf.random_normal([shape[0], 2 * c], 1.0, 0.02, dtype=dtype)
            return tf.concat([scales, tf.zeros([shape[0], c], dtype)], axis=1)

        embed = tf.get_variable("embed", [NUM_LEVELS, 3 * c], x.dtype, initializer=init)
        gamma, alpha, beta = tf.split(tf.nn.embedding_lookup(embed, levels)[:, None, None, :], 3, axis=-1)
        mu, var = tf.nn.moments(x, [1, 2], keep_dims=True)
        h = (x - mu) / tf.sqrt(var + 1e-5)
        m, v = tf.nn.moments(mu, [3], keep_dims=True)
        mu = (mu - m) / tf.sqrt(v + 1e-5)
        return gamma * (h + mu * alpha) + beta


def conv(x, filters, size, name, dilation=1, bias=True):
    with tf.variable_scope(name):
        w = tf.get_variable("w", [size, size, int(x.shape[-1]), filters], x.dtype,
                            initializer=tf.variance_scaling_initializer(1.0, "fan_avg", "uniform"))
        if dilation > 1:
            x = tf.nn.atrous_conv2d(x, w, dilation, padding="SAME")
        else:
            x = tf.nn.conv2d(x, w, [1, 1, 1, 1], padding="SAME")
        if bias:
            x = x + tf.get_variable("b", [filters], x.dtype, initializer=tf.zeros_initializer())
        return x


def residual_block(x, levels, filters, dilation, name):
    with tf.variable_scope(name):
        h = tf.nn.elu(cond_instance_norm_plus(x, levels, "norm1"))
        h = conv(h, filters, 3, "conv1", dilation)
        h = tf.nn.elu(cond_instance_norm_plus(h, levels, "norm2"))
        h = conv(h, filters, 3, "conv2", dilation)
        if int(x.shape[-1]) != filters:
            x = conv(x, filters, 1, "shortcut")
        return x + h


def chained_residual_pooling(x, levels, name, stages=2):
    with tf.variable_scope(name):
        x = tf.nn.elu(x)
        path = x
        for i in range(stages):
            path = cond_instance_norm_plus(path, levels, "norm_%d" % i)
            path = tf.nn.avg_pool(path, [1, 5, 5, 1], [1, 1, 1, 1], padding="SAME")
            path = conv(path, int(x.shape[-1]), 3, "conv_%d" % i, bias=False)
            x = path + x
        return x


def score_network(x, levels):
    with tf.variable_scope("scorenet"):
        h = conv(2 * x - 1.0, NGF, 3, "begin_conv")
        h = residual_block(h, levels, NGF, 1, "res1")
        h = residual_block(h, levels, 16, 2, "res2")
        h = residual_block(h, levels, 16, 4, "res3")
        features = chained_residual_pooling(h, levels, "crp")
        h = tf.nn.elu(cond_instance_norm_plus(features, levels, "normalizer"))
        return features, conv(h, 3, 3, "end_conv")


def tower(images, noise, levels):
    sigmas = tf.gather(tf.constant(SIGMAS, images.dtype), levels)[:, None, None, None]
    perturbed = images + noise * sigmas
    target = -(perturbed - images) / sigmas ** 2
    features, scores = score_network(perturbed, levels)
    per_image = 0.5 * tf.reduce_sum(tf.square(scores - target), axis=[1, 2, 3])
    loss = tf.reduce_mean(per_image * tf.squeeze(sigmas, [1, 2, 3]) ** 2)
    return loss, {"features": features, "scores": scores}
