"""Recurrent transducer: an encoder of projected LSTMs with time reduction, a prediction network over the labels, a joint network, and
the sum over all alignments by the forward variables."""
import tensorflow.compat.v1 as tf

VOCAB_SIZE, BLANK = 9, 0
NUM_LABELS, REDUCTION = 4, 2
ENC_UNITS, ENC_PROJ, PRED_EMBED, PRED_UNITS, JOINT_UNITS = 18, 12, 7, 14, 15
LOG_0 = -1e5


def lstm(inputs, lengths, units, num_proj, name):
    cell = tf.nn.rnn_cell.LSTMCell(units, num_proj=num_proj, forget_bias=1.0)
    outputs, _ = tf.nn.dynamic_rnn(cell, inputs, sequence_length=lengths, dtype=inputs.dtype, scope=name)
    return outputs


def layer_norm(x, name):
    with tf.variable_scope(name):
        beta = tf.get_variable("beta", [x.shape[-1]], x.dtype, initializer=tf.zeros_initializer())
        gamma = tf.get_variable("gamma", [x.shape[-1]], x.dtype, initializer=tf.ones_initializer())
        mean, variance = tf.nn.moments(x, [-1], keepdims=True)
        return tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-12)


def time_reduction(x, lengths):
    _, frames, dim = x.shape.as_list()
    x = tf.reshape(x, [-1, frames // REDUCTION, REDUCTION * dim])
    return x, (lengths + REDUCTION - 1) // REDUCTION


def encoder(features, lengths):
    with tf.variable_scope("encoder"):
        x = layer_norm(lstm(features, lengths, ENC_UNITS, ENC_PROJ, "lstm_0"), "ln_0")
        x, lengths = time_reduction(x, lengths)
        x = layer_norm(lstm(x, lengths, ENC_UNITS, ENC_PROJ, "lstm_1"), "ln_1")
    return x, lengths


def prediction_network(labels, label_length, dtype):
    with tf.variable_scope("prediction"):
        table = tf.get_variable("embedding", [VOCAB_SIZE, PRED_EMBED], dtype, initializer=tf.random_uniform_initializer(-0.5, 0.5, dtype=dtype))
        # begins with the blank
        x = tf.nn.embedding_lookup(table, tf.pad(labels, [[0, 0], [1, 0]], constant_values=BLANK))
        return lstm(x, label_length + 1, PRED_UNITS, None, "lstm")


def joint_network(enc, pred):
    """[B, T, E], [B, U + 1, P] -> [B, T, U + 1, V]"""
    with tf.variable_scope("joint"):
        e = tf.layers.dense(enc, JOINT_UNITS, name="enc_proj")
        p = tf.layers.dense(pred, JOINT_UNITS, use_bias=False, name="pred_proj")
        hidden = tf.nn.tanh(tf.expand_dims(e, 2) + tf.expand_dims(p, 1))
        return tf.layers.dense(hidden, VOCAB_SIZE, name="output")


def log_add(a, b):
    top = tf.maximum(a, b)
    return top + tf.log1p(tf.exp(-tf.abs(a - b)))


def transducer_loss(log_probs, labels, enc_length, label_length):
    batch = tf.shape(labels)[0]
    blank = tf.transpose(log_probs[:, :, :, BLANK], [1, 0, 2])  # [T, B, U + 1]
    one_hot = tf.one_hot(labels, VOCAB_SIZE, dtype=log_probs.dtype)
    emit = tf.reduce_sum(log_probs[:, :, :NUM_LABELS, :] * tf.expand_dims(one_hot, 1), 3)
    emit = tf.transpose(emit, [1, 0, 2])  # [T, B, U]

    def column(stay, emitted):
        alpha = [stay[:, 0]]
        for u in range(1, NUM_LABELS + 1):
            alpha.append(log_add(stay[:, u], alpha[u - 1] + emitted[:, u - 1]))
        return tf.stack(alpha, 1)

    start = tf.concat([tf.zeros([batch, 1], log_probs.dtype), tf.fill([batch, NUM_LABELS], tf.constant(LOG_0, log_probs.dtype))], 1)
    first = column(start, emit[0])
    rest = tf.scan(lambda alpha, now: column(alpha + now[0], now[1]), (blank[:-1], emit[1:]), initializer=first)
    alphas = tf.concat([tf.expand_dims(first, 0), rest], 0)
    last = tf.stack([enc_length - 1, tf.range(batch), label_length], axis=1)
    return -(tf.gather_nd(alphas, last) + tf.gather_nd(blank, last))


def tower(features, feature_length, labels, label_length):
    enc, enc_length = encoder(features, feature_length)
    pred = prediction_network(labels, label_length, features.dtype)
    logits = joint_network(enc, pred)
    log_probs = tf.nn.log_softmax(logits)
    losses = transducer_loss(log_probs, labels, enc_length, label_length)
    loss = tf.reduce_mean(losses)
    per_label = tf.reduce_sum(losses) / tf.cast(tf.reduce_sum(label_length), features.dtype)
    return loss, {"encoded": enc, "predicted": pred, "logits": logits, "per_label": per_label}
