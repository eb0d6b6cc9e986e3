"""The legacy side: one tower of a character model."""

import tensorflow.compat.v1 as tf

SYMBOLS = 96


def tower(characters, following, weights, training=True):
    """Returns the weighted mean cross entropy over this tower's shard and over time, and what else to compare.

    Args:
      characters: int32 ``[shard, time]``.
      following: int32 ``[shard, time]``, the character after each.
      weights: ``[shard, time]``, 1 or 0. It also tells in which precision to train, which integers cannot.
      training: nothing here depends on it; that it is taken has the model judged after training too.
    """
    table = tf.get_variable("embedding", [SYMBOLS, 12], weights.dtype, tf.random_uniform_initializer(-0.1, 0.1))
    embedded = tf.nn.embedding_lookup(table, characters)
    # On TensorFlow 2 the cell needs the package tf_keras and TF_USE_LEGACY_KERAS=1, which `parity run` sets.
    cell = tf.nn.rnn_cell.BasicLSTMCell(16, forget_bias=1.0)
    lstm, _ = tf.nn.dynamic_rnn(cell, embedded, dtype=weights.dtype)
    logits = dense(tf.reshape(lstm, [-1, 16]), SYMBOLS, "logits")
    cross_entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.reshape(following, [-1]), logits=logits)
    # Over the weights of this shard: the mean over the towers is not the mean over the batch, and DDP's is not either.
    loss = tf.reduce_sum(cross_entropy * tf.reshape(weights, [-1])) / tf.reduce_sum(weights)
    return loss, {"embedded": embedded, "lstm": lstm, "logits": logits}


def dense(x, units, name):
    with tf.variable_scope(name):
        size = int(x.shape[-1])
        kernel = tf.get_variable("kernel", [size, units], x.dtype, tf.glorot_uniform_initializer(dtype=x.dtype))
        bias = tf.get_variable("bias", [units], x.dtype, tf.zeros_initializer())
        return tf.matmul(x, kernel) + bias
