"""LSTNet: convolution over time, a recurrence, a recurrence that skips by the period, and an autoregressive highway."""
import tensorflow.compat.v1 as tf

WINDOW = 24
SERIES = 6
KERNEL = 5
FILTERS = 16
RNN_SIZE = 20
SKIP = 4
SKIP_SIZE = 6
SKIP_STEPS = (WINDOW - KERNEL) // SKIP
HIGHWAY = 8


def gru(x, size, scope):
    cell = tf.nn.rnn_cell.GRUCell(size, activation=tf.nn.relu)
    _, state = tf.nn.dynamic_rnn(cell, x, dtype=x.dtype, scope=scope)
    return state


def convolution(x):
    with tf.variable_scope("conv"):
        kernel = tf.get_variable("kernel", [KERNEL, SERIES, 1, FILTERS], x.dtype,
                                 initializer=tf.glorot_uniform_initializer())
        bias = tf.get_variable("bias", [FILTERS], x.dtype, initializer=tf.constant_initializer(0.1))
        y = tf.nn.conv2d(tf.expand_dims(x, 3), kernel, [1, 1, 1, 1], padding="VALID")
        return tf.squeeze(tf.nn.relu(tf.nn.bias_add(y, bias)), [2])


def skip_recurrence(c):
    # [batch, steps * skip, filters] -> [batch * skip, steps, filters]: what lies a period apart becomes neighbours
    s = tf.reshape(c[:, -SKIP_STEPS * SKIP:], [-1, SKIP_STEPS, SKIP, FILTERS])
    s = tf.reshape(tf.transpose(s, [0, 2, 1, 3]), [-1, SKIP_STEPS, FILTERS])
    return tf.reshape(gru(s, SKIP_SIZE, "skip_gru"), [-1, SKIP * SKIP_SIZE])


def highway(x):
    # one linear model of the last steps, for all series alike
    z = tf.reshape(tf.transpose(x[:, -HIGHWAY:], [0, 2, 1]), [-1, HIGHWAY])
    return tf.reshape(tf.layers.dense(z, 1, name="highway"), [-1, SERIES])


def tower(history, target, scale):
    with tf.variable_scope("lstnet"):
        c = convolution(history)
        r = gru(c, RNN_SIZE, "gru")
        s = skip_recurrence(c)
        residual = tf.layers.dense(tf.concat([r, s], axis=1), SERIES, name="output")
        linear = highway(history)
        forecast = tf.nn.sigmoid(residual + linear)
    loss = tf.reduce_sum(tf.abs(forecast - target) * scale)
    return loss, {"conv": c, "recurrent": r, "skip": s, "highway": linear, "forecast": forecast}
