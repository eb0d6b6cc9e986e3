"""Diffusion-convolutional recurrent network (DCRNN) for traffic: random walks in both directions of the road graph inside a GRU,
an encoder and a decoder of two layers, teacher forcing in training."""
import numpy as np
import tensorflow.compat.v1 as tf

NUM_NODES = 7
NUM_UNITS = 8
NUM_LAYERS = 2
MAX_DIFFUSION_STEP = 2
SEQ_LEN, HORIZON = 5, 4
MEAN, STD = 54.0, 19.5


def adjacency():
    """Directed road: the way downstream is shorter than the way back, and far pairs are cut off."""
    i, j = np.mgrid[0:NUM_NODES, 0:NUM_NODES]
    distance = np.where(j >= i, j - i, 1.6 * (i - j)) + 0.25 * ((3 * i + j) % 4 == 1)
    weight = np.exp(-(distance / 2.0) ** 2)
    return np.where(weight < 0.1, 0.0, weight)


def random_walk(adj):
    return adj / adj.sum(axis=1, keepdims=True)


class DCGRUCell(object):
    def __init__(self, num_units, num_proj=None):
        self._num_units, self._num_proj = num_units, num_proj
        adj = adjacency()
        self._supports = [random_walk(adj).T.astype("float32"), random_walk(adj.T).T.astype("float32")]

    def __call__(self, inputs, state, scope):
        with tf.variable_scope(scope):
            with tf.variable_scope("gates"):
                value = tf.nn.sigmoid(self._gconv(inputs, state, 2 * self._num_units, bias_start=1.0))
                r, u = tf.split(tf.reshape(value, [-1, NUM_NODES, 2 * self._num_units]), 2, axis=-1)
                r = tf.reshape(r, [-1, NUM_NODES * self._num_units])
                u = tf.reshape(u, [-1, NUM_NODES * self._num_units])
            with tf.variable_scope("candidate"):
                c = tf.nn.tanh(self._gconv(inputs, r * state, self._num_units))
            output = new_state = u * state + (1 - u) * c
            if self._num_proj is not None:
                with tf.variable_scope("projection"):
                    w = tf.get_variable("w", [self._num_units, self._num_proj], inputs.dtype)
                    output = tf.reshape(tf.matmul(tf.reshape(new_state, [-1, self._num_units]), w),
                                        [-1, NUM_NODES * self._num_proj])
        return output, new_state

    def _gconv(self, inputs, state, output_size, bias_start=0.0):
        dtype = inputs.dtype
        inputs = tf.reshape(inputs, [tf.shape(inputs)[0], NUM_NODES, int(inputs.shape[1]) // NUM_NODES])
        state = tf.reshape(state, [-1, NUM_NODES, self._num_units])
        x = tf.concat([inputs, state], axis=2)
        input_size = int(x.shape[2])
        x0 = tf.reshape(tf.transpose(x, [1, 2, 0]), [NUM_NODES, -1])
        steps = [x0]
        for support in self._supports:
            support = tf.cast(tf.constant(support), dtype)
            x1 = tf.matmul(support, x0)
            steps.append(x1)
            for _ in range(2, MAX_DIFFUSION_STEP + 1):
                x2 = 2 * tf.matmul(support, x1) - x0
                steps.append(x2)
                # x0 is not put back for the next support
                x1, x0 = x2, x1
        num_matrices = len(steps)
        x = tf.reshape(tf.stack(steps, axis=0), [num_matrices, NUM_NODES, input_size, -1])
        x = tf.reshape(tf.transpose(x, [3, 1, 2, 0]), [-1, input_size * num_matrices])
        weights = tf.get_variable("weights", [input_size * num_matrices, output_size], dtype,
                                  initializer=tf.glorot_uniform_initializer())
        biases = tf.get_variable("biases", [output_size], dtype, initializer=tf.constant_initializer(bias_start))
        x = tf.nn.bias_add(tf.matmul(x, weights), biases)
        return tf.reshape(x, [-1, NUM_NODES * output_size])


def masked_mae(preds, labels):
    mask = tf.cast(tf.not_equal(labels, 0), preds.dtype)
    mask /= tf.reduce_mean(mask)
    return tf.reduce_mean(tf.abs(preds - labels) * mask)


def tower(x, y, training=True):
    batch = tf.shape(x)[0]
    x = tf.reshape(x, [-1, SEQ_LEN, NUM_NODES * 2])
    teacher = tf.reshape((y - MEAN) / STD, [-1, HORIZON, NUM_NODES])
    zeros = tf.zeros([batch, NUM_NODES * NUM_UNITS], x.dtype)
    zeros.set_shape([None, NUM_NODES * NUM_UNITS])
    go = tf.zeros([batch, NUM_NODES], x.dtype)
    go.set_shape([None, NUM_NODES])
    with tf.variable_scope("DCRNN", reuse=tf.AUTO_REUSE):
        cell = DCGRUCell(NUM_UNITS)
        cell_with_projection = DCGRUCell(NUM_UNITS, num_proj=1)
        states = [zeros] * NUM_LAYERS
        with tf.variable_scope("encoder"):
            for t in range(SEQ_LEN):
                inputs = x[:, t]
                for layer in range(NUM_LAYERS):
                    inputs, states[layer] = cell(inputs, states[layer], "cell_%d" % layer)
        encoded = tf.stack([tf.reshape(s, [-1, NUM_NODES, NUM_UNITS]) for s in states], axis=1)
        outputs, inputs = [], go
        with tf.variable_scope("decoder"):
            for t in range(HORIZON):
                if t > 0:
                    inputs = teacher[:, t - 1] if training else outputs[-1]
                for layer in range(NUM_LAYERS):
                    run = cell_with_projection if layer == NUM_LAYERS - 1 else cell
                    inputs, states[layer] = run(inputs, states[layer], "cell_%d" % layer)
                outputs.append(inputs)
    scaled = tf.reshape(tf.stack(outputs, axis=1), [-1, HORIZON, NUM_NODES, 1])
    preds = scaled * STD + MEAN
    loss = masked_mae(preds, y)
    known = tf.cast(tf.not_equal(y, 0), preds.dtype)
    rmse = tf.sqrt(tf.reduce_sum(tf.square(preds - y) * known) / tf.reduce_sum(known))
    return loss, {"encoded": encoded, "scaled": scaled, "rmse": rmse}
