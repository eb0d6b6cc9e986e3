"""Joint intent and slot model, after the slot-gated spoken language understanding code of TensorFlow 1.

A bidirectional LSTM, additive attention (keys by a convolution of width 1, as in the seq2seq library) of every word and of the
final state, and a gate by which the intent weighs the slot context.
"""
import tensorflow.compat.v1 as tf

VOCABULARY = 50
EMBEDDING = 20
UNITS = 14
ATTENTION = 18
SLOTS = 11
INTENTS = 5


def linear(x, output_size, scope, bias=True):
    with tf.variable_scope(scope):
        kernel = tf.get_variable("kernel", [x.shape.as_list()[-1], output_size], x.dtype,
                                 initializer=tf.glorot_uniform_initializer())
        y = tf.matmul(x, kernel)
        if bias:
            y += tf.get_variable("bias", [output_size], x.dtype, initializer=tf.zeros_initializer())
        return y


def attention(queries, memory, mask, scope):
    """Queries [batch, n, size], memory [batch, length, units]: contexts [batch, n, units]."""
    length, units = memory.shape.as_list()[1:]
    n, size = queries.shape.as_list()[1:]
    with tf.variable_scope(scope):
        k = tf.get_variable("AttnW", [1, 1, units, ATTENTION], memory.dtype, initializer=tf.glorot_uniform_initializer())
        features = tf.nn.conv2d(tf.reshape(memory, [-1, length, 1, units]), k, [1, 1, 1, 1], "SAME")
        features = tf.reshape(features, [-1, 1, length, ATTENTION])
        v = tf.get_variable("AttnV", [ATTENTION], memory.dtype, initializer=tf.random_normal_initializer(stddev=0.3))
        y = linear(tf.reshape(queries, [-1, size]), ATTENTION, "query")
        y = tf.reshape(y, [-1, n, 1, ATTENTION])
        s = tf.reduce_sum(v * tf.tanh(features + y), [3])
        s += (1.0 - mask[:, None, :]) * -1e9
        a = tf.nn.softmax(s)
        return tf.reduce_sum(a[..., None] * memory[:, None, :, :], [2])


def tower(words, lengths, slots, slot_weights, intents):
    dtype = slot_weights.dtype
    length = words.shape.as_list()[1]
    embedding = tf.get_variable("embedding", [VOCABULARY, EMBEDDING], dtype,
                                initializer=tf.random_normal_initializer(stddev=0.5))
    inputs = tf.nn.embedding_lookup(embedding, words)
    cell_fw = tf.nn.rnn_cell.BasicLSTMCell(UNITS)
    cell_bw = tf.nn.rnn_cell.BasicLSTMCell(UNITS)
    outputs, states = tf.nn.bidirectional_dynamic_rnn(cell_fw, cell_bw, inputs, sequence_length=lengths, dtype=dtype)
    outputs = tf.concat(outputs, 2)
    final_state = tf.concat([states[0].c, states[0].h, states[1].c, states[1].h], 1)
    mask = tf.sequence_mask(lengths, length, dtype)

    slot_context = attention(outputs, outputs, mask, "slot_attn")
    intent_context = tf.squeeze(attention(final_state[:, None, :], outputs, mask, "intent_attn"), [1])
    intent_output = tf.concat([intent_context, final_state], 1)

    with tf.variable_scope("slot_gated"):
        units = 2 * UNITS
        gate = linear(intent_output, units, "intent_gate")
        v = tf.get_variable("gateV", [units], dtype, initializer=tf.random_normal_initializer(stddev=0.2))
        gate = v * tf.tanh(slot_context + gate[:, None, :])
        gate = tf.reduce_sum(gate, [2], keepdims=True)
        slot_output = tf.concat([gate * slot_context, outputs], 2)

    intent_logits = linear(intent_output, INTENTS, "intent_proj")
    slot_logits = linear(tf.reshape(slot_output, [-1, 2 * units]), SLOTS, "slot_proj")
    slot_logits = tf.reshape(slot_logits, [-1, length, SLOTS])

    with tf.variable_scope("slot_loss"):
        crossent = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=slots, logits=slot_logits)
        slot_loss = tf.reduce_sum(crossent * slot_weights, 1) / (tf.reduce_sum(slot_weights, 1) + 1e-12)
        slot_loss = tf.reduce_mean(slot_loss)
    with tf.variable_scope("intent_loss"):
        crossent = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=intents, logits=intent_logits)
        intent_loss = tf.reduce_mean(crossent)
    return slot_loss + intent_loss, {"encoded": outputs, "slot_context": slot_context, "slot_logits": slot_logits,
                                     "intent_logits": intent_logits, "slot_loss": slot_loss, "intent_loss": intent_loss}
