"""Recurrent convolutional network for texts: each word between its left and its right context, then the maximum."""
import tensorflow.compat.v1 as tf

SEQUENCE_LENGTH = 12
NUM_CLASSES = 4
VOCAB_SIZE = 61
EMBEDDING_SIZE = 16
CONTEXT_SIZE = 14
HIDDEN_SIZE = 20
L2_REG_LAMBDA = 0.01


def tower(input_text, lengths, input_y, keep):
    dtype = input_y.dtype
    l2_loss = tf.constant(0.0, dtype)

    with tf.variable_scope("embedding"):
        w_text = tf.get_variable("W_text", [VOCAB_SIZE, EMBEDDING_SIZE], dtype,
                                 initializer=tf.random_uniform_initializer(-1.0, 1.0))
        embedded_chars = tf.nn.embedding_lookup(w_text, input_text)

    with tf.variable_scope("bi-rnn"):
        fw_cell = tf.nn.rnn_cell.BasicLSTMCell(CONTEXT_SIZE)
        bw_cell = tf.nn.rnn_cell.BasicLSTMCell(CONTEXT_SIZE)
        (output_fw, output_bw), _ = tf.nn.bidirectional_dynamic_rnn(
            fw_cell, bw_cell, embedded_chars, sequence_length=lengths, dtype=dtype)

    with tf.name_scope("context"):
        shape = [tf.shape(output_fw)[0], 1, CONTEXT_SIZE]
        c_left = tf.concat([tf.zeros(shape, dtype), output_fw[:, :-1]], axis=1, name="context_left")
        c_right = tf.concat([output_bw[:, 1:], tf.zeros(shape, dtype)], axis=1, name="context_right")

    with tf.name_scope("word-representation"):
        x = tf.concat([c_left, embedded_chars, c_right], axis=2, name="x")

    with tf.variable_scope("text-representation"):
        w2 = tf.get_variable("W2", [2 * CONTEXT_SIZE + EMBEDDING_SIZE, HIDDEN_SIZE], dtype,
                             initializer=tf.random_uniform_initializer(-1.0, 1.0))
        b2 = tf.get_variable("b2", [HIDDEN_SIZE], dtype, initializer=tf.constant_initializer(0.1))
        y2 = tf.tanh(tf.einsum("aij,jk->aik", x, w2) + b2)

    with tf.name_scope("max-pooling"):
        y3 = tf.reduce_max(y2, axis=1)

    h_drop = y3 * keep

    with tf.variable_scope("output"):
        w = tf.get_variable("W", [HIDDEN_SIZE, NUM_CLASSES], dtype, initializer=tf.glorot_uniform_initializer())
        b = tf.get_variable("b", [NUM_CLASSES], dtype, initializer=tf.constant_initializer(0.1))
        logits = tf.nn.xw_plus_b(h_drop, w, b, name="logits")
        l2_loss += tf.nn.l2_loss(w)
        l2_loss += tf.nn.l2_loss(b)

    losses = tf.nn.softmax_cross_entropy_with_logits_v2(logits=logits, labels=input_y)
    loss = tf.reduce_mean(losses) + L2_REG_LAMBDA * l2_loss
    return loss, {"words": y2, "text": y3, "logits": logits}
