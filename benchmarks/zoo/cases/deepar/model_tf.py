"""DeepAR: an LSTM over scaled lagged counts, with a negative binomial likelihood."""
import tensorflow.compat.v1 as tf

CONTEXT_LENGTH = 12
NUM_ITEMS = 9
EMBEDDING_DIM = 5
NUM_CELLS = 20
NUM_LAYERS = 2


def mean_scale(target, observed):
    """Mean of what was observed in the conditioning range, and one more; no gradient goes through it."""
    target, observed = target[:, :CONTEXT_LENGTH], observed[:, :CONTEXT_LENGTH]
    count = tf.maximum(tf.reduce_sum(observed, axis=1, keepdims=True), 1)
    return 1 + tf.reduce_sum(target * observed, axis=1, keepdims=True) / count


def negative_binomial_loss(z, mu, alpha):
    """Negative log likelihood by mean and shape, where the variance is mu + alpha * mu^2."""
    r = 1 / alpha
    log_likelihood = (tf.lgamma(z + r) - tf.lgamma(z + 1) - tf.lgamma(r)
                      - r * tf.log(1 + alpha * mu) + z * tf.log(alpha * mu / (1 + alpha * mu)))
    return -log_likelihood


def tower(target, observed, covariates, item):
    dtype = target.dtype
    length = target.shape.as_list()[1]
    with tf.variable_scope("deepar"):
        scale = mean_scale(target, observed)
        lagged = tf.pad(target[:, :-1], [[0, 0], [1, 0]]) / scale
        embeddings = tf.get_variable("item_embedding", [NUM_ITEMS, EMBEDDING_DIM], dtype,
                                     initializer=tf.random_normal_initializer(stddev=0.3))
        static = tf.concat([tf.nn.embedding_lookup(embeddings, item), tf.log(scale)], axis=-1)
        static = tf.tile(tf.expand_dims(static, 1), [1, length, 1])
        inputs = tf.concat([tf.expand_dims(lagged, -1), covariates, static], axis=-1)
        cells = [tf.nn.rnn_cell.LSTMCell(NUM_CELLS, forget_bias=1.0) for _ in range(NUM_LAYERS)]
        outputs, _ = tf.nn.dynamic_rnn(tf.nn.rnn_cell.MultiRNNCell(cells), inputs, dtype=dtype)
        mu = scale * tf.squeeze(tf.layers.dense(outputs, 1, activation=tf.nn.softplus, name="mu"), -1)
        alpha = tf.squeeze(tf.layers.dense(outputs, 1, activation=tf.nn.softplus, name="alpha"), -1) / tf.sqrt(scale)
    losses = negative_binomial_loss(target, mu, alpha)
    loss = tf.reduce_sum(losses * observed) / tf.reduce_sum(observed)
    return loss, {"inputs": inputs, "hidden": outputs, "mu": mu, "alpha": alpha}
