"""Autoencoder for anomaly detection: an LSTM with peepholes reads the series, another one writes it down backwards."""
import tensorflow.compat.v1 as tf

HIDDEN = 20
CHANNELS = 4
L2 = 1e-3


def encode(readings, lengths):
    with tf.variable_scope("encoder"):
        cell = tf.nn.rnn_cell.LSTMCell(HIDDEN, use_peepholes=True, forget_bias=1.0,
                                       initializer=tf.random_uniform_initializer(-0.2, 0.2))
        _, state = tf.nn.dynamic_rnn(cell, readings, sequence_length=lengths, dtype=readings.dtype)
        return state


def decode(state, target, lengths):
    with tf.variable_scope("decoder"):
        # each step gets the reading that it should have written before; the first one gets zeros
        go = tf.zeros_like(target[:, :1])
        inputs = tf.concat([go, target[:, :-1]], axis=1)
        cell = tf.nn.rnn_cell.BasicLSTMCell(HIDDEN)
        outputs, _ = tf.nn.dynamic_rnn(cell, inputs, sequence_length=lengths, initial_state=state, dtype=target.dtype)
        w = tf.get_variable("w_out", [HIDDEN, CHANNELS], target.dtype, tf.truncated_normal_initializer(stddev=0.2))
        b = tf.get_variable("b_out", [CHANNELS], target.dtype, tf.zeros_initializer())
        written = tf.matmul(tf.reshape(outputs, [-1, HIDDEN]), w) + b
        return outputs, tf.reshape(written, tf.shape(target))


def tower(readings, lengths):
    state = encode(readings, lengths)
    target = tf.reverse_sequence(readings, lengths, seq_axis=1)
    outputs, written = decode(state, target, lengths)
    mask = tf.sequence_mask(lengths, tf.shape(readings)[1], dtype=readings.dtype)
    errors = tf.reduce_mean(tf.square(written - target), axis=2) * mask
    scores = tf.reduce_sum(errors, axis=1) / tf.cast(lengths, readings.dtype)
    decay = tf.add_n([tf.nn.l2_loss(v) for v in tf.trainable_variables() if "bias" not in v.name and "b_out" not in v.name])
    return tf.reduce_mean(scores) + L2 * decay, {"code": state.c, "decoded": outputs, "written": written, "scores": scores}
