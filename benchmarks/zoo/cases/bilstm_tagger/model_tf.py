"""Named entity tagger: a bidirectional LSTM over word embeddings and shape features."""
import tensorflow.compat.v1 as tf

NWORDS = 80
DIM_WORD = 16
HIDDEN = 20
NTAGS = 5


def tower(word_ids, shapes, sequence_lengths, labels):
    with tf.variable_scope("words"):
        _word_embeddings = tf.get_variable("_word_embeddings", [NWORDS, DIM_WORD], shapes.dtype)
        word_embeddings = tf.nn.embedding_lookup(_word_embeddings, word_ids, name="word_embeddings")
    inputs = tf.concat([word_embeddings, shapes], axis=-1)

    with tf.variable_scope("bi-lstm"):
        cell_fw = tf.nn.rnn_cell.LSTMCell(HIDDEN)
        cell_bw = tf.nn.rnn_cell.LSTMCell(HIDDEN)
        (output_fw, output_bw), _ = tf.nn.bidirectional_dynamic_rnn(
            cell_fw, cell_bw, inputs, sequence_length=sequence_lengths, dtype=shapes.dtype)
        output = tf.concat([output_fw, output_bw], axis=-1)

    with tf.variable_scope("proj"):
        W = tf.get_variable("W", [2 * HIDDEN, NTAGS], shapes.dtype)
        b = tf.get_variable("b", [NTAGS], shapes.dtype, initializer=tf.zeros_initializer())
        nsteps = tf.shape(output)[1]
        pred = tf.matmul(tf.reshape(output, [-1, 2 * HIDDEN]), W) + b
        logits = tf.reshape(pred, [-1, nsteps, NTAGS])

    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=labels)
    mask = tf.sequence_mask(sequence_lengths, nsteps)
    loss = tf.reduce_mean(tf.boolean_mask(losses, mask))
    return loss, {"lstm": output, "logits": logits}
