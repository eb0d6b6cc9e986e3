"""Decomposable attention for natural language inference, with attention inside each sentence first."""
import tensorflow.compat.v1 as tf

VOCAB = 60
EMBED = 20
NUM_UNITS = 24
NUM_CLASSES = 3
DISTANCE_LIMIT = 4
L2 = 1e-3


def feedforward(x, scope, reuse=False):
    init = tf.random_normal_initializer(0.0, 0.1)
    with tf.variable_scope(scope, reuse=reuse or None):
        with tf.variable_scope("layer1"):
            x = tf.layers.dense(x, NUM_UNITS, tf.nn.relu, kernel_initializer=init, name="dense")
        with tf.variable_scope("layer2"):
            return tf.layers.dense(x, NUM_UNITS, tf.nn.relu, kernel_initializer=init, name="dense")


def masked_softmax(scores, mask):
    """Softmax over the last axis; scores are [batch, rows, columns], mask is [batch, columns]."""
    with tf.name_scope("masked_softmax"):
        scores -= tf.reduce_max(scores, axis=2, keepdims=True)
        exp = tf.exp(scores) * tf.expand_dims(mask, 1)
        return exp / tf.reduce_sum(exp, 2, keepdims=True)


def distance_biases(length, dtype, reuse):
    with tf.variable_scope("distance-bias", reuse=reuse or None):
        bias = tf.get_variable("dist_bias", [DISTANCE_LIMIT + 1], dtype, initializer=tf.zeros_initializer())
    positions = tf.range(length)
    distances = tf.abs(tf.expand_dims(positions, 0) - tf.expand_dims(positions, 1))
    return tf.gather(bias, tf.minimum(distances, DISTANCE_LIMIT))


def self_attention(sentence, mask, reuse=False):
    hidden = feedforward(sentence, "intra-attention", reuse)
    scores = tf.matmul(hidden, tf.transpose(hidden, [0, 2, 1]))
    scores += tf.expand_dims(distance_biases(sentence.shape.as_list()[1], sentence.dtype, reuse), 0)
    attended = tf.matmul(masked_softmax(scores, mask), sentence)
    return tf.concat([sentence, attended], 2)


def tower(sentence1, sentence2, mask1, mask2, labels):
    with tf.variable_scope("embeddings"):
        table = tf.get_variable("words", [VOCAB, EMBED], mask1.dtype, initializer=tf.random_normal_initializer(0, 1))
        projection = tf.get_variable("projection", [EMBED, NUM_UNITS], mask1.dtype,
                                     initializer=tf.random_normal_initializer(0, 0.1))

    def project(ids):
        embedded = tf.nn.l2_normalize(tf.nn.embedding_lookup(table, ids), -1)
        flat = tf.matmul(tf.reshape(embedded, [-1, EMBED]), projection)
        return tf.reshape(flat, [-1, ids.shape.as_list()[1], NUM_UNITS])

    repr1 = self_attention(project(sentence1), mask1)
    repr2 = self_attention(project(sentence2), mask2, reuse=True)

    with tf.name_scope("inter-attention"):
        raw = tf.matmul(feedforward(repr1, "transformation"),
                        tf.transpose(feedforward(repr2, "transformation", reuse=True), [0, 2, 1]))
        alpha = tf.matmul(masked_softmax(tf.transpose(raw, [0, 2, 1]), mask1), repr1)
        beta = tf.matmul(masked_softmax(raw, mask2), repr2)

    def compare(sentence, soft_alignment, reuse=False):
        inputs = tf.concat([sentence, soft_alignment, sentence - soft_alignment, sentence * soft_alignment], 2)
        return feedforward(inputs, "comparison", reuse)

    v1 = tf.reduce_sum(compare(repr1, beta) * tf.expand_dims(mask1, 2), [1])
    v2 = tf.reduce_sum(compare(repr2, alpha, reuse=True) * tf.expand_dims(mask2, 2), [1])
    with tf.variable_scope("aggregation"):
        hidden = feedforward(tf.concat([v1, v2], 1), "feed-forward")
        logits = tf.layers.dense(hidden, NUM_CLASSES, kernel_initializer=tf.random_normal_initializer(0.0, 0.1),
                                 name="linear")

    cross_entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=labels)
    weights = [v for v in tf.trainable_variables() if "kernel" in v.name]
    loss = tf.reduce_mean(cross_entropy) + L2 * sum(tf.nn.l2_loss(w) for w in weights)
    return loss, {"repr1": repr1, "alpha": alpha, "beta": beta, "v1": v1, "v2": v2, "logits": logits}
