"""Sentence classifier on top of a small BERT."""
import math

import tensorflow.compat.v1 as tf

VOCAB = 120
HIDDEN = 32
HEADS = 4
INTERMEDIATE = 64
LAYERS = 2
NUM_LABELS = 4


def create_initializer(initializer_range=0.02):
    return tf.truncated_normal_initializer(stddev=initializer_range)


def gelu(x):
    cdf = 0.5 * (1.0 + tf.erf(x / math.sqrt(2.0)))
    return x * cdf


def layer_norm(x, scope="LayerNorm"):
    """Layer normalisation over the last axis, with contrib's epsilon."""
    with tf.variable_scope(scope):
        depth = x.shape.as_list()[-1]
        beta = tf.get_variable("beta", [depth], x.dtype, tf.zeros_initializer())
        gamma = tf.get_variable("gamma", [depth], x.dtype, tf.ones_initializer())
        mean, variance = tf.nn.moments(x, [-1], keep_dims=True)
        return tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-12)


def embedding_lookup(input_ids, dtype):
    table = tf.get_variable("word_embeddings", [VOCAB, HIDDEN], dtype, create_initializer())
    return tf.gather(table, input_ids)


def embedding_postprocessor(x, seq_length):
    full = tf.get_variable("position_embeddings", [16, HIDDEN], x.dtype, create_initializer())
    return layer_norm(x + tf.expand_dims(full[:seq_length], 0))


def transpose_for_scores(x, seq_length):
    x = tf.reshape(x, [-1, seq_length, HEADS, HIDDEN // HEADS])
    return tf.transpose(x, [0, 2, 1, 3])


def attention_layer(x, attention_mask, seq_length):
    query = tf.layers.dense(x, HIDDEN, name="query", kernel_initializer=create_initializer())
    key = tf.layers.dense(x, HIDDEN, name="key", kernel_initializer=create_initializer())
    value = tf.layers.dense(x, HIDDEN, name="value", kernel_initializer=create_initializer())
    query = transpose_for_scores(query, seq_length)
    key = transpose_for_scores(key, seq_length)
    value = transpose_for_scores(value, seq_length)
    scores = tf.matmul(query, key, transpose_b=True)
    scores = tf.multiply(scores, 1.0 / math.sqrt(float(HIDDEN // HEADS)))
    scores += (1.0 - attention_mask[:, None, None, :]) * -10000.0
    context = tf.matmul(tf.nn.softmax(scores), value)
    context = tf.transpose(context, [0, 2, 1, 3])
    return tf.reshape(context, [-1, seq_length, HIDDEN])


def transformer_model(x, attention_mask, seq_length):
    for i in range(LAYERS):
        with tf.variable_scope("layer_%d" % i):
            with tf.variable_scope("attention"):
                with tf.variable_scope("self"):
                    heads = attention_layer(x, attention_mask, seq_length)
                with tf.variable_scope("output"):
                    heads = tf.layers.dense(heads, HIDDEN, kernel_initializer=create_initializer())
                    attended = layer_norm(heads + x)
            with tf.variable_scope("intermediate"):
                intermediate = tf.layers.dense(
                    attended, INTERMEDIATE, activation=gelu, kernel_initializer=create_initializer())
            with tf.variable_scope("output"):
                out = tf.layers.dense(intermediate, HIDDEN, kernel_initializer=create_initializer())
                x = layer_norm(out + attended)
    return x


def tower(input_ids, input_mask, label_ids):
    seq_length = input_ids.shape.as_list()[1]
    with tf.variable_scope("bert"):
        with tf.variable_scope("embeddings"):
            embedding_output = embedding_lookup(input_ids, input_mask.dtype)
            embedding_output = embedding_postprocessor(embedding_output, seq_length)
        with tf.variable_scope("encoder"):
            sequence_output = transformer_model(embedding_output, input_mask, seq_length)
        with tf.variable_scope("pooler"):
            first_token = tf.squeeze(sequence_output[:, 0:1, :], axis=1)
            pooled_output = tf.layers.dense(
                first_token, HIDDEN, activation=tf.tanh, kernel_initializer=create_initializer())
    with tf.variable_scope("loss"):
        output_weights = tf.get_variable("output_weights", [NUM_LABELS, HIDDEN], input_mask.dtype, create_initializer())
        output_bias = tf.get_variable("output_bias", [NUM_LABELS], input_mask.dtype, tf.zeros_initializer())
        logits = tf.nn.bias_add(tf.matmul(pooled_output, output_weights, transpose_b=True), output_bias)
        log_probs = tf.nn.log_softmax(logits, axis=-1)
        one_hot_labels = tf.one_hot(label_ids, depth=NUM_LABELS, dtype=logits.dtype)
        per_example_loss = -tf.reduce_sum(one_hot_labels * log_probs, axis=-1)
        loss = tf.reduce_mean(per_example_loss)
    return loss, {"embedding_output": embedding_output, "sequence_output": sequence_output, "logits": logits}
