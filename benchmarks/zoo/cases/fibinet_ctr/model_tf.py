"""FiBiNET: squeeze-and-excitation over the fields, then bilinear interactions of the plain and the reweighted embeddings."""
import itertools

import tensorflow.compat.v1 as tf

FIELD_SIZES = [20, 12, 30, 8, 15, 10]
EMBEDDING_SIZE = 6
REDUCTION_RATIO = 2
HIDDEN_UNITS = [32, 16]
L2_REG_EMBEDDING = 1e-3


def embedding_columns(ids, size, dtype, scope):
    tables, looked_up = [], []
    with tf.variable_scope(scope):
        for i, vocabulary in enumerate(FIELD_SIZES):
            table = tf.get_variable("field_%d" % i, [vocabulary, size], dtype,
                                    initializer=tf.random_normal_initializer())
            tables.append(table)
            looked_up.append(tf.nn.embedding_lookup(table, ids[:, i]))
    return tf.stack(looked_up, axis=1), tables


def senet_layer(inputs, scope="senet"):
    """[B, F, D] -> [B, F, D], every field times its own weight."""
    field_size = inputs.shape.as_list()[1]
    reduction_size = max(1, field_size // REDUCTION_RATIO)
    with tf.variable_scope(scope):
        w_1 = tf.get_variable("W_1", [field_size, reduction_size], inputs.dtype, initializer=tf.glorot_normal_initializer())
        w_2 = tf.get_variable("W_2", [reduction_size, field_size], inputs.dtype, initializer=tf.glorot_normal_initializer())
        z = tf.reduce_mean(inputs, axis=-1)
        a_1 = tf.nn.relu(tf.tensordot(z, w_1, axes=(-1, 0)))
        a_2 = tf.nn.sigmoid(tf.tensordot(a_1, w_2, axes=(-1, 0)))
        return tf.multiply(inputs, tf.expand_dims(a_2, axis=2)), a_2


def bilinear_interaction(inputs, scope):
    """bilinear_type 'each': the first of a pair is multiplied by the matrix of its field."""
    field_size, embed_size = inputs.shape.as_list()[1:]
    fields = tf.split(inputs, field_size, axis=1)
    with tf.variable_scope(scope):
        w_list = [tf.get_variable("bilinear_weight%d" % i, [embed_size, embed_size], inputs.dtype,
                                  initializer=tf.glorot_normal_initializer()) for i in range(field_size - 1)]
        p = [tf.multiply(tf.tensordot(fields[i], w_list[i], axes=(-1, 0)), fields[j])
             for i, j in itertools.combinations(range(field_size), 2)]
        return tf.concat(p, axis=1)


def tower(ids, counters, clicks):
    dtype = counters.dtype
    with tf.variable_scope("linear"):
        first_order, _ = embedding_columns(ids, 1, dtype, "sparse")
        dense_input = tf.log(counters + 1.0)
        dense_weight = tf.get_variable("dense_kernel", [3, 1], dtype, initializer=tf.glorot_normal_initializer())
        bias = tf.get_variable("global_bias", [1], dtype, initializer=tf.zeros_initializer())
        linear_logit = tf.reduce_sum(first_order, axis=[1, 2]) + tf.squeeze(tf.matmul(dense_input, dense_weight), 1) + bias

    embeddings, tables = embedding_columns(ids, EMBEDDING_SIZE, dtype, "embedding")
    senet_embeddings, attention = senet_layer(embeddings)
    senet_bilinear = bilinear_interaction(senet_embeddings, "senet_bilinear")
    bilinear = bilinear_interaction(embeddings, "bilinear")

    pairs = len(FIELD_SIZES) * (len(FIELD_SIZES) - 1) // 2
    cross = tf.reshape(tf.concat([senet_bilinear, bilinear], axis=1), [-1, 2 * pairs * EMBEDDING_SIZE])
    deep = tf.concat([cross, dense_input], axis=-1)
    with tf.variable_scope("dnn"):
        for i, units in enumerate(HIDDEN_UNITS):
            deep = tf.layers.dense(deep, units, activation=tf.nn.relu, name="hidden_%d" % i)
        deep_logit = tf.squeeze(tf.layers.dense(deep, 1, use_bias=False, name="logit"), 1)

    logit = linear_logit + deep_logit
    cross_entropy = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=clicks, logits=logit))
    penalty = L2_REG_EMBEDDING * tf.add_n([tf.reduce_sum(tf.square(table)) for table in tables])
    return cross_entropy + penalty, {"attention": attention, "logit": logit, "cross_entropy": cross_entropy}
