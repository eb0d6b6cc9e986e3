"""LambdaRank with a margin over padded lists of documents."""
import tensorflow.compat.v1 as tf

MARGIN = 0.2
SIGMA = 1.5


def log1p_transform(x):
    return tf.log1p(tf.abs(x)) * tf.sign(x)


def standardise(x, mask):
    """Per list and feature, over the documents that are there."""
    weights = tf.expand_dims(mask, 2)
    mean, variance = tf.nn.weighted_moments(x, axes=[1], frequency_weights=weights, keep_dims=True)
    return (x - mean) / tf.sqrt(variance + 1e-3) * weights


def score_fn(x, list_size):
    net = tf.reshape(x, [-1, x.shape.as_list()[-1]])
    for i, units in enumerate([20, 12]):
        net = tf.layers.dense(net, units, name="hidden_%d" % i, kernel_initializer=tf.glorot_normal_initializer())
        net = tf.nn.elu(net)
    logits = tf.layers.dense(net, 1, name="score", use_bias=False, kernel_initializer=tf.glorot_normal_initializer())
    return tf.reshape(logits, [-1, list_size])


def approx_ranks(scores, mask):
    """1 + the number of documents above, each counted by a sigmoid."""
    above = tf.sigmoid(tf.expand_dims(scores, 1) - tf.expand_dims(scores, 2))
    above = above * tf.expand_dims(mask, 1)
    return tf.reduce_sum(above, 2) + 0.5


def inverse_max_dcg(gains, list_size):
    best, _ = tf.nn.top_k(gains, list_size)
    positions = tf.cast(tf.range(1, list_size + 1), gains.dtype)
    discounts = tf.log(tf.cast(2.0, gains.dtype)) / tf.log(1.0 + positions)
    dcg = tf.reduce_sum(best * discounts, 1, keepdims=True)
    return tf.where(dcg > 0, 1.0 / dcg, tf.zeros_like(dcg))


def tower(features, grades, lengths):
    dtype = features.dtype
    list_size = features.shape.as_list()[1]
    mask = tf.sequence_mask(lengths, list_size, dtype=dtype)
    x = standardise(log1p_transform(features), mask)
    scores = score_fn(x, list_size)

    gains = tf.pow(tf.cast(2.0, dtype), tf.cast(grades, dtype)) - 1.0
    ranks = approx_ranks(scores, mask)
    discounts = tf.log(tf.cast(2.0, dtype)) / tf.log(1.0 + ranks)
    delta_gain = tf.abs(tf.expand_dims(gains, 2) - tf.expand_dims(gains, 1))
    delta_discount = tf.abs(tf.expand_dims(discounts, 2) - tf.expand_dims(discounts, 1))
    delta_ndcg = delta_gain * delta_discount * tf.expand_dims(inverse_max_dcg(gains, list_size), 2)
    lambda_weights = tf.stop_gradient(0.2 + delta_ndcg)

    valid = tf.expand_dims(mask, 2) * tf.expand_dims(mask, 1)
    better = tf.cast(tf.greater(tf.expand_dims(grades, 2), tf.expand_dims(grades, 1)), dtype) * valid
    score_diff = tf.expand_dims(scores, 2) - tf.expand_dims(scores, 1)
    pair_loss = tf.nn.softplus(SIGMA * (MARGIN - score_diff)) * lambda_weights * better
    pairs = tf.reduce_sum(better, [1, 2])
    list_loss = tf.reduce_sum(pair_loss, [1, 2]) / tf.maximum(pairs, 1.0)
    has_pairs = tf.cast(pairs > 0, dtype)
    loss = tf.reduce_sum(list_loss) / tf.maximum(tf.reduce_sum(has_pairs), 1.0)
    return loss, {"inputs": x, "scores": scores, "ranks": ranks, "list_loss": list_loss}
