"""Temporal convolutional network with weight norm that forecasts quantiles of the next days."""
import tensorflow.compat.v1 as tf

HORIZON = 6
STORES = 7
EMBEDDING = 4
CHANNELS = [12, 16, 16]
KERNEL_SIZE = 3
CONTEXT = 8
QUANTILES = [0.1, 0.5, 0.9]


def causal_conv1d(x, filters, dilation, name):
    with tf.variable_scope(name):
        inputs = x.shape.as_list()[-1]
        v = tf.get_variable("V", [KERNEL_SIZE, inputs, filters], x.dtype, initializer=tf.random_normal_initializer(0, 0.05))
        g = tf.get_variable("g", [filters], x.dtype, initializer=tf.ones_initializer())
        b = tf.get_variable("b", [filters], x.dtype, initializer=tf.zeros_initializer())
        kernel = tf.reshape(g, [1, 1, filters]) * tf.nn.l2_normalize(v, [0, 1])
        x = tf.pad(x, [[0, 0], [(KERNEL_SIZE - 1) * dilation, 0], [0, 0]])
        return tf.nn.bias_add(tf.nn.convolution(x, kernel, padding="VALID", dilation_rate=[dilation]), b)


def temporal_block(x, filters, dilation, name):
    with tf.variable_scope(name):
        y = tf.nn.relu(causal_conv1d(x, filters, dilation, "conv1"))
        y = tf.nn.relu(causal_conv1d(y, filters, dilation, "conv2"))
        if x.shape.as_list()[-1] != filters:
            x = tf.layers.conv1d(x, filters, 1, name="shortcut")
        return tf.nn.relu(x + y)


def decoder(context, future):
    """One context for each day ahead and one for all of them, then the same small network for every day."""
    contexts = tf.layers.dense(context, (HORIZON + 1) * CONTEXT, activation=tf.nn.relu, name="global_mlp")
    contexts = tf.reshape(contexts, [-1, HORIZON + 1, CONTEXT])
    specific, agnostic = contexts[:, :HORIZON], contexts[:, HORIZON:]
    local = tf.concat([specific, tf.tile(agnostic, [1, HORIZON, 1]), future], axis=-1)
    hidden = tf.layers.dense(local, 16, activation=tf.nn.relu, name="local_mlp")
    return tf.layers.dense(hidden, len(QUANTILES), name="quantiles")


def tower(history, future, store, targets, observed):
    dtype = history.dtype
    with tf.variable_scope("tcn"):
        table = tf.get_variable("store_embedding", [STORES, EMBEDDING], dtype,
                                initializer=tf.random_uniform_initializer(-0.5, 0.5))
        embedded = tf.nn.embedding_lookup(table, store)
        length = history.shape.as_list()[1]
        x = tf.concat([history, tf.tile(embedded[:, None, :], [1, length, 1])], axis=-1)
        end_points = {}
        for i, filters in enumerate(CHANNELS):
            x = temporal_block(x, filters, 2 ** i, "block_%d" % i)
            end_points["block_%d" % i] = x
        raw = decoder(x[:, -1], future)
        # the quantiles above the lowest are sums of positive steps, so that they do not cross
        steps = tf.concat([raw[..., :1], tf.nn.softplus(raw[..., 1:])], axis=-1)
        forecast = tf.cumsum(steps, axis=-1)
    quantiles = tf.constant(QUANTILES, dtype)
    error = targets[..., None] - forecast
    pinball = tf.reduce_sum(tf.maximum(quantiles * error, (quantiles - 1) * error), axis=-1)
    loss = tf.reduce_sum(pinball * observed) / tf.reduce_sum(observed)
    end_points["forecast"] = forecast
    return loss, end_points
