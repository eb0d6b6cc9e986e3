"""Relation extraction from bags of sentences: piecewise convolutional network, selective attention over the sentences of a bag."""
import tensorflow.compat.v1 as tf

VOCAB_SIZE, NUM_CLASSES, NUM_SENTENCES, MAX_LENGTH = 50, 5, 4, 14
WORD_DIM, POS_DIM, POS_NUM, HIDDEN_SIZE = 16, 3, 20, 18


def word_position_embedding(word, pos1, pos2, dtype):
    with tf.variable_scope("embedding"):
        word_mat = tf.get_variable("word_embedding", [VOCAB_SIZE, WORD_DIM], dtype,
                                   initializer=tf.random_normal_initializer(stddev=0.5, dtype=dtype))
        init = tf.glorot_uniform_initializer(dtype=dtype)
        pos1_mat = tf.get_variable("real_pos1_embedding", [POS_NUM, POS_DIM], dtype, initializer=init)
        pos2_mat = tf.get_variable("real_pos2_embedding", [POS_NUM, POS_DIM], dtype, initializer=init)
        x_pos1 = tf.nn.embedding_lookup(pos1_mat, pos1)
        x_pos2 = tf.nn.embedding_lookup(pos2_mat, pos2)
        return tf.concat([tf.nn.embedding_lookup(word_mat, word), x_pos1, x_pos2], -1)


def piecewise_pooling(x, piece):
    """x [N, L, H], piece [N, L] in 0 (padding), 1, 2, 3 -> [N, H * 3]"""
    mask_embedding = tf.constant([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], x.dtype)
    mask = tf.expand_dims(tf.nn.embedding_lookup(mask_embedding, piece), 2)
    x = tf.expand_dims(x, 3) - (1 - mask) * 1e4
    return tf.reshape(tf.reduce_max(x, axis=1), [-1, HIDDEN_SIZE * 3])


def pcnn(x, piece):
    with tf.variable_scope("pcnn"):
        x = tf.layers.conv1d(x, HIDDEN_SIZE, 3, padding="same", name="conv")
        return tf.nn.relu(piecewise_pooling(x, piece))


def relation_logits(x):
    with tf.variable_scope("logits", reuse=tf.AUTO_REUSE):
        init = tf.glorot_uniform_initializer(dtype=x.dtype)
        relation_matrix = tf.get_variable("relation_matrix", [NUM_CLASSES, HIDDEN_SIZE * 3], x.dtype, initializer=init)
        bias = tf.get_variable("bias", [NUM_CLASSES], x.dtype, initializer=tf.zeros_initializer())
    return tf.matmul(x, relation_matrix, transpose_b=True) + bias, relation_matrix, bias


def bag_attention(x, count, query, training):
    """x [B, S, D] -> logits [B, R]"""
    flat = tf.reshape(x, [-1, HIDDEN_SIZE * 3])
    _, relation_matrix, bias = relation_logits(flat)
    inside = tf.sequence_mask(count, NUM_SENTENCES)
    if training:
        current = tf.nn.embedding_lookup(relation_matrix, query)
        score = tf.reduce_sum(tf.expand_dims(current, 1) * x, 2)
        alpha = tf.nn.softmax(tf.where(inside, score, tf.fill(tf.shape(score), tf.cast(-1e9, x.dtype))))
        bag_repre = tf.reduce_sum(tf.expand_dims(alpha, 2) * x, 1)
        logits, _, _ = relation_logits(bag_repre)
    else:
        # every relation asks for itself
        score = tf.reshape(tf.matmul(flat, relation_matrix, transpose_b=True), [-1, NUM_SENTENCES, NUM_CLASSES])
        score = tf.transpose(score, [0, 2, 1])
        inside = tf.tile(tf.expand_dims(inside, 1), [1, NUM_CLASSES, 1])
        alpha = tf.nn.softmax(tf.where(inside, score, tf.fill(tf.shape(score), tf.cast(-1e9, x.dtype))))
        bag_repre = tf.matmul(alpha, x)
        logits = tf.reduce_sum(bag_repre * relation_matrix, 2) + bias
    return logits


def weighted_cross_entropy(logits, relation, weights):
    """The mean over the bags that count at all."""
    losses = tf.nn.softmax_cross_entropy_with_logits(labels=tf.one_hot(relation, NUM_CLASSES, dtype=logits.dtype), logits=logits)
    present = tf.cast(tf.not_equal(weights, 0), logits.dtype)
    return tf.reduce_sum(losses * weights) / tf.maximum(tf.reduce_sum(present), 1)


def tower(word, pos1, pos2, piece, count, relation, weights, training=True):
    flatten = lambda t: tf.reshape(t, [-1, MAX_LENGTH])
    x = word_position_embedding(flatten(word), flatten(pos1), flatten(pos2), weights.dtype)
    x = pcnn(x, flatten(piece))
    sentences = tf.reshape(x, [-1, NUM_SENTENCES, HIDDEN_SIZE * 3])
    logits = bag_attention(sentences, count, relation, training)
    loss = weighted_cross_entropy(logits, relation, weights)
    accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1, output_type=tf.int32), relation), weights.dtype))
    return loss, {"sentences": sentences, "logits": logits, "accuracy": accuracy}
