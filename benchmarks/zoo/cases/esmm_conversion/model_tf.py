"""Entire-space multi-task model: click-through and conversion rates over shared embeddings.

The conversion tower has no loss of its own: it learns through the product of both rates, over all impressions.
"""
import tensorflow.compat.v1 as tf

EMBEDDING_DIM = 8
HIDDEN = [32, 16]
EPSILON = 1e-7
BN_DECAY = 0.99
BN_EPSILON = 1e-3
EMBEDDING_L2 = 1e-3


def get_table(name, size, dtype):
    return tf.get_variable(name + "_embedding", [size, EMBEDDING_DIM], dtype,
                           initializer=tf.truncated_normal_initializer(stddev=EMBEDDING_DIM ** -0.5))


def pooled(table, ids):
    """Mean over the ids that are there, as the combiner of a sparse lookup does."""
    valid = tf.cast(ids > 0, table.dtype)
    total = tf.reduce_sum(tf.nn.embedding_lookup(table, ids) * tf.expand_dims(valid, -1), axis=1)
    return total / tf.maximum(tf.reduce_sum(valid, axis=1, keepdims=True), 1.0)


def prelu(x, scope):
    with tf.variable_scope(scope):
        alpha = tf.get_variable("alpha", [x.shape.as_list()[-1]], x.dtype, initializer=tf.constant_initializer(0.1))
        return tf.maximum(x, 0.0) + alpha * tf.minimum(x, 0.0)


def batch_norm(x, scope, training):
    with tf.variable_scope(scope):
        shape = [x.shape.as_list()[-1]]
        gamma = tf.get_variable("gamma", shape, x.dtype, tf.ones_initializer())
        beta = tf.get_variable("beta", shape, x.dtype, tf.zeros_initializer())
        moving_mean = tf.get_variable("moving_mean", shape, x.dtype, tf.zeros_initializer(), trainable=False)
        moving_variance = tf.get_variable("moving_variance", shape, x.dtype, tf.ones_initializer(), trainable=False)
        if training:
            mean, variance = tf.nn.moments(x, [0])
            for moving, value in ((moving_mean, mean), (moving_variance, variance)):
                tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign_sub(moving, (moving - value) * (1 - BN_DECAY)))
        else:
            mean, variance = moving_mean, moving_variance
        return tf.nn.batch_normalization(x, mean, variance, beta, gamma, BN_EPSILON)


def mlp(x, scope, training):
    with tf.variable_scope(scope):
        for i, units in enumerate(HIDDEN):
            x = tf.layers.dense(x, units, name="fc%d" % i)
            x = batch_norm(x, "bn%d" % i, training)
            x = prelu(x, "prelu%d" % i)
        logit = tf.layers.dense(x, 1, name="logit")
    return tf.squeeze(logit, axis=1)


def log_loss(labels, predictions):
    return tf.reduce_mean(-labels * tf.log(predictions + EPSILON) - (1 - labels) * tf.log(1 - predictions + EPSILON))


def tower(user, tags, item, category, price, click, purchase, training=True):
    dtype = price.dtype
    with tf.variable_scope("embedding"):
        user_table = get_table("user", 120, dtype)
        tag_table = get_table("tag", 30, dtype)
        item_table = get_table("item", 200, dtype)
        category_table = get_table("category", 12, dtype)
        features = tf.concat([
            tf.nn.embedding_lookup(user_table, user),
            pooled(tag_table, tags),
            tf.nn.embedding_lookup(item_table, item),
            tf.nn.embedding_lookup(category_table, category),
            tf.expand_dims(tf.log(price + 1.0), 1),
        ], axis=1)
    p_ctr = tf.sigmoid(mlp(features, "ctr", training))
    p_cvr = tf.sigmoid(mlp(features, "cvr", training))
    p_ctcvr = p_ctr * p_cvr
    ctr_loss = log_loss(click, p_ctr)
    # a conversion is a purchase behind a click
    ctcvr_loss = log_loss(click * purchase, p_ctcvr)
    l2 = tf.add_n([tf.nn.l2_loss(table) for table in (user_table, tag_table, item_table, category_table)])
    loss = ctr_loss + ctcvr_loss + EMBEDDING_L2 * l2
    return loss, {"features": features, "p_ctr": p_ctr, "p_cvr": p_cvr, "p_ctcvr": p_ctcvr,
                  "ctr_loss": ctr_loss, "ctcvr_loss": ctcvr_loss}
