"""Set Transformer with induced attention and pooling by a seed, beside the masked mean of DeepSets; counts by a Poisson."""
import math

import tensorflow.compat.v1 as tf

DIM = 24
NUM_HEADS = 3
NUM_INDUCING = 4


def layer_norm(x, name):
    with tf.variable_scope(name):
        beta = tf.get_variable("beta", [DIM], x.dtype, tf.zeros_initializer())
        gamma = tf.get_variable("gamma", [DIM], x.dtype, tf.ones_initializer())
        mean, variance = tf.nn.moments(x, [-1], keep_dims=True)
        return tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-6)


def mab(queries, keys, name, mask=None):
    """Multihead attention block: rows of a batch are stacked head by head; the residual is the projected query."""
    with tf.variable_scope(name):
        q = tf.layers.dense(queries, DIM, name="q")
        k = tf.layers.dense(keys, DIM, name="k")
        v = tf.layers.dense(keys, DIM, name="v")
        q_ = tf.concat(tf.split(q, NUM_HEADS, axis=2), axis=0)
        k_ = tf.concat(tf.split(k, NUM_HEADS, axis=2), axis=0)
        v_ = tf.concat(tf.split(v, NUM_HEADS, axis=2), axis=0)
        scores = tf.matmul(q_, k_, transpose_b=True) / math.sqrt(DIM)
        if mask is not None:
            padding = (1.0 - tf.tile(mask, [NUM_HEADS, 1]))[:, None, :]
            scores += padding * -1e9
        h = q_ + tf.matmul(tf.nn.softmax(scores), v_)
        h = tf.concat(tf.split(h, NUM_HEADS, axis=0), axis=2)
        h = layer_norm(h, "ln0")
        h = h + tf.layers.dense(h, DIM, activation=tf.nn.relu, name="o")
        return layer_norm(h, "ln1")


def _repeated(name, rows, like):
    weights = tf.get_variable(name, [1, rows, DIM], like.dtype, initializer=tf.glorot_uniform_initializer())
    return tf.tile(weights, [tf.shape(like)[0], 1, 1])


def isab(x, mask, name):
    with tf.variable_scope(name):
        h = mab(_repeated("inducing", NUM_INDUCING, x), x, "mab0", mask)
        return mab(x, h, "mab1")


def pma(x, mask, name):
    with tf.variable_scope(name):
        return tf.squeeze(mab(_repeated("seed", 1, x), x, "mab", mask), 1)


def masked_mean(x, mask):
    return tf.reduce_sum(x * mask[:, :, None], axis=1) / tf.reduce_sum(mask, axis=1, keepdims=True)


def tower(elements, mask, counts):
    with tf.variable_scope("encoder"):
        embedded = tf.layers.dense(elements, DIM, activation=tf.nn.tanh, name="embedding")
        x = isab(embedded, mask, "isab1")
        x = isab(x, mask, "isab2")
    with tf.variable_scope("pooling"):
        attended = pma(x, mask, "pma")
        phi = tf.layers.dense(embedded, DIM, activation=tf.nn.relu, name="phi")
        averaged = masked_mean(phi, mask)
    with tf.variable_scope("decoder"):
        pooled = tf.concat([attended, averaged], axis=1)
        hidden = tf.layers.dense(pooled, DIM, activation=tf.nn.relu, name="rho")
        log_rate = tf.squeeze(tf.layers.dense(hidden, 1, name="log_rate"), 1)
    loss = tf.reduce_mean(tf.nn.log_poisson_loss(counts, log_rate))
    return loss, {"encoded": x, "attended": attended, "averaged": averaged, "log_rate": log_rate}
