"""Language model for the One Billion Word benchmark: LSTMs whose output is projected, unrolled in Python, and a softmax over all words.
Each layer's state is one tensor, cell first and projected output behind it."""
import tensorflow.compat.v1 as tf

VOCAB_SIZE = 50
EMB_SIZE = 12
STATE_SIZE = 20
PROJECTED_SIZE = 12
NUM_LAYERS = 2
NUM_STEPS = 7


class LSTMCell(object):
    def __init__(self, num_units, input_size, num_proj, dtype, forget_bias=1.0):
        self._num_units = num_units
        self._num_proj = num_proj
        self._forget_bias = forget_bias
        init = tf.uniform_unit_scaling_initializer(dtype=dtype)
        with tf.variable_scope("LSTM"):
            self._concat_w = tf.get_variable("W_0", [input_size + num_proj, 4 * num_units], dtype, initializer=init)
            self._b = tf.get_variable("B", [4 * num_units], dtype, initializer=tf.zeros_initializer())
            self._concat_w_proj = tf.get_variable("W_P_0", [num_units, num_proj], dtype, initializer=init)

    def __call__(self, inputs, state):
        c = tf.slice(state, [0, 0], [-1, self._num_units])
        h = tf.slice(state, [0, self._num_units], [-1, self._num_proj])
        gates = tf.matmul(tf.concat([inputs, h], 1), self._concat_w) + self._b
        i, j, f, o = tf.split(gates, 4, 1)
        c = tf.sigmoid(f + self._forget_bias) * c + tf.sigmoid(i) * tf.tanh(j)
        h = tf.matmul(tf.sigmoid(o) * tf.tanh(c), self._concat_w_proj)
        return h, tf.concat([c, h], 1)


def tower(x, y, w, state):
    dtype = w.dtype
    emb = tf.get_variable("emb", [VOCAB_SIZE, EMB_SIZE], dtype, initializer=tf.random_uniform_initializer(-0.7, 0.7, dtype=dtype))
    x = tf.nn.embedding_lookup(emb, x)
    inputs = [tf.squeeze(v, [1]) for v in tf.split(x, NUM_STEPS, 1)]
    states = tf.split(state, NUM_LAYERS, 1)
    for i in range(NUM_LAYERS):
        with tf.variable_scope("lstm_%d" % i):
            cell = LSTMCell(STATE_SIZE, EMB_SIZE if i == 0 else PROJECTED_SIZE, PROJECTED_SIZE, dtype)
        for t in range(NUM_STEPS):
            inputs[t], states[i] = cell(inputs[t], states[i])

    output = tf.stack(inputs, 1)
    softmax_w = tf.get_variable("softmax_w", [VOCAB_SIZE, PROJECTED_SIZE], dtype,
                                initializer=tf.uniform_unit_scaling_initializer(dtype=dtype))
    softmax_b = tf.get_variable("softmax_b", [VOCAB_SIZE], dtype, initializer=tf.zeros_initializer())
    logits = tf.matmul(tf.reshape(output, [-1, PROJECTED_SIZE]), softmax_w, transpose_b=True) + softmax_b
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=tf.reshape(y, [-1]))
    loss = tf.reduce_mean(loss * tf.reshape(w, [-1])) * NUM_STEPS
    perplexity = tf.exp(loss / NUM_STEPS)
    return loss, {"output": output, "logits": logits, "perplexity": perplexity}
