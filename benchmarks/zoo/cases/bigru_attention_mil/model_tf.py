"""Multiple instance learning: a bidirectional GRU reads every instance, gated attention pools the bag."""
import tensorflow.compat.v1 as tf

VOCAB = 40
EMBED = 6
UNITS = 8
ATTENTION = 10
POS_WEIGHT = 2.5


class ResetAfterGRUCell(tf.nn.rnn_cell.RNNCell):
    """The GRU that cuDNN computes: the reset gate acts on the product with the state."""

    def __init__(self, units, dtype):
        super(ResetAfterGRUCell, self).__init__(dtype=dtype)
        self._units = units

    @property
    def state_size(self):
        return self._units

    @property
    def output_size(self):
        return self._units

    def __call__(self, inputs, state, scope=None):
        with tf.variable_scope(scope or "reset_after_gru_cell", reuse=tf.AUTO_REUSE):
            n_in = inputs.shape.as_list()[-1]
            init = tf.orthogonal_initializer()
            w = tf.get_variable("input_kernel", [n_in, 3 * self._units], inputs.dtype, tf.glorot_uniform_initializer())
            u = tf.get_variable("state_kernel", [self._units, 3 * self._units], inputs.dtype, init)
            b_w = tf.get_variable("input_bias", [3 * self._units], inputs.dtype, tf.zeros_initializer())
            b_u = tf.get_variable("state_bias", [3 * self._units], inputs.dtype, tf.zeros_initializer())
            x_r, x_z, x_n = tf.split(tf.nn.bias_add(tf.matmul(inputs, w), b_w), 3, axis=1)
            h_r, h_z, h_n = tf.split(tf.nn.bias_add(tf.matmul(state, u), b_u), 3, axis=1)
            r = tf.nn.sigmoid(x_r + h_r)
            z = tf.nn.sigmoid(x_z + h_z)
            n = tf.nn.tanh(x_n + r * h_n)
            new = z * state + (1.0 - z) * n
        return new, new


def fc(x, units, name, activation=None):
    with tf.variable_scope(name):
        w = tf.get_variable("weights", [x.shape.as_list()[-1], units], x.dtype, tf.glorot_normal_initializer())
        b = tf.get_variable("biases", [units], x.dtype, tf.zeros_initializer())
        y = tf.tensordot(x, w, 1) + b
    return activation(y) if activation else y


def tower(tokens, lengths, bag_sizes, labels):
    dtype = labels.dtype
    instances, steps = tokens.shape.as_list()[1:]
    with tf.variable_scope("words"):
        table = tf.get_variable("table", [VOCAB, EMBED], dtype, tf.random_normal_initializer(stddev=0.3))
        x = tf.nn.embedding_lookup(table, tf.reshape(tokens, [-1, steps]))
    with tf.variable_scope("encoder"):
        cell_fw = ResetAfterGRUCell(UNITS, dtype)
        cell_bw = ResetAfterGRUCell(UNITS, dtype)
        _, (state_fw, state_bw) = tf.nn.bidirectional_dynamic_rnn(
            cell_fw, cell_bw, x, sequence_length=tf.reshape(lengths, [-1]), dtype=dtype)
        features = tf.reshape(tf.concat([state_fw, state_bw], 1), [-1, instances, 2 * UNITS])
    with tf.variable_scope("mil_attention"):
        v = fc(features, ATTENTION, "V", tf.nn.tanh)
        u = fc(features, ATTENTION, "U", tf.nn.sigmoid)
        scores = tf.squeeze(fc(v * u, 1, "w"), [2])
        mask = tf.sequence_mask(bag_sizes, instances, dtype=dtype)
        alphas = tf.nn.softmax(scores + (1.0 - mask) * -1e9)
        bag = tf.reduce_sum(features * tf.expand_dims(alphas, 2), 1)
    logits = tf.squeeze(fc(bag, 1, "bag_classifier"), [1])
    xent = tf.nn.weighted_cross_entropy_with_logits(labels, logits, POS_WEIGHT)
    return tf.reduce_mean(xent), {"features": features, "alphas": alphas, "bag": bag, "logits": logits}
