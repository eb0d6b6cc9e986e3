"""Bidirectional attention flow, without its recurrences: highway encoder, similarity matrix, two softmaxes, span."""
import tensorflow.compat.v1 as tf

VOCAB, D, JX, JQ = 60, 16, 14, 6
VERY_NEGATIVE_NUMBER = -1e30


def exp_mask(val, mask):
    """Give very negative number to unmasked elements in val."""
    return tf.add(val, (1 - tf.cast(mask, val.dtype)) * VERY_NEGATIVE_NUMBER)


def linear(args, output_size, scope):
    with tf.variable_scope(scope):
        size = int(args.shape[-1])
        matrix = tf.get_variable("Matrix", [size, output_size], args.dtype)
        bias = tf.get_variable("Bias", [output_size], args.dtype, tf.constant_initializer(0.0))
        flat = tf.matmul(tf.reshape(args, [-1, size]), matrix) + bias
        return tf.reshape(flat, tf.concat([tf.shape(args)[:-1], [output_size]], 0))


def highway_layer(arg, scope):
    d = int(arg.shape[-1])
    with tf.variable_scope(scope):
        trans = tf.nn.relu(linear(arg, d, "trans"))
        gate = tf.nn.sigmoid(linear(arg, d, "gate"))
        out = gate * trans + (1 - gate) * arg
        out.set_shape(arg.shape)
        return out


def bi_attention(h, u, h_mask, u_mask):
    """h: [N, JX, d], u: [N, JQ, d]."""
    with tf.variable_scope("bi_attention"):
        d = int(h.shape[-1])
        w = tf.get_variable("w", [3 * d], h.dtype, tf.random_normal_initializer(stddev=0.2))
        w_h, w_u, w_hu = tf.split(w, 3)
        h_aug = tf.tile(tf.expand_dims(h, 2), [1, 1, JQ, 1])
        u_aug = tf.tile(tf.expand_dims(u, 1), [1, JX, 1, 1])
        logits = tf.reduce_sum(h_aug * w_h, 3) + tf.reduce_sum(u_aug * w_u, 3) + tf.reduce_sum(h_aug * u_aug * w_hu, 3)
        hu_mask = tf.logical_and(tf.expand_dims(h_mask, 2), tf.expand_dims(u_mask, 1))
        logits = exp_mask(logits, hu_mask)
        u_a = tf.reduce_sum(tf.expand_dims(tf.nn.softmax(logits), -1) * u_aug, 2)  # [N, JX, d]
        h_a = tf.reduce_sum(tf.expand_dims(tf.nn.softmax(tf.reduce_max(logits, 2)), -1) * h, 1)  # [N, d]
        h_a = tf.tile(tf.expand_dims(h_a, 1), [1, JX, 1])
        return tf.concat([h, u_a, h * u_a, h * h_a], 2), u_a, h_a


def tower(x, q, y, y2):
    dtype = y.dtype
    x_mask, q_mask = tf.cast(x, tf.bool), tf.cast(q, tf.bool)
    with tf.variable_scope("emb"):
        word_emb_mat = tf.get_variable("word_emb_mat", [VOCAB, D], dtype, tf.random_normal_initializer(stddev=0.5))
        xx = tf.nn.embedding_lookup(word_emb_mat, x)
        qq = tf.nn.embedding_lookup(word_emb_mat, q)
    with tf.variable_scope("highway_network"):
        h = highway_layer(highway_layer(xx, "layer_0"), "layer_1")
        tf.get_variable_scope().reuse_variables()
        u = highway_layer(highway_layer(qq, "layer_0"), "layer_1")
    with tf.variable_scope("main"):
        p0, u_a, h_a = bi_attention(h, u, x_mask, q_mask)
        p0.set_shape([None, JX, 4 * D])
        g1 = tf.tanh(linear(p0, 24, "g1"))
        g1.set_shape([None, JX, 24])
        logits = tf.squeeze(linear(tf.concat([g1, p0], 2), 1, "logits1"), [2])
        yp = tf.nn.softmax(exp_mask(logits, x_mask))
        a1i = tf.reduce_sum(tf.expand_dims(yp, -1) * g1, 1)
        a1i = tf.tile(tf.expand_dims(a1i, 1), [1, JX, 1])
        g2_in = tf.concat([p0, g1, a1i, g1 * a1i], 2)
        g2_in.set_shape([None, JX, 4 * D + 3 * 24])
        g2 = tf.tanh(linear(g2_in, 24, "g2"))
        g2.set_shape([None, JX, 24])
        logits2 = tf.squeeze(linear(tf.concat([g2, p0], 2), 1, "logits2"), [2])
        logits, logits2 = exp_mask(logits, x_mask), exp_mask(logits2, x_mask)
    losses = tf.nn.softmax_cross_entropy_with_logits(logits=logits, labels=y)
    losses2 = tf.nn.softmax_cross_entropy_with_logits(logits=logits2, labels=y2)
    loss = tf.reduce_mean(losses) + tf.reduce_mean(losses2)
    return loss, {"h": h, "u": u, "u_a": u_a, "h_a": h_a, "g1": g1, "yp": yp, "yp2": tf.nn.softmax(logits2),
                  "start": tf.reduce_mean(losses)}
