"""Relation network for questions about pictures: an MLP on every pair of cells, given the question."""
import numpy as np
import tensorflow.compat.v1 as tf

VOCABULARY, EMBEDDING, LSTM_UNITS, ANSWERS = 20, 8, 16, 10
CONV_FILTERS = [8, 8, 12]


def cnn(images, training):
    net = images
    with tf.variable_scope("cnn"):
        for i, filters in enumerate(CONV_FILTERS):
            net = tf.layers.conv2d(net, filters, 3, strides=2, padding="same", use_bias=False, name="conv_%d" % (i + 1))
            net = tf.layers.batch_normalization(net, momentum=0.9, fused=False, training=training, name="bn_%d" % (i + 1))
            net = tf.nn.relu(net)
    return net


def encode_question(questions, lengths, dtype):
    with tf.variable_scope("question"):
        table = tf.get_variable("word_embedding", [VOCABULARY, EMBEDDING], dtype,
                                tf.random_uniform_initializer(-0.5, 0.5))
        words = tf.nn.embedding_lookup(table, questions)
        cell = tf.nn.rnn_cell.BasicLSTMCell(LSTM_UNITS)
        _, state = tf.nn.dynamic_rnn(cell, words, sequence_length=lengths, dtype=dtype)
    return state.h


def add_coordinates(features):
    """Cells as a list, each with its row and its column in [-1, 1] at the end."""
    batch = tf.shape(features)[0]
    d, channels = features.get_shape().as_list()[1], features.get_shape().as_list()[-1]
    row, col = np.meshgrid(np.linspace(-1, 1, d), np.linspace(-1, 1, d), indexing="ij")
    coords = tf.constant(np.stack([row, col], -1).reshape(1, d * d, 2), features.dtype)
    objects = tf.reshape(features, [-1, d * d, channels])
    return tf.concat([objects, tf.tile(coords, [batch, 1, 1])], axis=2)


def g_theta(pairs):
    with tf.variable_scope("g_theta"):
        for i in range(3):
            pairs = tf.layers.dense(pairs, 32, activation=tf.nn.relu, name="g_%d" % (i + 1))
    return pairs


def f_phi(relations, kept):
    with tf.variable_scope("f_phi"):
        fc = tf.layers.dense(relations, 32, activation=tf.nn.relu, name="fc_1")
        fc = tf.layers.dense(fc, 32, activation=tf.nn.relu, name="fc_2")
        return tf.layers.dense(fc * kept, ANSWERS, name="fc_3")


def tower(images, questions, lengths, answers, kept, training=True):
    features = cnn(images, training)
    q = encode_question(questions, lengths, images.dtype)
    objects = add_coordinates(features)
    n = objects.get_shape().as_list()[1]
    o_i = tf.tile(tf.expand_dims(objects, 2), [1, 1, n, 1])
    o_j = tf.tile(tf.expand_dims(objects, 1), [1, n, 1, 1])
    q_ij = tf.tile(q[:, None, None, :], [1, n, n, 1])
    pairs = g_theta(tf.concat([o_i, o_j, q_ij], axis=3))
    relations = tf.reduce_mean(pairs, axis=[1, 2])
    logits = f_phi(relations, kept)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=answers))
    return loss, {"features": features, "question": q, "relations": relations, "logits": logits}
