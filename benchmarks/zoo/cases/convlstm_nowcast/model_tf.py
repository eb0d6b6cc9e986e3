import tensorflow.compat.v1 as tf

HIDDEN = 7
PATCH = 2


def conv2d(x, filters, size, scope, bias=True):
    with tf.variable_scope(scope):
        w = tf.get_variable("kernel", [size, size, x.shape[-1].value, filters], dtype=x.dtype)
        y = tf.nn.conv2d(x, w, strides=[1, 1, 1, 1], padding="SAME")
        if bias:
            y += tf.get_variable("bias", [filters], dtype=x.dtype, initializer=tf.zeros_initializer())
    return y


def layer_norm(x, scope):
    """As tf.contrib.layers.layer_norm: moments of an example, gamma and beta by channel."""
    with tf.variable_scope(scope):
        gamma = tf.get_variable("gamma", [x.shape[-1].value], dtype=x.dtype, initializer=tf.ones_initializer())
        beta = tf.get_variable("beta", [x.shape[-1].value], dtype=x.dtype, initializer=tf.zeros_initializer())
        mean, variance = tf.nn.moments(x, [1, 2, 3], keep_dims=True)
        return tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-5)


class ConvLSTMCell(object):
    """Convolutional LSTM with peepholes and layer normalisation of gates and state."""

    def __init__(self, filters, size=3, forget_bias=1.0):
        self.filters, self.size, self.forget_bias = filters, size, forget_bias

    def zero_state(self, x):
        zeros = tf.zeros(tf.concat([tf.shape(x)[:3], [self.filters]], axis=0), dtype=x.dtype)
        zeros.set_shape([None, x.shape[1], x.shape[2], self.filters])
        return zeros, zeros

    def peephole(self, name, c):
        return c * tf.get_variable(name, [self.filters], dtype=c.dtype)

    def __call__(self, x, state):
        c, h = state
        y = conv2d(tf.concat([x, h], axis=3), 4 * self.filters, self.size, "gates", bias=False)
        j, i, f, o = tf.split(y, 4, axis=3)
        i += self.peephole("W_ci", c)
        f += self.peephole("W_cf", c)
        j = layer_norm(j, "norm_j")
        i = layer_norm(i, "norm_i")
        f = layer_norm(f, "norm_f")
        c = c * tf.sigmoid(f + self.forget_bias) + tf.sigmoid(i) * tf.tanh(j)
        o += self.peephole("W_co", c)
        o = layer_norm(o, "norm_o")
        c = layer_norm(c, "norm_c")
        h = tf.sigmoid(o) * tf.tanh(c)
        return h, (c, h)


def to_unit(dbz):
    return tf.clip_by_value((dbz + 10.0) / 70.0, 0.0, 1.0)


def nowcast(frames, ahead):
    x = to_unit(frames)
    x = [tf.space_to_depth(x[:, t, :, :, None], PATCH) for t in range(frames.shape[1].value)]
    cell = ConvLSTMCell(HIDDEN)
    state = cell.zero_state(x[0])
    with tf.variable_scope("encoder") as scope:
        for t in range(len(x)):
            if t > 0:
                scope.reuse_variables()
            h, state = cell(x[t], state)
    encoded = h
    patch, predictions = x[-1], []
    with tf.variable_scope("forecaster") as scope:
        for t in range(ahead):
            if t > 0:
                scope.reuse_variables()
            h, state = cell(patch, state)
            patch = patch + conv2d(h, PATCH * PATCH, 1, "output")
            predictions.append(tf.depth_to_space(patch, PATCH)[..., 0])
    return encoded, tf.stack(predictions, axis=1)


def balanced_weights(dbz, dtype):
    """Heavier rain weighs more."""
    weights = tf.ones_like(dbz)
    for threshold, extra in ((20.0, 1.0), (30.0, 3.0), (40.0, 5.0)):
        weights += extra * tf.cast(dbz >= threshold, dtype)
    return weights


def tower(frames, future, valid):
    encoded, prediction = nowcast(frames, future.shape[1].value)
    error = prediction - to_unit(future)
    weights = balanced_weights(future, frames.dtype) * valid
    mse = tf.reduce_mean(tf.reduce_sum(weights * tf.square(error), axis=[1, 2, 3]))
    mae = tf.reduce_mean(tf.reduce_sum(weights * tf.abs(error), axis=[1, 2, 3]))
    loss = 0.05 * (mse + 0.5 * mae)
    return loss, {"encoded": encoded, "prediction": prediction, "mse": mse, "mae": mae}
