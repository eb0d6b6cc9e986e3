"""Attention-over-attention reader for cloze questions."""
import tensorflow.compat.v1 as tf

VOCAB_SIZE = 26
EMBEDDING_SIZE = 10
HIDDEN_SIZE = 8


def masked_softmax(target, axis, mask, name=None):
    with tf.name_scope(name, "softmax", [target, mask]):
        max_axis = tf.reduce_max(target, axis, keepdims=True)
        target_exp = tf.exp(target - tf.stop_gradient(max_axis)) * mask
        normalize = tf.reduce_sum(target_exp, axis, keepdims=True)
        # columns and rows of nothing but padding stay 0
        return target_exp / tf.where(tf.equal(normalize, 0.0), tf.ones_like(normalize), normalize)


def encode(words, lengths, dtype, scope):
    with tf.variable_scope(scope):
        fw_cell = tf.nn.rnn_cell.LSTMCell(HIDDEN_SIZE)
        bw_cell = tf.nn.rnn_cell.LSTMCell(HIDDEN_SIZE)
        outputs, _ = tf.nn.bidirectional_dynamic_rnn(fw_cell, bw_cell, words, sequence_length=lengths, dtype=dtype)
        return tf.concat(outputs, axis=2)


def tower(document, document_length, query, query_length, answer, weight):
    dtype = weight.dtype
    with tf.variable_scope("reader", initializer=tf.orthogonal_initializer()):
        embedding = tf.get_variable("embedding", [VOCAB_SIZE, EMBEDDING_SIZE], dtype,
                                    initializer=tf.random_uniform_initializer(-0.05, 0.05))
        h_doc = encode(tf.nn.embedding_lookup(embedding, document), document_length, dtype, "document")
        h_query = encode(tf.nn.embedding_lookup(embedding, query), query_length, dtype, "query")

        M = tf.matmul(h_doc, h_query, adjoint_b=True)
        document_mask = tf.sequence_mask(document_length, tf.shape(document)[1], dtype=dtype)
        query_mask = tf.sequence_mask(query_length, tf.shape(query)[1], dtype=dtype)
        M_mask = tf.matmul(tf.expand_dims(document_mask, -1), tf.expand_dims(query_mask, 1))

        alpha = masked_softmax(M, 1, M_mask)
        beta = masked_softmax(M, 2, M_mask)
        query_importance = tf.reduce_sum(beta, 1) / tf.cast(document_length, dtype)[:, None]
        s = tf.squeeze(tf.matmul(alpha, tf.expand_dims(query_importance, -1)), [2])

        batch = tf.shape(document)[0]
        ids = document + VOCAB_SIZE * tf.expand_dims(tf.range(batch), -1)
        y_hat = tf.unsorted_segment_sum(tf.reshape(s, [-1]), tf.reshape(ids, [-1]), batch * VOCAB_SIZE)
        y_hat = tf.reshape(y_hat, [-1, VOCAB_SIZE])
    index = tf.range(batch) * VOCAB_SIZE + answer
    relevant = tf.gather(tf.reshape(y_hat, [-1]), index)
    loss = -tf.reduce_sum(weight * tf.log(relevant)) / tf.reduce_sum(weight)
    return loss, {"match": M, "attention": s, "probabilities": y_hat}
