"""ReCoSa: turns of a dialogue are read by a GRU, attend to each other, and a transformer's decoder writes the answer; of dense layers
with ReLUs, heads that lie behind each other in the batch, and 1x1 convolutions, as in the transformer by Kyubyong Park."""
import tensorflow.compat.v1 as tf

VOCAB, HIDDEN, HEADS, BLOCKS = 32, 16, 4, 1
MAXIMUM = 10
PADDING = -2 ** 32 + 1


def normalize(inputs, epsilon=1e-8, scope="ln"):
    with tf.variable_scope(scope):
        params_shape = inputs.get_shape()[-1:]
        mean, variance = tf.nn.moments(inputs, [-1], keep_dims=True)
        beta = tf.get_variable("beta", params_shape, inputs.dtype, initializer=tf.zeros_initializer())
        gamma = tf.get_variable("gamma", params_shape, inputs.dtype, initializer=tf.ones_initializer())
        return gamma * (inputs - mean) / ((variance + epsilon) ** .5) + beta


def embedding(inputs, vocab_size, num_units, dtype, zero_pad=True, scale=True, scope="embedding"):
    with tf.variable_scope(scope):
        lookup_table = tf.get_variable("lookup_table", [vocab_size, num_units], dtype, initializer=tf.glorot_uniform_initializer())
        if zero_pad:
            lookup_table = tf.concat((tf.zeros([1, num_units], dtype), lookup_table[1:, :]), 0)
        outputs = tf.nn.embedding_lookup(lookup_table, inputs)
        return outputs * (num_units ** 0.5) if scale else outputs


def multihead_attention(queries, keys, query_masks, key_masks, causality=False, scope="multihead_attention"):
    with tf.variable_scope(scope):
        Q = tf.layers.dense(queries, HIDDEN, activation=tf.nn.relu)
        K = tf.layers.dense(keys, HIDDEN, activation=tf.nn.relu)
        V = tf.layers.dense(keys, HIDDEN, activation=tf.nn.relu)
        Q_ = tf.concat(tf.split(Q, HEADS, axis=2), axis=0)
        K_ = tf.concat(tf.split(K, HEADS, axis=2), axis=0)
        V_ = tf.concat(tf.split(V, HEADS, axis=2), axis=0)
        outputs = tf.matmul(Q_, tf.transpose(K_, [0, 2, 1])) / (K_.get_shape().as_list()[-1] ** 0.5)

        masks = tf.tile(tf.expand_dims(tf.tile(key_masks, [HEADS, 1]), 1), [1, tf.shape(queries)[1], 1])
        paddings = tf.ones_like(outputs) * PADDING
        outputs = tf.where(tf.equal(masks, 0), paddings, outputs)
        if causality:
            tril = tf.matrix_band_part(tf.ones_like(outputs[0, :, :]), -1, 0)
            masks = tf.tile(tf.expand_dims(tril, 0), [tf.shape(outputs)[0], 1, 1])
            outputs = tf.where(tf.equal(masks, 0), paddings, outputs)
        outputs = tf.nn.softmax(outputs)

        outputs *= tf.expand_dims(tf.tile(query_masks, [HEADS, 1]), -1)
        outputs = tf.matmul(outputs, V_)
        outputs = tf.concat(tf.split(outputs, HEADS, axis=0), axis=2)
        return normalize(outputs + queries)


def feedforward(inputs, num_units, scope="feedforward"):
    with tf.variable_scope(scope):
        outputs = tf.layers.conv1d(inputs, filters=num_units[0], kernel_size=1, activation=tf.nn.relu, use_bias=True)
        outputs = tf.layers.conv1d(outputs, filters=num_units[1], kernel_size=1, activation=None, use_bias=True)
        return normalize(outputs + inputs)


def label_smoothing(inputs, epsilon=0.1):
    K = inputs.get_shape().as_list()[-1]
    return ((1 - epsilon) * inputs) + (epsilon / K)


def positions(inputs, dtype, scope):
    length = inputs.get_shape().as_list()[1]
    index = tf.tile(tf.expand_dims(tf.range(length), 0), [tf.shape(inputs)[0], 1])
    return embedding(index, MAXIMUM, HIDDEN, dtype, zero_pad=False, scale=False, scope=scope)


def tower(x, x_length, turns, keep, y, istarget):
    dtype = istarget.dtype
    ends = {}
    max_turn, maxlen = x.get_shape().as_list()[1:]
    decoder_inputs = tf.concat((tf.ones_like(y[:, :1]) * 2, y[:, :-1]), -1)
    with tf.variable_scope("encoder"):
        embedded = embedding(tf.reshape(x, [-1, maxlen]), VOCAB, HIDDEN // 2, dtype, scope="enc_embed")
        cell = tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.GRUCell(HIDDEN)])
        _, states = tf.nn.dynamic_rnn(cell, embedded, sequence_length=tf.reshape(x_length, [-1]), dtype=dtype, swap_memory=True)
        enc = tf.reshape(states[0], [-1, max_turn, HIDDEN])
        ends["utterances"] = enc
        enc += positions(x, dtype, "enc_pe")
        enc *= keep
        for i in range(BLOCKS):
            with tf.variable_scope("num_blocks_{}".format(i)):
                enc = multihead_attention(enc, enc, turns, turns)
                enc = feedforward(enc, [4 * HIDDEN, HIDDEN])
    ends["enc"] = enc
    with tf.variable_scope("decoder"):
        dec = embedding(decoder_inputs, VOCAB, HIDDEN, dtype, scope="dec_embed")
        dec += positions(decoder_inputs, dtype, "dec_pe")
        given = tf.cast(tf.not_equal(decoder_inputs, 0), dtype)
        for i in range(BLOCKS):
            with tf.variable_scope("num_blocks_{}".format(i)):
                dec = multihead_attention(dec, dec, given, given, causality=True, scope="self_attention")
                dec = multihead_attention(dec, enc, given, turns, scope="vanilla_attention")
                dec = feedforward(dec, [4 * HIDDEN, HIDDEN])
        ends["dec"] = dec
        logits = tf.layers.dense(dec, VOCAB)
    ends["logits"] = logits
    preds = tf.argmax(logits, axis=-1, output_type=tf.int32)
    ends["acc"] = tf.reduce_sum(tf.cast(tf.equal(preds, y), dtype) * istarget) / tf.reduce_sum(istarget)
    y_smoothed = label_smoothing(tf.one_hot(y, depth=VOCAB, dtype=dtype))
    loss = tf.nn.softmax_cross_entropy_with_logits_v2(logits=logits, labels=y_smoothed)
    return tf.reduce_sum(loss * istarget) / tf.reduce_sum(istarget), ends
