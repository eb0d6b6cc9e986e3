"""A sequence classifier: embedding, GRU of two layers by dynamic unrolling, the last relevant output, softmax.

`keep` is the dropout mask of the last output (all ones while comparing); everything follows its dtype.
"""
import tensorflow.compat.v1 as tf

VOCAB, EMBED, HIDDEN, CLASSES = 50, 16, 20, 3


def rnn(inputs, lengths, scope):
    with tf.variable_scope(scope):
        cell = tf.nn.rnn_cell.GRUCell(HIDDEN)
        output, _ = tf.nn.dynamic_rnn(cell, inputs, sequence_length=lengths, dtype=inputs.dtype)
        return output


def last_relevant(output, length):
    batch_size = tf.shape(output)[0]
    max_length = int(output.get_shape()[1])
    index = tf.range(0, batch_size) * max_length + (length - 1)
    flat = tf.reshape(output, [-1, HIDDEN])
    return tf.gather(flat, index)


def tower(words, lengths, labels, keep):
    embedding = tf.get_variable("embedding", [VOCAB, EMBED], keep.dtype, tf.random_uniform_initializer(-1.0, 1.0))
    inputs = tf.nn.embedding_lookup(embedding, words)
    output = rnn(inputs, lengths, "layer_0")
    output = rnn(output, lengths, "layer_1")
    last = last_relevant(output, lengths) * keep
    with tf.variable_scope("softmax"):
        weight = tf.get_variable("weight", [HIDDEN, CLASSES], keep.dtype, tf.truncated_normal_initializer(stddev=0.1))
        bias = tf.get_variable("bias", [CLASSES], keep.dtype, tf.constant_initializer(0.1))
        logits = tf.matmul(last, weight) + bias
    cross_entropy = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    loss = cross_entropy + 0.01 * tf.nn.l2_loss(weight)
    return loss, {"output": output, "last": last, "logits": logits, "cross_entropy": cross_entropy}
