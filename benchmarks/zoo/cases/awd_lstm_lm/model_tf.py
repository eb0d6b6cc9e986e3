"""Language model in the manner of AWD-LSTM: locked dropout, tied embeddings, activation regularisation (AR and TAR)."""
import tensorflow.compat.v1 as tf

VOCAB = 80
EMBED = 18
HIDDEN = 26
ALPHA = 2.0
BETA = 1.0


class LSTMCell(tf.nn.rnn_cell.RNNCell):
    """The basic cell of old: one kernel, gates i, j, f, o."""

    def __init__(self, num_units, forget_bias=1.0):
        super(LSTMCell, self).__init__()
        self._num_units = num_units
        self._forget_bias = forget_bias

    @property
    def state_size(self):
        return tf.nn.rnn_cell.LSTMStateTuple(self._num_units, self._num_units)

    @property
    def output_size(self):
        return self._num_units

    def __call__(self, inputs, state, scope=None):
        c, h = state
        with tf.variable_scope(scope or "lstm_cell"):
            width = inputs.shape.as_list()[-1] + self._num_units
            kernel = tf.get_variable("kernel", [width, 4 * self._num_units], inputs.dtype)
            bias = tf.get_variable("bias", [4 * self._num_units], inputs.dtype, initializer=tf.zeros_initializer())
            gates = tf.nn.bias_add(tf.matmul(tf.concat([inputs, h], 1), kernel), bias)
            i, j, f, o = tf.split(gates, 4, 1)
            new_c = c * tf.sigmoid(f + self._forget_bias) + tf.sigmoid(i) * tf.tanh(j)
            new_h = tf.tanh(new_c) * tf.sigmoid(o)
        return new_h, tf.nn.rnn_cell.LSTMStateTuple(new_c, new_h)


def tower(tokens, targets, mask_input, mask_hidden, mask_output):
    dtype = mask_input.dtype
    batch_size, length = tf.shape(tokens)[0], tokens.shape.as_list()[1]
    with tf.variable_scope("lm", initializer=tf.random_uniform_initializer(-0.1, 0.1)):
        embedding = tf.get_variable("embedding", [VOCAB, EMBED], dtype)
        x = tf.nn.embedding_lookup(embedding, tokens) * mask_input
        for layer, (width, mask) in enumerate([(HIDDEN, mask_hidden), (EMBED, mask_output)]):
            with tf.variable_scope("layer_%d" % layer):
                cell = LSTMCell(width)
                state = cell.zero_state(batch_size, dtype)
                outputs = []
                for t in range(length):
                    if t > 0:
                        tf.get_variable_scope().reuse_variables()
                    output, state = cell(x[:, t], state)
                    outputs.append(output)
                raw = tf.stack(outputs, 1)
                x = raw * mask
        bias = tf.get_variable("softmax_b", [VOCAB], dtype, initializer=tf.zeros_initializer())
        logits = tf.matmul(tf.reshape(x, [-1, EMBED]), embedding, transpose_b=True) + bias
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.reshape(targets, [-1]), logits=logits)
    loss = tf.reduce_sum(losses) / tf.cast(batch_size, dtype)
    # AR is of the dropped-out output, TAR of the raw one
    loss += ALPHA * tf.reduce_mean(tf.square(x))
    loss += BETA * tf.reduce_mean(tf.square(raw[:, 1:] - raw[:, :-1]))
    return loss, {"raw": raw, "logits": tf.reshape(logits, [-1, length, VOCAB])}
