"""Show and tell: the image sets the LSTM's first state, words are predicted one after the other."""
import tensorflow.compat.v1 as tf

VOCAB, EMBED, HIDDEN, LENGTH = 44, 16, 20, 9
NULL = 0


def get_initial_lstm(features):
    with tf.variable_scope('initial_lstm'):
        d = int(features.shape[-1])
        w_h = tf.get_variable('w_h', [d, HIDDEN], features.dtype)
        b_h = tf.get_variable('b_h', [HIDDEN], features.dtype, tf.constant_initializer(0.0))
        h = tf.nn.tanh(tf.matmul(features, w_h) + b_h)
        w_c = tf.get_variable('w_c', [d, HIDDEN], features.dtype)
        b_c = tf.get_variable('b_c', [HIDDEN], features.dtype, tf.constant_initializer(0.0))
        c = tf.nn.tanh(tf.matmul(features, w_c) + b_c)
        return c, h


def decode_lstm(x, h, features, reuse):
    with tf.variable_scope('logits', reuse=reuse):
        w_h = tf.get_variable('w_h', [HIDDEN, EMBED], h.dtype)
        b_h = tf.get_variable('b_h', [EMBED], h.dtype, tf.constant_initializer(0.0))
        w_ctx = tf.get_variable('w_ctx2out', [int(features.shape[-1]), EMBED], h.dtype)
        w_out = tf.get_variable('w_out', [EMBED, VOCAB], h.dtype)
        b_out = tf.get_variable('b_out', [VOCAB], h.dtype, tf.constant_initializer(0.0))
        h_logits = tf.matmul(h, w_h) + b_h
        h_logits += tf.matmul(features, w_ctx)
        h_logits += x
        h_logits = tf.nn.tanh(h_logits)
        return tf.matmul(h_logits, w_out) + b_out


def tower(features, captions):
    captions_in, captions_out = captions[:, :LENGTH], captions[:, 1:]
    mask = tf.cast(tf.not_equal(captions_out, NULL), features.dtype)
    with tf.variable_scope('word_embedding'):
        w = tf.get_variable('w', [VOCAB, EMBED], features.dtype, tf.random_uniform_initializer(-1.0, 1.0))
        x = tf.nn.embedding_lookup(w, captions_in)
    c, h = get_initial_lstm(features)
    first = h
    lstm_cell = tf.nn.rnn_cell.BasicLSTMCell(num_units=HIDDEN, name='basic_lstm_cell')
    state = tf.nn.rnn_cell.LSTMStateTuple(c, h)
    losses, hidden = [], []
    reuse = tf.get_variable_scope().reuse
    for t in range(LENGTH):
        with tf.variable_scope('lstm', reuse=reuse or t != 0):
            _, state = lstm_cell(x[:, t, :], state)
        hidden.append(state.h)
        logits = decode_lstm(x[:, t, :], state.h, features, reuse or t != 0)
        xent = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=captions_out[:, t], logits=logits)
        losses.append(xent * mask[:, t])
    loss = tf.reduce_sum(tf.add_n(losses)) / tf.reduce_sum(mask)
    return loss, {"first": first, "hidden": tf.stack(hidden, axis=1), "last_logits": logits, "words": tf.reduce_sum(mask)}
