"""Sequence to sequence with Luong's attention, after the kind of code that the NMT tutorials of TensorFlow 1 grew into: an encoder
under dynamic_rnn, an attention wrapper around the decoder's cell with input feeding and attention_layer, crossent masked by
target_weights and divided by the batch. Written out step by step, since contrib is gone."""
import tensorflow.compat.v1 as tf

SRC_VOCAB = 30
TGT_VOCAB = 26
SRC_EMBED = 14
TGT_EMBED = 15
NUM_UNITS = 18
ATTENTION_SIZE = 20
TGT_TIME = 8


def build_encoder(source, source_length, dtype):
    with tf.variable_scope("encoder"):
        embedding = tf.get_variable("embedding_encoder", [SRC_VOCAB, SRC_EMBED], dtype, tf.random_uniform_initializer(-0.1, 0.1))
        inputs = tf.nn.embedding_lookup(embedding, source)
        cell = tf.nn.rnn_cell.BasicLSTMCell(NUM_UNITS, forget_bias=1.0)
        return tf.nn.dynamic_rnn(cell, inputs, sequence_length=source_length, dtype=dtype)


class LuongAttention(object):
    def __init__(self, memory, memory_length):
        self.values = memory
        self.keys = tf.layers.dense(memory, NUM_UNITS, use_bias=False, name="memory_layer")
        self.mask = tf.sequence_mask(memory_length, tf.shape(memory)[1])

    def __call__(self, query):
        score = tf.squeeze(tf.matmul(tf.expand_dims(query, 1), self.keys, transpose_b=True), [1])
        score = tf.where(self.mask, score, tf.fill(tf.shape(score), tf.constant(float("-inf"), score.dtype)))
        alignments = tf.nn.softmax(score)
        context = tf.squeeze(tf.matmul(tf.expand_dims(alignments, 1), self.values), [1])
        return context, alignments


def build_decoder(target_input, encoder_outputs, encoder_state, source_length, dtype):
    with tf.variable_scope("decoder"):
        embedding = tf.get_variable("embedding_decoder", [TGT_VOCAB, TGT_EMBED], dtype, tf.random_uniform_initializer(-0.1, 0.1))
        inputs = tf.nn.embedding_lookup(embedding, target_input)
        mechanism = LuongAttention(encoder_outputs, source_length)
        cell = tf.nn.rnn_cell.BasicLSTMCell(NUM_UNITS, forget_bias=1.0)
        attention_layer = tf.layers.Dense(ATTENTION_SIZE, activation=tf.tanh, use_bias=False, name="attention_layer")
        state = encoder_state
        attention = tf.zeros([tf.shape(target_input)[0], ATTENTION_SIZE], dtype)
        outputs, history = [], []
        for time in range(TGT_TIME):
            cell_output, state = cell(tf.concat([inputs[:, time], attention], -1), state)
            context, alignments = mechanism(cell_output)
            attention = attention_layer(tf.concat([cell_output, context], 1))
            outputs.append(attention)
            history.append(alignments)
        outputs = tf.stack(outputs, axis=1)
        logits = tf.layers.dense(outputs, TGT_VOCAB, use_bias=False, name="output_projection")
        return logits, tf.stack(history, axis=1)


def tower(source, source_length, target_input, target_output, target_weights):
    dtype = target_weights.dtype
    encoder_outputs, encoder_state = build_encoder(source, source_length, dtype)
    logits, alignments = build_decoder(target_input, encoder_outputs, encoder_state, source_length, dtype)
    crossent = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=target_output, logits=logits)
    batch_size = tf.cast(tf.shape(source)[0], dtype)
    loss = tf.reduce_sum(crossent * target_weights) / batch_size
    return loss, {"encoder_outputs": encoder_outputs, "alignments": alignments, "logits": logits}
