"""A convolutional VAE with a beta, annealed KL divergence and a discretised logistic likelihood.

Written after the kind of code in disentanglement_lib (architectures and losses of the factor and beta VAEs) and openai/iaf (the
discretised logistic with a learned scale); the noise and the number of the step are fed.
"""
import tensorflow.compat.v1 as tf

LATENTS = 7
LEVELS = 32
BETA = 4.0
WARMUP = 6.0


def lrelu(x, leak=0.2):
    return tf.maximum(x, leak * x)


def conv_encoder(x):
    x = tf.layers.conv2d(x, 12, 4, strides=2, activation=lrelu, padding="same", name="e1")
    x = tf.layers.conv2d(x, 20, 4, strides=2, activation=lrelu, padding="same", name="e2")
    x = tf.layers.dense(tf.layers.flatten(x), 30, activation=lrelu, name="e3")
    means = tf.layers.dense(x, LATENTS, name="means")
    log_var = tf.layers.dense(x, LATENTS, name="log_var")
    return means, log_var


def deconv_decoder(z):
    x = tf.layers.dense(z, 30, activation=lrelu, name="d1")
    x = tf.layers.dense(x, 4 * 3 * 20, activation=lrelu, name="d2")
    x = tf.reshape(x, [-1, 4, 3, 20])
    x = tf.layers.conv2d_transpose(x, 12, 4, strides=2, activation=lrelu, padding="same", name="d3")
    x = tf.layers.conv2d_transpose(x, 3, 4, strides=2, padding="same", name="d4")
    return tf.sigmoid(x) - 0.5


def sample_from_latent_distribution(z_mean, z_logvar, noise):
    return tf.add(z_mean, tf.exp(z_logvar / 2) * noise, name="sampled_latent_variable")


def compute_gaussian_kl(z_mean, z_logvar):
    return 0.5 * tf.reduce_sum(tf.square(z_mean) + tf.exp(z_logvar) - z_logvar - 1, [1])


def discretized_logistic(mean, logscale, binsize, sample):
    scale = tf.exp(logscale)
    sample = (tf.floor(sample / binsize) * binsize - mean) / scale
    logp = tf.log(tf.sigmoid(sample + binsize / scale) - tf.sigmoid(sample) + 1e-7)
    return tf.reduce_sum(logp, [1, 2, 3])


def tower(images, noise, step):
    # the levels' lower edges, from -0.5 on; the encoder sees their middles
    edges = images / LEVELS - 0.5
    with tf.variable_scope("encoder"):
        z_mean, z_logvar = conv_encoder((images + 0.5) / LEVELS - 0.5)
    z = sample_from_latent_distribution(z_mean, z_logvar, noise)
    with tf.variable_scope("decoder"):
        reconstructions = deconv_decoder(z)
        logscale = tf.get_variable("dec_log_stdv", [3], images.dtype, initializer=tf.constant_initializer(-1.0))
    per_sample = -discretized_logistic(reconstructions, logscale, 1.0 / LEVELS, edges)
    kl = compute_gaussian_kl(z_mean, z_logvar)
    anneal = tf.minimum((step + 1.0) / WARMUP, 1.0)
    reconstruction_loss = tf.reduce_mean(per_sample)
    kl_loss = tf.reduce_mean(kl)
    loss = tf.add(reconstruction_loss, tf.reduce_mean(BETA * anneal * kl))
    return loss, {"z_mean": z_mean, "z_logvar": z_logvar, "z": z, "reconstructions": reconstructions,
                  "reconstruction_loss": reconstruction_loss, "kl_loss": kl_loss}
