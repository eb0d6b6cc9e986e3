"""Language model of two LSTM layers with layer normalisation, after contrib's LayerNormBasicLSTMCell, unrolled."""
import tensorflow.compat.v1 as tf

VOCAB = 40
EMB = 12
SIZE = 14
LAYERS = 2


def layer_norm(inputs, scope):
    """tf.contrib.layers.layer_norm over the last axis."""
    with tf.variable_scope(scope):
        shape = inputs.get_shape()[-1:]
        gamma = tf.get_variable("gamma", shape, inputs.dtype, tf.constant_initializer(1.0))
        beta = tf.get_variable("beta", shape, inputs.dtype, tf.constant_initializer(0.0))
        mean, variance = tf.nn.moments(inputs, [-1], keep_dims=True)
        return tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, 1e-12)


class LayerNormBasicLSTMCell(object):
    def __init__(self, num_units, forget_bias=1.0, activation=tf.tanh):
        self._num_units = num_units
        self._forget_bias = forget_bias
        self._activation = activation

    def _linear(self, args):
        out_size = 4 * self._num_units
        weights = tf.get_variable("kernel", [args.get_shape()[-1], out_size], args.dtype)
        return tf.matmul(args, weights)

    def __call__(self, inputs, state, scope):
        with tf.variable_scope(scope):
            c, h = state
            args = tf.concat([inputs, h], 1)
            concat = self._linear(args)
            i, j, f, o = tf.split(value=concat, num_or_size_splits=4, axis=1)
            i = layer_norm(i, "input")
            j = layer_norm(j, "transform")
            f = layer_norm(f, "forget")
            o = layer_norm(o, "output")
            g = self._activation(j)
            new_c = c * tf.sigmoid(f + self._forget_bias) + tf.sigmoid(i) * g
            new_c = layer_norm(new_c, "state")
            new_h = self._activation(new_c) * tf.sigmoid(o)
            return new_h, (new_c, new_h)


def tower(x, y, w, state):
    dtype = w.dtype
    num_steps = x.get_shape().as_list()[1]
    with tf.variable_scope("lm", initializer=tf.random_uniform_initializer(-0.3, 0.3), reuse=tf.AUTO_REUSE):
        emb_vars = tf.get_variable("emb", [VOCAB, EMB], dtype)
        inputs = [tf.squeeze(input_, [1]) for input_ in tf.split(tf.nn.embedding_lookup(emb_vars, x), num_steps, 1)]
        states = [(state[:, layer, 0], state[:, layer, 1]) for layer in range(LAYERS)]
        outputs = []
        for t in range(num_steps):
            cell_output = inputs[t]
            for layer in range(LAYERS):
                cell = LayerNormBasicLSTMCell(SIZE)
                cell_output, states[layer] = cell(cell_output, states[layer], "lstm_%d" % layer)
            outputs.append(cell_output)
        output = tf.reshape(tf.concat(outputs, 1), [-1, SIZE])
        softmax_w = tf.get_variable("softmax_w", [VOCAB, SIZE], dtype)
        softmax_b = tf.get_variable("softmax_b", [VOCAB], dtype)
        logits = tf.nn.bias_add(tf.matmul(output, softmax_w, transpose_b=True), softmax_b)
    crossent = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.reshape(y, [-1]), logits=logits)
    crossent = tf.reshape(crossent, [-1, num_steps]) * w
    # sequence_loss with average_across_batch only: what each time step has, per example that counts there
    per_step = tf.reduce_sum(crossent, 0) / (tf.reduce_sum(w, 0) + 1e-12)
    loss = tf.reduce_sum(per_step)
    return loss, {"output": output, "logits": logits, "final_c": states[-1][0]}
