"""R-Drop: each sentence goes twice through a one-layer BERT-like encoder under two dropout masks."""
import tensorflow.compat.v1 as tf

VOCAB = 48
WIDTH = 16
HEADS = 2
CLASSES = 6
SMOOTHING = 0.1
ALPHA = 1.5


def create_initializer(initializer_range=0.1):
    return tf.truncated_normal_initializer(stddev=initializer_range)


def layer_norm(x, name):
    with tf.variable_scope(name):
        beta = tf.get_variable("beta", [WIDTH], x.dtype, tf.zeros_initializer())
        gamma = tf.get_variable("gamma", [WIDTH], x.dtype, tf.ones_initializer())
        mean, variance = tf.nn.moments(x, [-1], keep_dims=True)
        return tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-12)


def dense(x, units, name, activation=None):
    return tf.layers.dense(x, units, activation=activation, kernel_initializer=create_initializer(), name=name)


def transpose_for_scores(x, length):
    return tf.transpose(tf.reshape(x, [-1, length, HEADS, WIDTH // HEADS]), [0, 2, 1, 3])


def attention_layer(x, input_mask):
    length = x.shape.as_list()[1]
    query = transpose_for_scores(dense(x, WIDTH, "query"), length)
    key = transpose_for_scores(dense(x, WIDTH, "key"), length)
    value = transpose_for_scores(dense(x, WIDTH, "value"), length)
    scores = tf.multiply(tf.matmul(query, key, transpose_b=True), (WIDTH // HEADS) ** -0.5)
    adder = (1.0 - input_mask[:, None, None, :]) * -10000.0
    probs = tf.nn.softmax(scores + adder)
    context = tf.transpose(tf.matmul(probs, value), [0, 2, 1, 3])
    return tf.reshape(context, [-1, length, WIDTH])


def encode(tokens, embedding_mask, pooled_mask):
    dtype = embedding_mask.dtype
    length = tokens.shape.as_list()[1]
    input_mask = tf.cast(tf.greater(tokens, 0), dtype)
    with tf.variable_scope("embeddings"):
        table = tf.get_variable("word_embeddings", [VOCAB, WIDTH], dtype, create_initializer())
        positions = tf.get_variable("position_embeddings", [length, WIDTH], dtype, create_initializer())
        x = tf.gather(table, tokens) + positions[None]
        x = layer_norm(x, "LayerNorm") * embedding_mask
    with tf.variable_scope("layer_0"):
        with tf.variable_scope("attention"):
            context = attention_layer(x, input_mask)
            attended = layer_norm(dense(context, WIDTH, "output") + x, "LayerNorm")
        intermediate = dense(attended, 2 * WIDTH, "intermediate", tf.nn.relu)
        x = layer_norm(dense(intermediate, WIDTH, "output") + attended, "LayerNorm")
    with tf.variable_scope("pooler"):
        pooled = dense(x[:, 0], WIDTH, "dense", tf.tanh) * pooled_mask
    return x, dense(pooled, CLASSES, "classifier")


def kl(p_logits, q_logits):
    p = tf.nn.softmax(p_logits)
    return tf.reduce_sum(p * (tf.nn.log_softmax(p_logits) - tf.nn.log_softmax(q_logits)), axis=-1)


def tower(tokens, labels, embedding_masks, pooled_masks):
    # both passes at once: first all of the first, then all of the second
    doubled = tf.concat([tokens, tokens], axis=0)
    hidden, logits = encode(doubled, tf.concat(tf.unstack(embedding_masks, axis=1), axis=0),
                            tf.concat(tf.unstack(pooled_masks, axis=1), axis=0))
    one_hot = tf.one_hot(tf.concat([labels, labels], axis=0), CLASSES, dtype=logits.dtype)
    soft_labels = one_hot * (1.0 - SMOOTHING) + SMOOTHING / CLASSES
    cross_entropy = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=soft_labels, logits=logits))
    first, second = tf.split(logits, 2, axis=0)
    consistency = tf.reduce_mean(0.5 * (kl(first, second) + kl(second, first)))
    loss = cross_entropy + ALPHA * consistency
    return loss, {"hidden": hidden, "logits": logits, "cross_entropy": cross_entropy, "consistency": consistency}
