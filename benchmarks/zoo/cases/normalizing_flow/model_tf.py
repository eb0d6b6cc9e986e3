"""A flow of actnorm, fixed reversal and affine couplings, with a split and learnt class-conditional priors, as in Glow."""
import numpy as np
import tensorflow.compat.v1 as tf

N_X, DEPTH, WIDTH, N_Y = 6, 3, 32, 2


def add_edge_free_linear(x, width, name, scale=0.05):
    with tf.variable_scope(name):
        w = tf.get_variable("W", [int(x.get_shape()[1]), width], x.dtype, tf.random_normal_initializer(0, scale))
        b = tf.get_variable("b", [1, width], x.dtype, tf.zeros_initializer())
        return tf.matmul(x, w) + b


def linear_zeros(x, width, name, logscale_factor=3):
    with tf.variable_scope(name):
        w = tf.get_variable("W", [int(x.get_shape()[1]), width], x.dtype, tf.zeros_initializer())
        b = tf.get_variable("b", [1, width], x.dtype, tf.zeros_initializer())
        logs = tf.get_variable("logs", [1, width], x.dtype, tf.zeros_initializer())
        return (tf.matmul(x, w) + b) * tf.exp(logs * logscale_factor)


def actnorm(x, logdet, name, logscale_factor=3.):
    with tf.variable_scope(name):
        n = int(x.get_shape()[1])
        b = tf.get_variable("b", [1, n], x.dtype, tf.zeros_initializer())
        logs = tf.get_variable("logs", [1, n], x.dtype, tf.zeros_initializer()) * logscale_factor
        return (x + b) * tf.exp(logs), logdet + tf.reduce_sum(logs)


def f(h, width, n_out, name):
    with tf.variable_scope(name):
        h = tf.nn.relu(add_edge_free_linear(h, width, "l_1"))
        h = tf.nn.relu(add_edge_free_linear(h, width, "l_2"))
        return linear_zeros(h, n_out, "l_last")


def revnet_step(z, logdet, name):
    with tf.variable_scope(name):
        z, logdet = actnorm(z, logdet, "actnorm")
        z = tf.reverse(z, [1])
        n_z = int(z.get_shape()[1])
        z1, z2 = z[:, :n_z // 2], z[:, n_z // 2:]
        h = f(z1, WIDTH, n_z, "f1")
        shift, scale = h[:, 0::2], tf.nn.sigmoid(h[:, 1::2] + 2.)
        z2 = (z2 + shift) * scale
        logdet += tf.reduce_sum(tf.log(scale), axis=[1])
        return tf.concat([z1, z2], 1), logdet


def gaussian_diag(mean, logsd, x):
    return -0.5 * (np.log(2 * np.pi) + 2. * logsd + (x - mean) ** 2 / tf.exp(2. * logsd))


def tower(x, y):
    objective = tf.zeros_like(x[:, 0])
    z, eps, out = x, [], {}
    with tf.variable_scope("model"):
        for level in range(2):
            for i in range(DEPTH):
                z, objective = revnet_step(z, objective, "revnet%d_%d" % (level, i))
            out["z_%d" % level] = z
            if level == 0:
                with tf.variable_scope("split"):
                    z1, z2 = z[:, :4], z[:, 4:]
                    h = linear_zeros(z1, 4, "prior")
                    mean, logs = h[:, :2], h[:, 2:]
                    split_logp = tf.reduce_sum(gaussian_diag(mean, logs, z2), 1)
                    objective += split_logp
                    z = z1
        with tf.variable_scope("prior"):
            onehot = tf.one_hot(y, N_Y, dtype=x.dtype)
            h = linear_zeros(onehot, 8, "y_emb")
            mean, logs = h[:, :4], h[:, 4:]
            logp = tf.reduce_sum(gaussian_diag(mean, logs, z), 1)
            objective += logp
        with tf.variable_scope("classifier"):
            y_logits = linear_zeros(z, N_Y, "logits")
    # Generative loss
    bits_x = -objective / (np.log(2.) * N_X)
    # Predictive loss
    bits_y = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=y_logits) / np.log(2.)
    loss = tf.reduce_mean(bits_x) + 0.1 * tf.reduce_mean(bits_y)
    out.update(split_logp=split_logp, logp=logp, y_logits=y_logits, bits_x=tf.reduce_mean(bits_x),
               bits_y=tf.reduce_mean(bits_y))
    return loss, out
