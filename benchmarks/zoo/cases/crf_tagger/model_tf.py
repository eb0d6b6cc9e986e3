"""Bidirectional LSTM tagger with a CRF on top, whose forward algorithm is written out."""
import numpy as np
import tensorflow.compat.v1 as tf

N_WORDS = 50
N_CAPS = 4
N_TAGS = 7
WORD_DIM = 16
CAP_DIM = 4
LSTM_DIM = 12


def embedding(name, ids, rows, dim, dtype):
    table = tf.get_variable(name, [rows, dim], dtype, tf.random_uniform_initializer(-np.sqrt(3.0 / dim),
                                                                                    np.sqrt(3.0 / dim)))
    return tf.nn.embedding_lookup(table, ids)


def bilstm(inputs, lengths):
    with tf.variable_scope("char_BiLSTM"):
        cells = {}
        for direction in ["forward", "backward"]:
            with tf.variable_scope(direction):
                cells[direction] = tf.nn.rnn_cell.LSTMCell(LSTM_DIM, forget_bias=1.0)
        outputs, _ = tf.nn.bidirectional_dynamic_rnn(cells["forward"], cells["backward"], inputs,
                                                     dtype=inputs.dtype, sequence_length=lengths)
    return tf.concat(outputs, axis=2)


def project(lstm_outputs, num_steps):
    dtype = lstm_outputs.dtype
    xavier = tf.glorot_uniform_initializer()
    with tf.variable_scope("project"):
        with tf.variable_scope("hidden"):
            W = tf.get_variable("W", [2 * LSTM_DIM, LSTM_DIM], dtype, xavier)
            b = tf.get_variable("b", [LSTM_DIM], dtype, tf.zeros_initializer())
            hidden = tf.tanh(tf.nn.xw_plus_b(tf.reshape(lstm_outputs, [-1, 2 * LSTM_DIM]), W, b))
        with tf.variable_scope("logits"):
            W = tf.get_variable("W", [LSTM_DIM, N_TAGS], dtype, xavier)
            b = tf.get_variable("b", [N_TAGS], dtype, tf.zeros_initializer())
            pred = tf.nn.xw_plus_b(hidden, W, b)
    return tf.reshape(pred, [-1, num_steps, N_TAGS])


def crf_sequence_score(unary, tags, lengths, mask, start, transitions, end):
    """Score of the given tag sequence: emissions, transitions, and both ends."""
    one_hot = tf.one_hot(tags, N_TAGS, dtype=unary.dtype)
    unary_score = tf.reduce_sum(tf.reduce_sum(unary * one_hot, 2) * mask, 1)
    pairs = tags[:, :-1] * N_TAGS + tags[:, 1:]
    binary_score = tf.reduce_sum(tf.gather(tf.reshape(transitions, [-1]), pairs) * mask[:, 1:], 1)
    rows = tf.range(tf.shape(tags)[0])
    last_tags = tf.gather_nd(tags, tf.stack([rows, lengths - 1], axis=1))
    return unary_score + binary_score + tf.gather(start, tags[:, 0]) + tf.gather(end, last_tags)


def crf_log_norm(unary, mask, start, transitions, end):
    """The forward algorithm: log of the sum over all tag sequences."""
    time_major = tf.transpose(unary, [1, 0, 2])
    mask_major = tf.transpose(mask, [1, 0])

    def recurse(alphas, step):
        emission, alive = step
        scores = tf.expand_dims(alphas, 2) + tf.expand_dims(transitions, 0)
        new_alphas = emission + tf.reduce_logsumexp(scores, [1])
        alive = tf.expand_dims(alive, 1)
        return alive * new_alphas + (1.0 - alive) * alphas

    alphas = tf.scan(recurse, (time_major[1:], mask_major[1:]), initializer=start + time_major[0])
    return tf.reduce_logsumexp(alphas[-1] + end, [1])


def tower(words, caps, tags, lengths, mask):
    dtype = mask.dtype
    num_steps = words.shape.as_list()[1]
    with tf.variable_scope("char_embedding"):
        embedded = tf.concat([embedding("word_embedding", words, N_WORDS, WORD_DIM, dtype),
                              embedding("cap_embedding", caps, N_CAPS, CAP_DIM, dtype)], axis=-1)
    lstm_outputs = bilstm(embedded, lengths)
    logits = project(lstm_outputs, num_steps)
    with tf.variable_scope("crf_loss"):
        normal = tf.random_normal_initializer(stddev=0.1)
        transitions = tf.get_variable("transitions", [N_TAGS, N_TAGS], dtype, normal)
        start = tf.get_variable("start", [N_TAGS], dtype, normal)
        end = tf.get_variable("end", [N_TAGS], dtype, normal)
        score = crf_sequence_score(logits, tags, lengths, mask, start, transitions, end)
        log_norm = crf_log_norm(logits, mask, start, transitions, end)
        loss = tf.reduce_mean(log_norm - score)
    return loss, {"embedded": embedded, "lstm": lstm_outputs, "logits": logits, "score": score, "log_norm": log_norm}
