"""VAE whose posterior is an inverse autoregressive flow, with free bits."""
import numpy as np
import tensorflow.compat.v1 as tf

Z, H, CONTEXT, HIDDEN = 6, 18, 8, 24
DEPTH = 2
KL_MIN = 0.25
FORGET_BIAS = 2.0


def dense(name, x, num_out):
    with tf.variable_scope(name):
        V = tf.get_variable("V", [x.shape.as_list()[-1], num_out], x.dtype, tf.random_normal_initializer(0, 0.2))
        b = tf.get_variable("b", [num_out], x.dtype, tf.zeros_initializer())
        return tf.nn.bias_add(tf.matmul(x, V), b)


def ar_mask(n_in, n_out, zerodiagonal):
    """Units are given degrees 0 .. Z-1 in turn: an output sees inputs of lower degree, or of its own, too."""
    mask = np.zeros([n_in, n_out])
    for i in range(n_in):
        for o in range(n_out):
            if (i % Z < o % Z) if zerodiagonal else (i % Z <= o % Z):
                mask[i, o] = 1
    return mask


def ar_dense(name, x, num_out, zerodiagonal):
    """Masked and weight-normalised: a column has the length exp(g)."""
    n_in = x.shape.as_list()[-1]
    mask = tf.constant(ar_mask(n_in, num_out, zerodiagonal), x.dtype)
    with tf.variable_scope(name):
        V = tf.get_variable("V", [n_in, num_out], x.dtype, tf.random_normal_initializer(0, 0.2))
        g = tf.get_variable("g", [num_out], x.dtype, tf.zeros_initializer())
        b = tf.get_variable("b", [num_out], x.dtype, tf.zeros_initializer())
        W = tf.exp(g) * tf.nn.l2_normalize(mask * V, [0])
        return tf.matmul(x, W) + b


class DiagonalGaussian(object):
    def __init__(self, mean, logsd):
        self.mean, self.logsd = mean, logsd

    def sample(self, eps):
        return self.mean + tf.exp(self.logsd) * eps

    def logps(self, sample):
        return -0.5 * (np.log(2 * np.pi) + 2 * self.logsd + tf.square(sample - self.mean) * tf.exp(-2 * self.logsd))


def iaf_step(scope, z, logqs, context):
    with tf.variable_scope(scope):
        h = tf.nn.elu(ar_dense("layer_0", z, H, False) + dense("context", context, H))
        arw_mean = ar_dense("layer_out_mean", h, Z, True)
        arw_s = ar_dense("layer_out_s", h, Z, True)
    gate = arw_s + FORGET_BIAS
    sigma = tf.sigmoid(gate)
    z = sigma * z + (1 - sigma) * arw_mean
    logqs += tf.nn.softplus(-gate)
    return z, logqs


def tower(images, noise):
    x = tf.reshape(images, [-1, 36])
    with tf.variable_scope("inference"):
        h = tf.nn.elu(dense("fc", x, HIDDEN))
        posterior = DiagonalGaussian(dense("qz_mean", h, Z), dense("qz_logsd", h, Z))
        context = tf.nn.elu(dense("down_context", h, CONTEXT))
        z = posterior.sample(noise)
        logqs = posterior.logps(z)
        z_0 = z
        for i in range(DEPTH):
            if i > 0:
                z, logqs = tf.reverse(z, [1]), tf.reverse(logqs, [1])
            z, logqs = iaf_step("iaf_%d" % i, z, logqs, context)
    with tf.variable_scope("generative"):
        h = tf.nn.elu(dense("fc", z, HIDDEN))
        logits = dense("x", h, 36)
    log_pxz = -tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels=x, logits=logits), axis=1)
    prior = DiagonalGaussian(tf.zeros_like(z), tf.zeros_like(z))
    kl_cost = logqs - prior.logps(z)
    # free bits: of every dimension, averaged over the batch
    kl_ave = tf.reduce_mean(kl_cost, [0])
    kl_obj = tf.reduce_sum(tf.maximum(kl_ave, tf.constant(KL_MIN, kl_ave.dtype)))
    obj = tf.reduce_mean(log_pxz) - kl_obj
    return -obj, {"z_0": z_0, "z": z, "logits": logits, "kl": tf.reduce_mean(tf.reduce_sum(kl_cost, 1))}
