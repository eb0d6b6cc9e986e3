"""A small ALBERT: embeddings in few dimensions, one transformer layer that is run several times, two heads."""
import numpy as np
import tensorflow.compat.v1 as tf

VOCAB, TYPES, MAX_POSITIONS = 61, 2, 12
EMBEDDING, HIDDEN, INTERMEDIATE = 10, 24, 38
LAYERS, HEADS, SIZE_PER_HEAD = 3, 3, 8
INIT = tf.truncated_normal_initializer(stddev=0.05)


def gelu(x):
    cdf = 0.5 * (1.0 + tf.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * tf.pow(x, 3))))
    return x * cdf


def layer_norm(x, name="LayerNorm"):
    with tf.variable_scope(name):
        size = x.shape.as_list()[-1]
        beta = tf.get_variable("beta", [size], x.dtype, tf.zeros_initializer())
        gamma = tf.get_variable("gamma", [size], x.dtype, tf.ones_initializer())
        mean, variance = tf.nn.moments(x, [-1], keep_dims=True)
        return tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-12)


def dense(x, units, activation=None, use_bias=True, name="dense"):
    return tf.layers.dense(x, units, activation, use_bias, kernel_initializer=INIT, name=name)


def embeddings(input_ids, segment_ids, dtype):
    with tf.variable_scope("embeddings"):
        table = tf.get_variable("word_embeddings", [VOCAB, EMBEDDING], dtype, INIT)
        output = tf.nn.embedding_lookup(table, input_ids)
        types = tf.get_variable("token_type_embeddings", [TYPES, EMBEDDING], dtype, INIT)
        flat = tf.one_hot(tf.reshape(segment_ids, [-1]), TYPES, dtype=dtype)
        output += tf.reshape(tf.matmul(flat, types), tf.shape(output))
        positions = tf.get_variable("position_embeddings", [MAX_POSITIONS, EMBEDDING], dtype, INIT)
        output += tf.slice(positions, [0, 0], [input_ids.shape.as_list()[1], -1])[tf.newaxis]
        return layer_norm(output), table


def heads(x):
    length = x.shape.as_list()[1]
    return tf.transpose(tf.reshape(x, [-1, length, HEADS, SIZE_PER_HEAD]), [0, 2, 1, 3])


def attention(x, adder):
    length = x.shape.as_list()[1]
    with tf.variable_scope("self"):
        query, value = heads(dense(x, HIDDEN, name="query")), heads(dense(x, HIDDEN, name="value"))
        key = heads(dense(x, HIDDEN, use_bias=False, name="key"))     # a bias of all keys cancels in the softmax
        scores = tf.matmul(query, key, transpose_b=True)
        scores = tf.multiply(scores, 1.0 / np.sqrt(float(SIZE_PER_HEAD)))
        probs = tf.nn.softmax(scores + adder)
        context = tf.transpose(tf.matmul(probs, value), [0, 2, 1, 3])
        context = tf.reshape(context, [-1, length, HIDDEN])
    with tf.variable_scope("output"):
        return dense(context, HIDDEN)


def block(x, adder):
    with tf.variable_scope("attention_1"):
        output = attention(x, adder)
    x = layer_norm(output + x, "LayerNorm")
    with tf.variable_scope("ffn_1"):
        with tf.variable_scope("intermediate"):
            output = dense(x, INTERMEDIATE, gelu)
            with tf.variable_scope("output"):
                output = dense(output, HIDDEN)
    return layer_norm(output + x, "LayerNorm_1")


def gather_indexes(sequence, positions):
    batch, length = tf.shape(sequence)[0], sequence.shape.as_list()[1]
    offsets = tf.reshape(tf.range(0, batch, dtype=tf.int32) * length, [-1, 1])
    flat = tf.reshape(sequence, [-1, HIDDEN])
    return tf.gather(flat, tf.reshape(positions + offsets, [-1]))


def tower(input_ids, input_mask, segment_ids, masked_lm_positions, masked_lm_ids, masked_lm_weights, next_sentence_labels):
    dtype = input_mask.dtype
    with tf.variable_scope("bert"):
        x, table = embeddings(input_ids, segment_ids, dtype)
        adder = (1.0 - input_mask[:, tf.newaxis, tf.newaxis, :]) * -10000.0
        with tf.variable_scope("encoder"):
            x = dense(x, HIDDEN, name="embedding_hidden_mapping_in")
            with tf.variable_scope("transformer", reuse=tf.AUTO_REUSE):
                for _ in range(LAYERS):
                    with tf.variable_scope("group_0/inner_group_0"):
                        x = block(x, adder)
        sequence = x
        with tf.variable_scope("pooler"):
            pooled = dense(tf.squeeze(sequence[:, 0:1, :], axis=1), HIDDEN, tf.tanh)

    with tf.variable_scope("cls/predictions"):
        h = gather_indexes(sequence, masked_lm_positions)
        with tf.variable_scope("transform"):
            h = layer_norm(dense(h, EMBEDDING, gelu))
        bias = tf.get_variable("output_bias", [VOCAB], dtype, tf.zeros_initializer())
        log_probs = tf.nn.log_softmax(tf.nn.bias_add(tf.matmul(h, table, transpose_b=True), bias))
        labels = tf.one_hot(tf.reshape(masked_lm_ids, [-1]), VOCAB, dtype=dtype)
        per_example = -tf.reduce_sum(log_probs * labels, axis=[-1])
        weights = tf.reshape(masked_lm_weights, [-1])
        masked_lm_loss = tf.reduce_sum(weights * per_example) / (tf.reduce_sum(weights) + 1e-5)

    with tf.variable_scope("cls/seq_relationship"):
        kernel = tf.get_variable("output_weights", [2, HIDDEN], dtype, INIT)
        bias = tf.get_variable("output_bias", [2], dtype, tf.zeros_initializer())
        logits = tf.nn.bias_add(tf.matmul(pooled, kernel, transpose_b=True), bias)
        labels = tf.one_hot(next_sentence_labels, 2, dtype=dtype)
        next_sentence_loss = tf.reduce_mean(-tf.reduce_sum(labels * tf.nn.log_softmax(logits), axis=-1))

    predictions = masked_lm_positions.shape.as_list()[1]
    outputs = {"sequence_output": sequence, "pooled_output": pooled,
               "masked_lm_log_probs": tf.reshape(log_probs, [-1, predictions, VOCAB]), "next_sentence_logits": logits}
    return masked_lm_loss + next_sentence_loss, outputs
