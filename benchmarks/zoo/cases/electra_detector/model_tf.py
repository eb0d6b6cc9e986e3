"""Replaced token detection: the discriminator of ELECTRA on a batch whose replacements a generator has drawn before.

Written after the kind of code in google-research/electra and the BERT code below it: a factorised embedding, post-norm
transformer layers out of tf.layers.dense, and a binary head over every token.
"""
import math

import numpy as np
import tensorflow.compat.v1 as tf

VOCAB_SIZE = 53
EMBEDDING_SIZE = 20
HIDDEN_SIZE = 32
NUM_LAYERS = 2
NUM_HEADS = 4
INTERMEDIATE_SIZE = 56
MAX_POSITIONS = 16
TYPE_VOCAB_SIZE = 2
DISC_WEIGHT = 50.0


def create_initializer(initializer_range=0.02):
    return tf.truncated_normal_initializer(stddev=initializer_range)


def gelu(x):
    cdf = 0.5 * (1.0 + tf.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * tf.pow(x, 3))))
    return x * cdf


def layer_norm(x, name="LayerNorm"):
    with tf.variable_scope(name):
        size = [x.shape.as_list()[-1]]
        gamma = tf.get_variable("gamma", size, x.dtype, initializer=tf.ones_initializer())
        beta = tf.get_variable("beta", size, x.dtype, initializer=tf.zeros_initializer())
        mean, variance = tf.nn.moments(x, [-1], keep_dims=True)
        return tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-12)


def dense(x, units, name, activation=None):
    return tf.layers.dense(x, units, activation=activation, kernel_initializer=create_initializer(), name=name)


def replace_masked(ids, positions, weights, sampled):
    """Puts the generator's tokens where something was masked; predictions of weight 0 stand for nothing."""
    length = ids.shape.as_list()[1]
    used = tf.cast(weights, tf.int32)
    places = tf.one_hot(positions, length, dtype=tf.int32) * used[:, :, None]
    updates_mask = tf.reduce_sum(places, 1)
    updates = tf.reduce_sum(places * sampled[:, :, None], 1)
    updated = ids * (1 - updates_mask) + updates
    is_replaced = 1 - tf.cast(tf.equal(updated, ids), tf.int32)
    return updated, is_replaced


def embedding_postprocessor(ids, segments, dtype):
    table = tf.get_variable("word_embeddings", [VOCAB_SIZE, EMBEDDING_SIZE], dtype, initializer=create_initializer())
    output = tf.nn.embedding_lookup(table, ids)
    types = tf.get_variable("token_type_embeddings", [TYPE_VOCAB_SIZE, EMBEDDING_SIZE], dtype,
                            initializer=create_initializer())
    output += tf.tensordot(tf.one_hot(segments, TYPE_VOCAB_SIZE, dtype=dtype), types, [[2], [0]])
    positions = tf.get_variable("position_embeddings", [MAX_POSITIONS, EMBEDDING_SIZE], dtype,
                                initializer=create_initializer())
    output += tf.slice(positions, [0, 0], [ids.shape.as_list()[1], -1])[None]
    return layer_norm(output)


def transpose_for_scores(x):
    length = x.shape.as_list()[1]
    return tf.transpose(tf.reshape(x, [-1, length, NUM_HEADS, HIDDEN_SIZE // NUM_HEADS]), [0, 2, 1, 3])


def attention_layer(x, adder):
    length = x.shape.as_list()[1]
    query = transpose_for_scores(dense(x, HIDDEN_SIZE, "query"))
    key = transpose_for_scores(dense(x, HIDDEN_SIZE, "key"))
    value = transpose_for_scores(dense(x, HIDDEN_SIZE, "value"))
    scores = tf.matmul(query, key, transpose_b=True)
    scores = tf.multiply(scores, 1.0 / math.sqrt(float(HIDDEN_SIZE // NUM_HEADS)))
    probs = tf.nn.softmax(scores + adder)
    context = tf.transpose(tf.matmul(probs, value), [0, 2, 1, 3])
    return tf.reshape(context, [-1, length, HIDDEN_SIZE])


def transformer_model(x, input_mask):
    adder = (1.0 - input_mask[:, None, None, :]) * -10000.0
    for layer_idx in range(NUM_LAYERS):
        with tf.variable_scope("layer_%d" % layer_idx):
            with tf.variable_scope("attention"):
                with tf.variable_scope("self"):
                    attention = attention_layer(x, adder)
                with tf.variable_scope("output"):
                    x = layer_norm(dense(attention, HIDDEN_SIZE, "dense") + x)
            with tf.variable_scope("intermediate"):
                intermediate = dense(x, INTERMEDIATE_SIZE, "dense", activation=gelu)
            with tf.variable_scope("output"):
                x = layer_norm(dense(intermediate, HIDDEN_SIZE, "dense") + x)
    return x


def tower(input_ids, input_mask, segment_ids, masked_lm_positions, masked_lm_weights, sampled_ids):
    updated, is_replaced = replace_masked(input_ids, masked_lm_positions, masked_lm_weights, sampled_ids)
    with tf.variable_scope("electra"):
        with tf.variable_scope("embeddings"):
            embedded = embedding_postprocessor(updated, segment_ids, input_mask.dtype)
        x = dense(embedded, HIDDEN_SIZE, "embeddings_project")
        with tf.variable_scope("encoder"):
            sequence_output = transformer_model(x, input_mask)
    with tf.variable_scope("discriminator_predictions"):
        hidden = dense(sequence_output, HIDDEN_SIZE, "dense", activation=gelu)
        logits = tf.squeeze(dense(hidden, 1, "dense_1"), -1)
        labels = tf.cast(is_replaced, logits.dtype)
        losses = tf.nn.sigmoid_cross_entropy_with_logits(logits=logits, labels=labels) * input_mask
        disc_loss = tf.reduce_sum(losses) / (1e-6 + tf.reduce_sum(input_mask))
    return DISC_WEIGHT * disc_loss, {
        "embedded": embedded,
        "sequence_output": sequence_output,
        "logits": logits,
        "disc_loss": disc_loss,
    }
