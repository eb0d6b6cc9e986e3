"""GNMT as in TensorFlow's nmt code: a bidirectional layer under residual ones, normed Bahdanau attention by the decoder's lowest layer,
whose context goes into all layers above it; smoothed loss summed over words and divided by the number of sentences."""
import math

import tensorflow.compat.v1 as tf

SRC_VOCAB, TGT_VOCAB, UNITS = 26, 22, 12
SMOOTHING = 0.1


def lstm():
    return tf.nn.rnn_cell.LSTMCell(UNITS, forget_bias=1.0, name="basic_lstm_cell")


def build_encoder(embedded, length):
    dtype = embedded.dtype
    with tf.variable_scope("encoder"):
        with tf.variable_scope("bidirectional"):
            bi_outputs, bi_state = tf.nn.bidirectional_dynamic_rnn(lstm(), lstm(), embedded, sequence_length=length, dtype=dtype)
        cell = tf.nn.rnn_cell.MultiRNNCell([lstm(), tf.nn.rnn_cell.ResidualWrapper(lstm())])
        outputs, state = tf.nn.dynamic_rnn(cell, tf.concat(bi_outputs, -1), sequence_length=length, dtype=dtype)
        # the backward direction's state is that of the lowest layer
        return outputs, (bi_state[1],) + tuple(state)


def normed_bahdanau(query, memory, length):
    dtype = memory.dtype
    with tf.variable_scope("attention"):
        keys = tf.layers.dense(memory, UNITS, use_bias=False, name="memory_layer")
        processed_query = tf.layers.dense(query, UNITS, use_bias=False, name="query_layer")
        v = tf.get_variable("attention_v", [UNITS], dtype)
        g = tf.get_variable("attention_g", [], dtype, initializer=tf.constant_initializer(math.sqrt(1.0 / UNITS)))
        b = tf.get_variable("attention_b", [UNITS], dtype, initializer=tf.zeros_initializer())
        normed_v = g * v * tf.rsqrt(tf.reduce_sum(tf.square(v)))
        score = tf.reduce_sum(normed_v * tf.tanh(tf.expand_dims(keys, 1) + tf.expand_dims(processed_query, 2) + b), [-1])
        mask = tf.sequence_mask(length, memory.shape.as_list()[1])
        mask = tf.tile(tf.expand_dims(mask, 1), [1, query.shape.as_list()[1], 1])
        score = tf.where(mask, score, float("-inf") * tf.ones_like(score))
        alignments = tf.nn.softmax(score)
        return alignments, tf.matmul(alignments, memory)


def build_decoder(embedded, memory, length, states):
    with tf.variable_scope("decoder"):
        with tf.variable_scope("layer_0"):
            x, _ = tf.nn.dynamic_rnn(lstm(), embedded, initial_state=states[0])
        alignments, context = normed_bahdanau(x, memory, length)
        for i in (1, 2):
            with tf.variable_scope("layer_%d" % i):
                outputs, _ = tf.nn.dynamic_rnn(lstm(), tf.concat([x, context], -1), initial_state=states[i])
            x = outputs if i == 1 else outputs + x
        return alignments, context, x


def tower(source, source_length, target_input, target_output, target_weights):
    dtype = target_weights.dtype
    with tf.variable_scope("dynamic_seq2seq", initializer=tf.random_uniform_initializer(-0.3, 0.3, dtype=dtype)):
        with tf.variable_scope("embeddings"):
            embedding_encoder = tf.get_variable("embedding_encoder", [SRC_VOCAB, UNITS], dtype)
            embedding_decoder = tf.get_variable("embedding_decoder", [TGT_VOCAB, UNITS], dtype)
        memory, states = build_encoder(tf.nn.embedding_lookup(embedding_encoder, source), source_length)
        alignments, context, decoded = build_decoder(tf.nn.embedding_lookup(embedding_decoder, target_input), memory,
                                                     source_length, states)
        logits = tf.layers.dense(decoded, TGT_VOCAB, use_bias=False, name="output_projection")
        soft = tf.one_hot(target_output, TGT_VOCAB, dtype=dtype) * (1.0 - SMOOTHING) + SMOOTHING / TGT_VOCAB
        crossent = tf.nn.softmax_cross_entropy_with_logits_v2(labels=soft, logits=logits)
        loss = tf.reduce_sum(crossent * target_weights) / tf.cast(tf.shape(source)[0], dtype)
    return loss, {"memory": memory, "alignments": alignments, "context": context, "decoded": decoded, "logits": logits}
