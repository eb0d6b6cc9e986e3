"""A structured self-attentive sentence embedding over a bidirectional GRU."""
import tensorflow.compat.v1 as tf

VOCAB, EMBEDDING, HIDDEN, D_A, HOPS, FC, CLASSES = 53, 11, 9, 13, 4, 20, 3
P_COEF = 0.3


def tower(tokens, lengths, labels, keep, training=True):
    dtype, steps = keep.dtype, tokens.shape.as_list()[1]
    init = tf.glorot_uniform_initializer()

    with tf.variable_scope("embedding"):
        W_text = tf.get_variable("W_text", [VOCAB, EMBEDDING], dtype, tf.random_uniform_initializer(-0.25, 0.25))
        embedded = tf.nn.embedding_lookup(W_text, tokens)
        if training:
            embedded = embedded * tf.expand_dims(keep, 1)

    with tf.variable_scope("bi_gru"):
        cell_fw, cell_bw = tf.nn.rnn_cell.GRUCell(HIDDEN), tf.nn.rnn_cell.GRUCell(HIDDEN)
        outputs, _ = tf.nn.bidirectional_dynamic_rnn(cell_fw, cell_bw, embedded, sequence_length=lengths, dtype=dtype)
        H = tf.concat(outputs, 2)

    with tf.variable_scope("self_attention"):
        W_s1 = tf.get_variable("W_s1", [D_A, 2 * HIDDEN], dtype, init)
        W_s2 = tf.get_variable("W_s2", [HOPS, D_A], dtype, init)
        scores = tf.map_fn(lambda h: tf.matmul(W_s2, tf.tanh(tf.matmul(W_s1, tf.transpose(h)))), H)
        real = tf.sequence_mask(lengths, steps, dtype=dtype)
        A = tf.nn.softmax(scores - 1e9 * (1 - tf.expand_dims(real, 1)))
        M = tf.matmul(A, H)

    with tf.variable_scope("penalization"):
        AA_t = tf.matmul(A, tf.transpose(A, [0, 2, 1]))
        P = tf.square(tf.norm(AA_t - tf.eye(HOPS, dtype=dtype), axis=[-2, -1], ord="fro"))
        loss_P = tf.reduce_mean(P * P_COEF)

    with tf.variable_scope("fully_connected"):
        flat = tf.reshape(M, [-1, HOPS * 2 * HIDDEN])
        fc = tf.layers.dense(flat, FC, use_bias=False, kernel_initializer=init, name="fc")
        fc = tf.layers.batch_normalization(fc, momentum=0.9, epsilon=1e-3, training=training, name="bn")
        fc = tf.nn.relu(fc)

    with tf.variable_scope("output"):
        logits = tf.layers.dense(fc, CLASSES, kernel_initializer=init, name="logits")
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=labels)
    outputs = {"H": H, "A": A, "sentence": M, "fc": fc, "logits": logits}
    return tf.reduce_mean(losses) + loss_P, outputs
