"""Click-through rates from a field-aware factorisation machine and a deep part on its vectors, after the TF1 estimators for CTR
that were published with DeepFM, DeepFFM and DIN: a table per field, histories averaged by their lengths, batch norm in the tower."""
import tensorflow.compat.v1 as tf

FIELDS = [("user", 19), ("ad", 23), ("site", 13), ("history", 31)]
NUM_FIELDS = len(FIELDS)
FACTORS = 5
DEEP_LAYERS = [18, 11]
L2_REG = 1e-3


def masked_mean(embedded, lengths):
    mask = tf.sequence_mask(lengths, embedded.shape.as_list()[1], dtype=embedded.dtype)
    total = tf.reduce_sum(embedded * tf.expand_dims(mask, -1), axis=1)
    count = tf.maximum(tf.cast(lengths, embedded.dtype), 1.0)
    return total / tf.expand_dims(count, -1)


def lookup(table, ids, lengths):
    embedded = tf.nn.embedding_lookup(table, ids)
    return embedded if ids.shape.ndims == 1 else masked_mean(embedded, lengths)


def batch_norm_layer(x, training, scope):
    return tf.layers.batch_normalization(x, momentum=0.95, epsilon=1e-3, training=training, name=scope)


def tower(user, ad, site, history, history_length, counts, labels, training=True):
    dtype = counts.dtype
    features = {"user": user, "ad": ad, "site": site, "history": history}
    with tf.variable_scope("linear"):
        y_linear = tf.get_variable("fm_bias", [1], dtype, tf.constant_initializer(0.0))
        for name, size in FIELDS:
            weights = tf.get_variable(name, [size, 1], dtype, tf.random_normal_initializer(stddev=0.05))
            y_linear = y_linear + tf.reshape(lookup(weights, features[name], history_length), [-1])

    vectors, tables = [], []
    with tf.variable_scope("ffm"):
        for name, size in FIELDS:
            table = tf.get_variable(name, [size, NUM_FIELDS * FACTORS], dtype, tf.glorot_normal_initializer())
            tables.append(table)
            vector = lookup(table, features[name], history_length)
            vectors.append(tf.reshape(vector, [-1, NUM_FIELDS, FACTORS]))
        y_ffm = 0.0
        for i in range(NUM_FIELDS):
            for j in range(i + 1, NUM_FIELDS):
                y_ffm += tf.reduce_sum(vectors[i][:, j] * vectors[j][:, i], axis=1)

    with tf.variable_scope("deep"):
        flat = [tf.reshape(v, [-1, NUM_FIELDS * FACTORS]) for v in vectors]
        x = tf.concat(flat + [tf.log(counts + 1.0)], axis=1)
        for i, units in enumerate(DEEP_LAYERS):
            x = tf.layers.dense(x, units, name="mlp%d" % i)
            x = tf.nn.relu(batch_norm_layer(x, training, "bn_%d" % i))
        y_deep = tf.reshape(tf.layers.dense(x, 1, name="deep_out"), [-1])

    logits = y_linear + y_ffm + y_deep
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(logits=logits, labels=labels))
    loss += L2_REG * tf.add_n([tf.nn.l2_loss(table) for table in tables])
    return loss, {"linear": y_linear, "ffm": y_ffm, "deep": y_deep, "logits": logits, "prob": tf.sigmoid(logits)}
