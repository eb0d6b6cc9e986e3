"""Sequence tagger: characters through convolutions and highway layers, beside word vectors, into a BiLSTM."""
import tensorflow.compat.v1 as tf

NWORDS, NCHARS, NTAGS = 50, 20, 7
DIM_WORD, DIM_CHAR = 14, 6
KERNELS = [(2, 4), (3, 6), (4, 8)]  # width, features
HIDDEN = 14


def linear(x, output_size, scope, bias_start=0.0):
    with tf.variable_scope(scope):
        matrix = tf.get_variable("Matrix", [x.shape.as_list()[-1], output_size], x.dtype,
                                 initializer=tf.glorot_uniform_initializer())
        bias = tf.get_variable("Bias", [output_size], x.dtype, initializer=tf.constant_initializer(bias_start))
    return tf.matmul(x, matrix) + bias


def highway(x, num_layers=2, bias=-2.0, scope="Highway"):
    """z = t * g(Wy + b) + (1 - t) * y, where t is the transform gate and 1 - t the carry gate."""
    size = x.shape.as_list()[-1]
    with tf.variable_scope(scope):
        for idx in range(num_layers):
            g = tf.nn.relu(linear(x, size, "highway_lin_%d" % idx))
            t = tf.sigmoid(linear(x, size, "highway_gate_%d" % idx, bias_start=bias))
            x = t * g + (1.0 - t) * x
    return x


def tdnn(x, scope="TDNN"):
    """x: [words, letters, DIM_CHAR] -> one vector per word."""
    max_len = x.shape.as_list()[1]
    x = tf.expand_dims(x, 1)
    layers = []
    with tf.variable_scope(scope):
        for width, features in KERNELS:
            w = tf.get_variable("w_%d" % width, [1, width, DIM_CHAR, features], x.dtype,
                                initializer=tf.truncated_normal_initializer(stddev=0.3))
            b = tf.get_variable("b_%d" % width, [features], x.dtype, initializer=tf.zeros_initializer())
            conv = tf.nn.conv2d(x, w, [1, 1, 1, 1], padding="VALID") + b
            pool = tf.nn.max_pool(tf.tanh(conv), [1, 1, max_len - width + 1, 1], [1, 1, 1, 1], padding="VALID")
            layers.append(tf.squeeze(pool, [1, 2]))
    return tf.concat(layers, axis=1)


def tower(words, chars, lengths, tags, dropout):
    dtype = dropout.dtype
    nsteps, nletters = chars.shape.as_list()[1:]
    with tf.variable_scope("words"):
        table = tf.get_variable("_word_embeddings", [NWORDS, DIM_WORD], dtype,
                                initializer=tf.random_normal_initializer(stddev=0.4))
        word_embeddings = tf.nn.embedding_lookup(table, words, name="word_embeddings")
    with tf.variable_scope("chars"):
        table = tf.get_variable("_char_embeddings", [NCHARS, DIM_CHAR], dtype,
                                initializer=tf.random_normal_initializer(stddev=0.5))
        char_embeddings = tf.nn.embedding_lookup(table, tf.reshape(chars, [-1, nletters]))
        spelled = highway(tdnn(char_embeddings))
        spelled = tf.reshape(spelled, [-1, nsteps, sum(features for _, features in KERNELS)])
    inputs = tf.concat([word_embeddings, spelled], axis=-1) * dropout
    with tf.variable_scope("bi-lstm"):
        cell_fw = tf.nn.rnn_cell.LSTMCell(HIDDEN)
        cell_bw = tf.nn.rnn_cell.LSTMCell(HIDDEN)
        (output_fw, output_bw), _ = tf.nn.bidirectional_dynamic_rnn(
            cell_fw, cell_bw, inputs, sequence_length=lengths, dtype=dtype)
        output = tf.concat([output_fw, output_bw], axis=-1)
    with tf.variable_scope("proj"):
        W = tf.get_variable("W", [2 * HIDDEN, NTAGS], dtype, initializer=tf.glorot_uniform_initializer())
        b = tf.get_variable("b", [NTAGS], dtype, initializer=tf.zeros_initializer())
        pred = tf.matmul(tf.reshape(output, [-1, 2 * HIDDEN]), W) + b
        logits = tf.reshape(pred, [-1, nsteps, NTAGS])
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=tags)
    mask = tf.sequence_mask(lengths, maxlen=nsteps)
    loss = tf.reduce_mean(tf.boolean_mask(losses, mask))
    return loss, {"spelled": spelled, "recurrent": output, "logits": logits}
