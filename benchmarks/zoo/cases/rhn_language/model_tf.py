"""Recurrent highway network as a language model, with tied embeddings; the noise of its dropout is fed."""
import tensorflow.compat.v1 as tf

VOCAB_SIZE, HIDDEN_SIZE, DEPTH, NUM_LAYERS, INIT_BIAS, INIT_SCALE = 32, 20, 3, 2, -2.0, 0.5


def linear(args, output_size, bias_start=None, scope="Linear"):
    total = sum(a.get_shape().as_list()[1] for a in args)
    dtype = args[0].dtype
    with tf.variable_scope(scope):
        matrix = tf.get_variable("Matrix", [total, output_size], dtype=dtype)
        res = tf.matmul(args[0] if len(args) == 1 else tf.concat(args, 1), matrix)
        if bias_start is None:
            bias = tf.get_variable("Bias", [output_size], dtype=dtype)
        else:
            bias = tf.get_variable("Bias", [output_size], dtype=dtype, initializer=tf.constant_initializer(bias_start, dtype=dtype))
    return res + bias


class RHNCell(object):
    def __init__(self, num_units, depth, forget_bias):
        self._num_units, self._depth, self._forget_bias = num_units, depth, forget_bias

    def zero_state(self, batch_size, dtype):
        return tf.zeros([batch_size, self._num_units], dtype)

    def __call__(self, inputs, state, noise_i, noise_h):
        current = state
        for i in range(self._depth):
            args = [current * noise_h]
            if i == 0:
                args = [inputs * noise_i] + args
            with tf.variable_scope("h_%d" % i):
                h = tf.tanh(linear(args, self._num_units))
            with tf.variable_scope("t_%d" % i):
                t = tf.sigmoid(linear(args, self._num_units, self._forget_bias))
            current = (h - current) * t + current
        return current


def tower(input_data, targets, noise_x, noise_i, noise_h, noise_o):
    dtype = noise_x.dtype
    batch_size, num_steps = tf.shape(input_data)[0], input_data.get_shape().as_list()[1]
    with tf.variable_scope("model", initializer=tf.random_uniform_initializer(-INIT_SCALE, INIT_SCALE, dtype=dtype)):
        embedding = tf.get_variable("embedding", [VOCAB_SIZE, HIDDEN_SIZE], dtype)
        inputs = tf.nn.embedding_lookup(embedding, input_data) * noise_x
        for l in range(NUM_LAYERS):
            with tf.variable_scope("RHN%d" % l):
                cell = RHNCell(HIDDEN_SIZE, DEPTH, INIT_BIAS)
                state = cell.zero_state(batch_size, dtype)
                outputs = []
                for time_step in range(num_steps):
                    with tf.variable_scope(tf.get_variable_scope(), reuse=True if time_step > 0 else None):
                        state = cell(inputs[:, time_step, :], state, noise_i[:, :, l], noise_h[:, :, l])
                    outputs.append(state)
                inputs = tf.stack(outputs, axis=1)
        output = tf.reshape(inputs * noise_o, [-1, HIDDEN_SIZE])
        softmax_w = tf.transpose(embedding)
        softmax_b = tf.get_variable("softmax_b", [VOCAB_SIZE], dtype)
        logits = tf.matmul(output, softmax_w) + softmax_b
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.reshape(targets, [-1]), logits=logits)
    cost = tf.reduce_sum(losses) / tf.cast(batch_size, dtype)
    logits = tf.reshape(logits, [-1, num_steps, VOCAB_SIZE])
    return cost, {"states": inputs, "logits": logits, "per_word": cost / num_steps}
