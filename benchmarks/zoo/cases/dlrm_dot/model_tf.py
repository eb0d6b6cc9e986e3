"""Deep learning recommendation model: a bottom MLP for the counts, bags of embeddings, dot products of all pairs, a top MLP."""
import numpy as np
import tensorflow.compat.v1 as tf

TABLE_SIZES = [100, 60, 150]
SPARSE_DIM = 12
BOTTOM = [24, SPARSE_DIM]
TOP = [32, 16, 1]
LOSS_WEIGHTS = [1.0, 2.5]  # of those who did not click, and who did


def dense(x, units, scope):
    with tf.variable_scope(scope):
        n = x.shape.as_list()[-1]
        w = tf.get_variable("w", [n, units], x.dtype, tf.random_normal_initializer(stddev=np.sqrt(2.0 / (n + units))))
        b = tf.get_variable("b", [units], x.dtype, tf.random_normal_initializer(stddev=np.sqrt(1.0 / units)))
        return tf.nn.xw_plus_b(x, w, b)


def mlp(x, sizes, scope, last_linear):
    with tf.variable_scope(scope):
        for i, units in enumerate(sizes):
            x = dense(x, units, "layer_%d" % i)
            if not (last_linear and i == len(sizes) - 1):
                x = tf.nn.relu(x)
    return x


def bag(ids, weights, size, scope):
    with tf.variable_scope(scope):
        limit = np.sqrt(1.0 / size)
        table = tf.get_variable("table", [size, SPARSE_DIM], weights.dtype, tf.random_uniform_initializer(-limit, limit))
        rows = tf.nn.embedding_lookup(table, ids)
        return tf.reduce_sum(rows * tf.expand_dims(weights, -1), axis=1)


def interact(bottom, bags):
    """Products of every pair of vectors, each pair once and none with itself, behind the bottom MLP's output."""
    features = tf.stack([bottom] + bags, axis=1)
    products = tf.matmul(features, features, transpose_b=True)
    n = len(bags) + 1
    below = [i * n + j for i in range(n) for j in range(i)]
    flat = tf.gather(tf.reshape(products, [-1, n * n]), below, axis=1)
    return tf.concat([bottom, flat], axis=1)


def tower(counts, ids, weights, click):
    with tf.variable_scope("dlrm"):
        bottom = mlp(tf.log(counts + 1.0), BOTTOM, "bot", last_linear=False)
        bags = [bag(ids[:, i], weights[:, i], size, "emb_%d" % i) for i, size in enumerate(TABLE_SIZES)]
        interactions = interact(bottom, bags)
        logit = tf.reshape(mlp(interactions, TOP, "top", last_linear=True), [-1])
    losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=click, logits=logit)
    class_weight = click * LOSS_WEIGHTS[1] + (1.0 - click) * LOSS_WEIGHTS[0]
    loss = tf.reduce_mean(class_weight * losses)
    accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.cast(logit > 0, click.dtype), click), click.dtype))
    return loss, {"bottom": bottom, "interactions": interactions, "logit": logit, "accuracy": accuracy}
