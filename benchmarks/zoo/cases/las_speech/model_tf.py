"""Listen, attend and spell: a pyramid of bidirectional LSTMs, and a speller that attends to it, with teacher forcing."""
import tensorflow.compat.v1 as tf

VOCABULARY = 14
SOS = 1
LISTENER_UNITS = 8
SPELLER_UNITS = 16
ATTENTION_UNITS = 12
EMBEDDING = 8


def blstm(x, lengths, name):
    with tf.variable_scope(name):
        forward = tf.nn.rnn_cell.LSTMCell(LISTENER_UNITS, dtype=x.dtype)
        backward = tf.nn.rnn_cell.LSTMCell(LISTENER_UNITS, dtype=x.dtype)
        outputs, _ = tf.nn.bidirectional_dynamic_rnn(forward, backward, x, lengths, dtype=x.dtype)
        return tf.concat(outputs, axis=-1)


def reduce_time(x, lengths):
    """Joins every frame of even number with the one behind it."""
    _, frames, width = x.shape.as_list()
    return tf.reshape(x, [-1, frames // 2, 2 * width]), (lengths + 1) // 2


def listen(features, lengths):
    with tf.variable_scope("listener"):
        x = blstm(features, lengths, "blstm_0")
        for layer in (1, 2):
            x, lengths = reduce_time(x, lengths)
            x = blstm(x, lengths, "pblstm_%d" % layer)
    return x, lengths


def attend(state, keys, values, mask):
    query = tf.layers.dense(state, ATTENTION_UNITS, tf.nn.relu, name="query", reuse=tf.AUTO_REUSE)
    energy = tf.reduce_sum(keys * query[:, None, :], axis=-1)
    energy += (1.0 - mask) * -1e9
    alignment = tf.nn.softmax(energy)
    return tf.reduce_sum(alignment[:, :, None] * values, axis=1), alignment


def spell(values, lengths, targets):
    dtype = values.dtype
    batch, steps = tf.shape(targets)[0], targets.shape.as_list()[1]
    mask = tf.sequence_mask(lengths, values.shape.as_list()[1], dtype)
    with tf.variable_scope("speller"):
        table = tf.get_variable("embedding", [VOCABULARY, EMBEDDING], dtype,
                                initializer=tf.random_uniform_initializer(-0.5, 0.5))
        shifted = tf.concat([tf.fill([batch, 1], SOS), targets[:, :-1]], axis=1)
        embedded = tf.nn.embedding_lookup(table, shifted)
        keys = tf.layers.dense(values, ATTENTION_UNITS, tf.nn.relu, name="key")
        cell = tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.LSTMCell(SPELLER_UNITS, dtype=dtype) for _ in range(2)])
        state = cell.zero_state(batch, dtype)
        context = tf.zeros([batch, 2 * LISTENER_UNITS], dtype)
        outputs, alignments = [], []
        for step in range(steps):
            output, state = cell(tf.concat([embedded[:, step], context], axis=-1), state)
            context, alignment = attend(output, keys, values, mask)
            outputs.append(tf.concat([output, context], axis=-1))
            alignments.append(alignment)
        hidden = tf.layers.dense(tf.stack(outputs, axis=1), SPELLER_UNITS, tf.nn.tanh, name="hidden")
        logits = tf.layers.dense(hidden, VOCABULARY, name="character")
    return logits, tf.stack(alignments, axis=1)


def tower(features, lengths, targets, weights):
    listened, reduced = listen(features, lengths)
    logits, alignments = spell(listened, reduced, targets)
    xent = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=targets, logits=logits)
    loss = tf.reduce_mean(tf.reduce_sum(xent * weights, axis=1))
    right = tf.cast(tf.equal(tf.argmax(logits, -1, output_type=tf.int32), targets), weights.dtype)
    accuracy = tf.reduce_sum(right * weights) / tf.reduce_sum(weights)
    return loss, {"listened": listened, "alignments": alignments, "logits": logits, "accuracy": accuracy}
