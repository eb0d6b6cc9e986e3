"""Visual question answering: a GRU reads the question and modulates the residual blocks of a CNN feature by feature."""
import numpy as np
import tensorflow.compat.v1 as tf

VOCAB_SIZE = 20
EMBEDDING_SIZE = 12
RNN_SIZE = 24
NUM_FEATURES = 16
NUM_BLOCKS = 2
NUM_ANSWERS = 8


def batch_norm(x, name, training, affine=True):
    return tf.layers.batch_normalization(x, momentum=0.9, epsilon=1e-5, center=affine, scale=affine, fused=False,
                                         training=training, name=name)


def encode_question(questions, lengths, dtype):
    with tf.variable_scope("question"):
        table = tf.get_variable("embeddings", [VOCAB_SIZE, EMBEDDING_SIZE], dtype,
                                initializer=tf.random_uniform_initializer(-0.5, 0.5))
        words = tf.nn.embedding_lookup(table, questions)
        cell = tf.nn.rnn_cell.GRUCell(RNN_SIZE)
        _, state = tf.nn.dynamic_rnn(cell, words, sequence_length=lengths, dtype=dtype)
    return state


def add_coordinates(x):
    """Appends two maps that say where a place is, from -1 to 1: across first, then down."""
    height, width = x.shape.as_list()[1:3]
    across, down = np.meshgrid(np.linspace(-1.0, 1.0, width), np.linspace(-1.0, 1.0, height))
    maps = tf.constant(np.stack([across, down], axis=-1)[None], x.dtype)
    return tf.concat([x, tf.tile(maps, [tf.shape(x)[0], 1, 1, 1])], axis=3)


def film(x, gamma, beta):
    return x * gamma[:, None, None, :] + beta[:, None, None, :]


def film_block(x, gamma, beta, name, training):
    with tf.variable_scope(name):
        x = tf.layers.conv2d(add_coordinates(x), NUM_FEATURES, 1, activation=tf.nn.relu, name="proj")
        y = tf.layers.conv2d(x, NUM_FEATURES, 3, padding="same", use_bias=False, name="conv")
        y = batch_norm(y, "bn", training, affine=False)
        return x + tf.nn.relu(film(y, 1.0 + gamma, beta))


def tower(images, questions, lengths, answers, training=True):
    state = encode_question(questions, lengths, images.dtype)
    generated = tf.layers.dense(state, 2 * NUM_BLOCKS * NUM_FEATURES, name="film_generator")
    with tf.variable_scope("stem"):
        x = tf.layers.conv2d(images, NUM_FEATURES, 3, strides=2, padding="same", use_bias=False, name="conv")
        x = tf.nn.relu(batch_norm(x, "bn", training))
    end_points = {"state": state, "stem": x}
    for i, parameters in enumerate(tf.split(generated, NUM_BLOCKS, axis=1)):
        gamma, beta = tf.split(parameters, 2, axis=1)
        x = film_block(x, gamma, beta, "block%d" % (i + 1), training)
        end_points["block%d" % (i + 1)] = x
    with tf.variable_scope("classifier"):
        x = tf.layers.conv2d(add_coordinates(x), 24, 1, use_bias=False, name="proj")
        x = tf.nn.relu(batch_norm(x, "bn", training))
        x = tf.reduce_max(x, axis=[1, 2])
        x = tf.layers.dense(x, 32, activation=tf.nn.relu, name="hidden")
        logits = tf.layers.dense(x, NUM_ANSWERS, name="logits")
    end_points["logits"] = logits
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=answers, logits=logits)
    return tf.reduce_mean(losses), end_points
