"""Beta-TCVAE in the manner of disentanglement_lib: the convolutional encoder and the deconvolutional decoder with tf.layers, Bernoulli
reconstruction, KL, and the total correlation estimated within the minibatch."""
import math

import tensorflow.compat.v1 as tf

NUM_LATENT = 5
BETA = 6.0


def conv_encoder(images):
    with tf.variable_scope("encoder"):
        e1 = tf.layers.conv2d(images, 8, 4, strides=2, activation=tf.nn.relu, padding="same", name="e1")
        e2 = tf.layers.conv2d(e1, 12, 4, strides=2, activation=tf.nn.relu, padding="same", name="e2")
        e3 = tf.layers.conv2d(e2, 16, 2, strides=2, activation=tf.nn.relu, padding="same", name="e3")
        e4 = tf.layers.dense(tf.layers.flatten(e3), 24, activation=tf.nn.relu, name="e4")
        means = tf.layers.dense(e4, NUM_LATENT, activation=None, name="means")
        log_var = tf.layers.dense(e4, NUM_LATENT, activation=None, name="log_var")
    return means, log_var


def deconv_decoder(latent):
    with tf.variable_scope("decoder"):
        d1 = tf.layers.dense(latent, 24, activation=tf.nn.relu, name="d1")
        d2 = tf.layers.dense(d1, 2 * 2 * 16, activation=tf.nn.relu, name="d2")
        d2 = tf.reshape(d2, [-1, 2, 2, 16])
        d3 = tf.layers.conv2d_transpose(d2, 12, 4, strides=2, activation=tf.nn.relu, padding="same", name="d3")
        d4 = tf.layers.conv2d_transpose(d3, 8, 4, strides=2, activation=tf.nn.relu, padding="same", name="d4")
        return tf.layers.conv2d_transpose(d4, 1, 4, strides=2, padding="same", name="d5")


def gaussian_log_density(samples, mean, log_var):
    normalization = tf.constant(math.log(2.0 * math.pi), samples.dtype)
    tmp = samples - mean
    return -0.5 * (tmp * tmp * tf.exp(-log_var) + log_var + normalization)


def total_correlation(z, z_mean, z_logvar):
    """log q(z(x_j)) under q(z(x_i)) for every pair of the batch."""
    log_qz_prob = gaussian_log_density(tf.expand_dims(z, 1), tf.expand_dims(z_mean, 0), tf.expand_dims(z_logvar, 0))
    log_qz_product = tf.reduce_sum(tf.reduce_logsumexp(log_qz_prob, axis=1), axis=1)
    log_qz = tf.reduce_logsumexp(tf.reduce_sum(log_qz_prob, axis=2), axis=1)
    return tf.reduce_mean(log_qz - log_qz_product)


def tower(images, noise):
    z_mean, z_logvar = conv_encoder(images)
    z = z_mean + tf.exp(z_logvar / 2) * noise
    logits = deconv_decoder(z)
    bce = tf.nn.sigmoid_cross_entropy_with_logits(logits=logits, labels=images)
    reconstruction = tf.reduce_mean(tf.reduce_sum(bce, [1, 2, 3]))
    kl = tf.reduce_mean(0.5 * tf.reduce_sum(tf.square(z_mean) + tf.exp(z_logvar) - z_logvar - 1, [1]))
    tc = total_correlation(z, z_mean, z_logvar)
    elbo = reconstruction + kl
    loss = elbo + (BETA - 1.0) * tc
    return loss, {"z_mean": z_mean, "z_logvar": z_logvar, "logits": logits, "reconstruction": reconstruction, "kl": kl, "tc": tc}
