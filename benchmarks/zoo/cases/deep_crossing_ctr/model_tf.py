"""Deep Crossing: embedded and raw features are stacked and go through residual units of two layers."""
import tensorflow.compat.v1 as tf

N_USER, N_ITEM, N_POSITION = 40, 30, 5
USER_DIM, ITEM_DIM = 8, 6
UNIT_WIDTHS = [24, 16]
L2_EMBEDDING = 1e-2


def embedding_layer(name, x, size):
    with tf.variable_scope(name):
        w = tf.get_variable("w", [x.shape.as_list()[-1], size], x.dtype, tf.glorot_normal_initializer())
        b = tf.get_variable("b", [size], x.dtype, tf.zeros_initializer())
        return tf.nn.relu(tf.nn.xw_plus_b(x, w, b))


def residual_unit(name, x, width):
    dim = x.shape.as_list()[-1]
    with tf.variable_scope(name):
        w0 = tf.get_variable("w0", [dim, width], x.dtype, tf.glorot_normal_initializer())
        b0 = tf.get_variable("b0", [width], x.dtype, tf.zeros_initializer())
        w1 = tf.get_variable("w1", [width, dim], x.dtype, tf.glorot_normal_initializer())
        b1 = tf.get_variable("b1", [dim], x.dtype, tf.zeros_initializer())
        hidden = tf.nn.relu(tf.nn.xw_plus_b(x, w0, b0))
        return tf.nn.relu(tf.nn.xw_plus_b(hidden, w1, b1) + x)


def tower(user, item, position, history, counters, clicked, weights):
    dtype = counters.dtype
    with tf.variable_scope("tables"):
        user_table = tf.get_variable("user", [N_USER, USER_DIM], dtype, tf.random_normal_initializer(stddev=0.1))
        item_table = tf.get_variable("item", [N_ITEM, ITEM_DIM], dtype, tf.random_normal_initializer(stddev=0.1))
    user_row = tf.nn.embedding_lookup(user_table, user)
    item_row = tf.nn.embedding_lookup(item_table, item)
    seen = tf.cast(tf.not_equal(history, 0), dtype)[:, :, None]
    history_rows = tf.nn.embedding_lookup(item_table, history)
    history_mean = tf.reduce_sum(history_rows * seen, axis=1) / tf.reduce_sum(seen, axis=1)

    with tf.variable_scope("deep_crossing"):
        stacked = tf.concat([
            embedding_layer("embed_user", user_row, 8),
            embedding_layer("embed_item", item_row, 6),
            embedding_layer("embed_history", history_mean, 6),
            tf.one_hot(position, N_POSITION, dtype=dtype),
            tf.log(1.0 + counters),
        ], axis=1)
        x = stacked
        for i, width in enumerate(UNIT_WIDTHS):
            x = residual_unit("unit_%d" % i, x, width)
        with tf.variable_scope("scoring"):
            w = tf.get_variable("w", [x.shape.as_list()[-1], 1], dtype, tf.glorot_normal_initializer())
            b = tf.get_variable("b", [1], dtype, tf.zeros_initializer())
            logit = tf.squeeze(tf.nn.xw_plus_b(x, w, b), axis=1)
    log_loss = tf.nn.sigmoid_cross_entropy_with_logits(labels=clicked, logits=logit)
    # the mean over the examples that count at all, as tf.losses has it
    present = tf.reduce_sum(tf.cast(tf.not_equal(weights, 0.0), dtype))
    log_loss = tf.reduce_sum(log_loss * weights) / present
    batch = tf.cast(tf.shape(user)[0], dtype)
    l2 = (tf.nn.l2_loss(user_row) + tf.nn.l2_loss(item_row)) / batch
    return log_loss + L2_EMBEDDING * l2, {"stacked": stacked, "logit": logit, "log_loss": log_loss}
