"""Character model with a HyperLSTM: a small LSTM makes the scales of the large one's gates, which are layer-normalised."""
import tensorflow.compat.v1 as tf

CHARS = 20
EMBEDDING = 10
NUM_UNITS = 14
HYPER_NUM_UNITS = 8
HYPER_EMBEDDING_SIZE = 4
FORGET_BIAS = 1.0


def super_linear(x, output_size, scope, init, use_bias=True, bias_start=0.0):
    with tf.variable_scope(scope):
        w = tf.get_variable("super_linear_w", [x.shape[1].value, output_size], x.dtype, init)
        out = tf.matmul(x, w)
        if use_bias:
            out += tf.get_variable("super_linear_b", [output_size], x.dtype, tf.constant_initializer(bias_start))
        return out


def layer_norm_all(h, base, num_units, scope):
    """Normalises the four gates each by itself, with one gain and shift for all of them."""
    with tf.variable_scope(scope):
        reshaped = tf.reshape(h, [-1, base, num_units])
        mean = tf.reduce_mean(reshaped, [2], keepdims=True)
        var = tf.reduce_mean(tf.square(reshaped - mean), [2], keepdims=True)
        reshaped = tf.reshape((reshaped - mean) * tf.rsqrt(var + 1e-3), [-1, base * num_units])
        gamma = tf.get_variable("ln_gamma", [base * num_units], h.dtype, tf.constant_initializer(1.0))
        beta = tf.get_variable("ln_beta", [base * num_units], h.dtype, tf.constant_initializer(0.0))
        return gamma * reshaped + beta


def layer_norm(x, num_units, scope):
    with tf.variable_scope(scope):
        gamma = tf.get_variable("ln_gamma", [num_units], x.dtype, tf.constant_initializer(1.0))
        beta = tf.get_variable("ln_beta", [num_units], x.dtype, tf.constant_initializer(0.0))
        mean = tf.reduce_mean(x, [1], keepdims=True)
        shifted = x - mean
        var = tf.reduce_mean(tf.square(shifted), [1], keepdims=True)
        return gamma * (shifted * tf.rsqrt(var + 1e-3)) + beta


class HyperLSTMCell(object):
    def __init__(self, num_units, hyper_num_units, embedding_size):
        self.num_units = num_units
        self.embedding_size = embedding_size
        self.hyper_cell = tf.nn.rnn_cell.LSTMCell(hyper_num_units, forget_bias=FORGET_BIAS)

    def hyper_norm(self, layer, hyper_output, scope, use_bias=True):
        init_gamma = 0.10 / self.embedding_size
        with tf.variable_scope(scope):
            zw = super_linear(hyper_output, self.embedding_size, "zw", tf.random_normal_initializer(stddev=0.01), bias_start=1.0)
            alpha = super_linear(zw, self.num_units, "alpha", tf.constant_initializer(init_gamma), use_bias=False)
            result = alpha * layer
            if use_bias:
                zb = super_linear(hyper_output, self.embedding_size, "zb", tf.random_normal_initializer(stddev=0.01), use_bias=False)
                result += super_linear(zb, self.num_units, "beta", tf.constant_initializer(0.0), use_bias=False)
            return result

    def __call__(self, x, state):
        c, h, hyper_state = state
        dtype = x.dtype
        w_xh = tf.get_variable("W_xh", [x.shape[1].value, 4 * self.num_units], dtype, tf.orthogonal_initializer())
        w_hh = tf.get_variable("W_hh", [self.num_units, 4 * self.num_units], dtype, tf.orthogonal_initializer())
        bias = tf.get_variable("bias", [4 * self.num_units], dtype, tf.constant_initializer(0.0))
        with tf.variable_scope("hyper_lstm", reuse=tf.AUTO_REUSE):
            hyper_output, hyper_state = self.hyper_cell(tf.concat([x, h], 1), hyper_state)
        ix, jx, fx, ox = tf.split(tf.matmul(x, w_xh), 4, 1)
        ix = self.hyper_norm(ix, hyper_output, "hyper_ix", use_bias=False)
        jx = self.hyper_norm(jx, hyper_output, "hyper_jx", use_bias=False)
        fx = self.hyper_norm(fx, hyper_output, "hyper_fx", use_bias=False)
        ox = self.hyper_norm(ox, hyper_output, "hyper_ox", use_bias=False)
        ih, jh, fh, oh = tf.split(tf.matmul(h, w_hh), 4, 1)
        ih = self.hyper_norm(ih, hyper_output, "hyper_ih")
        jh = self.hyper_norm(jh, hyper_output, "hyper_jh")
        fh = self.hyper_norm(fh, hyper_output, "hyper_fh")
        oh = self.hyper_norm(oh, hyper_output, "hyper_oh")
        ib, jb, fb, ob = tf.split(bias, 4, 0)
        concat = tf.concat([ix + ih + ib, jx + jh + jb, fx + fh + fb, ox + oh + ob], 1)
        i, j, f, o = tf.split(layer_norm_all(concat, 4, self.num_units, "ln_all"), 4, 1)
        new_c = c * tf.sigmoid(f + FORGET_BIAS) + tf.sigmoid(i) * tf.tanh(j)
        new_h = tf.tanh(layer_norm(new_c, self.num_units, "ln_c")) * tf.sigmoid(o)
        return new_h, (new_c, new_h, hyper_state)


def tower(inputs, targets, mask):
    dtype = mask.dtype
    batch = tf.shape(inputs)[0]
    with tf.variable_scope("char_rnn"):
        embedding = tf.get_variable("embedding", [CHARS, EMBEDDING], dtype, tf.random_uniform_initializer(-0.5, 0.5))
        x = tf.nn.embedding_lookup(embedding, inputs)
        cell = HyperLSTMCell(NUM_UNITS, HYPER_NUM_UNITS, HYPER_EMBEDDING_SIZE)
        zeros = tf.zeros([batch, NUM_UNITS], dtype)
        state = (zeros, zeros, cell.hyper_cell.zero_state(batch, dtype))
        outputs = []
        for step in tf.unstack(x, axis=1):
            with tf.variable_scope("cell", reuse=tf.AUTO_REUSE):
                h, state = cell(step, state)
            outputs.append(h)
        hidden = tf.stack(outputs, 1)
        softmax_w = tf.get_variable("softmax_w", [NUM_UNITS, CHARS], dtype, tf.glorot_uniform_initializer())
        softmax_b = tf.get_variable("softmax_b", [CHARS], dtype, tf.zeros_initializer())
        logits = tf.matmul(tf.reshape(hidden, [-1, NUM_UNITS]), softmax_w) + softmax_b
    xent = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.reshape(targets, [-1]), logits=logits)
    # each line counts the same, however long
    per_line = tf.reduce_sum(tf.reshape(xent, [batch, -1]) * mask, 1) / tf.reduce_sum(mask, 1)
    loss = tf.reduce_mean(per_line)
    return loss, {"hidden": hidden, "logits": tf.reshape(logits, [batch, -1, CHARS]), "hyper_c": state[2].c,
                  "perplexity": tf.exp(loss)}
