"""Ladder VAE: a deterministic way up, a stochastic way down, and posteriors that join both by their precisions."""
import numpy as np
import tensorflow.compat.v1 as tf

DIM = 24
HIDDEN = (40, 24)
Z1, Z2 = 12, 5
BETA = 4.0
FREE_BITS = 0.15
MIN_VAR = 1e-3


def mlp(x, units, scope, training):
    with tf.variable_scope(scope):
        h = tf.layers.dense(x, units, use_bias=False, name="fc")
        h = tf.layers.batch_normalization(h, momentum=0.9, training=training, name="bn")
        return tf.maximum(h, 0.1 * h)


def gaussian(h, units, scope):
    with tf.variable_scope(scope):
        mean = tf.layers.dense(h, units, name="mean")
        var = tf.nn.softplus(tf.layers.dense(h, units, name="var")) + MIN_VAR
        return mean, var


def merge(m1, v1, m2, v2):
    p1, p2 = 1.0 / v1, 1.0 / v2
    var = 1.0 / (p1 + p2)
    return (m1 * p1 + m2 * p2) * var, var


def sample(mean, var, noise):
    return mean + tf.sqrt(var) * noise


def kl(mq, vq, mp, vp):
    return 0.5 * (tf.log(vp) - tf.log(vq) + (vq + tf.square(mq - mp)) / vp - 1.0)


def tower(x, noise1, noise2, warm_up, training=True):
    with tf.variable_scope("up"):
        d1 = mlp(x, HIDDEN[0], "layer1", training)
        m1, v1 = gaussian(d1, Z1, "q1")
        d2 = mlp(d1, HIDDEN[1], "layer2", training)
        mq2, vq2 = gaussian(d2, Z2, "q2")
    with tf.variable_scope("down"):
        z2 = sample(mq2, vq2, noise2)
        mp1, vp1 = gaussian(mlp(z2, HIDDEN[1], "layer2", training), Z1, "p1")
        mq1, vq1 = merge(m1, v1, mp1, vp1)
        z1 = sample(mq1, vq1, noise1)
        out = tf.layers.dense(mlp(z1, HIDDEN[0], "layer1", training), DIM, name="x_mean")
        log_sigma = tf.get_variable("log_sigma", [DIM], x.dtype, tf.constant_initializer(-0.5))
    log_px = -0.5 * tf.square((x - out) / tf.exp(log_sigma)) - log_sigma - 0.5 * np.log(2 * np.pi)
    reconstruction = tf.reduce_mean(tf.reduce_sum(log_px, axis=1))
    # free bits: a unit pays for no less than that, on average over the batch
    kl2 = tf.reduce_sum(tf.maximum(tf.reduce_mean(kl(mq2, vq2, 0.0, tf.ones_like(vq2)), axis=0), FREE_BITS))
    kl1 = tf.reduce_sum(tf.reduce_mean(kl(mq1, vq1, mp1, vp1), axis=0))
    beta = BETA * tf.reduce_mean(warm_up)
    loss = -reconstruction + beta * (kl1 + kl2)
    return loss, {"d2": d2, "z2": z2, "z1": z1, "x_mean": out, "reconstruction": reconstruction, "kl1": kl1, "kl2": kl2}
