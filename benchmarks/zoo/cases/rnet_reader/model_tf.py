"""R-Net for reading comprehension: words and characters, stacked bidirectional GRUs, gated attention of the context over the
question and over itself, and a pointer network for both ends of the answer."""
import tensorflow.compat.v1 as tf

WORDS, CHARS = 45, 18
WORD_DIM, CHAR_DIM, CHAR_HIDDEN, HIDDEN = 9, 5, 4, 6
LAYERS = 2
INF = 1e30


def softmax_mask(val, mask):
    return -INF * (1 - mask) + val


def bi_gru(inputs, units, lengths, scope):
    with tf.variable_scope(scope):
        fw, bw = tf.nn.rnn_cell.GRUCell(units), tf.nn.rnn_cell.GRUCell(units)
        return tf.nn.bidirectional_dynamic_rnn(fw, bw, inputs, sequence_length=lengths, dtype=inputs.dtype)


def stacked_gru(inputs, units, num_layers, lengths, scope, concat_layers=True):
    with tf.variable_scope(scope):
        outputs = [inputs]
        for layer in range(num_layers):
            out, _ = bi_gru(outputs[-1], units, lengths, "layer_{}".format(layer))
            outputs.append(tf.concat(out, axis=2))
        return tf.concat(outputs[1:], axis=2) if concat_layers else outputs[-1]


def dot_attention(inputs, memory, mask, hidden, scope):
    with tf.variable_scope(scope):
        inputs_ = tf.nn.relu(tf.layers.dense(inputs, hidden, use_bias=False, name="inputs"))
        memory_ = tf.nn.relu(tf.layers.dense(memory, hidden, use_bias=False, name="memory"))
        outputs = tf.matmul(inputs_, tf.transpose(memory_, [0, 2, 1])) / (hidden ** 0.5)
        mask = tf.tile(tf.expand_dims(mask, axis=1), [1, tf.shape(inputs)[1], 1])
        weights = tf.nn.softmax(softmax_mask(outputs, mask))
        res = tf.concat([inputs, tf.matmul(weights, memory)], axis=2)
        dim = res.get_shape().as_list()[-1]
        gate = tf.nn.sigmoid(tf.layers.dense(res, dim, use_bias=False, name="gate"))
        return res * gate


def summ(memory, hidden, mask, scope):
    with tf.variable_scope(scope):
        s0 = tf.nn.tanh(tf.layers.dense(memory, hidden, name="s0"))
        s = tf.layers.dense(s0, 1, use_bias=False, name="s")
        a = tf.expand_dims(tf.nn.softmax(softmax_mask(tf.squeeze(s, [2]), mask)), axis=2)
        return tf.reduce_sum(a * memory, axis=1)


def pointer(inputs, state, hidden, mask, reuse):
    with tf.variable_scope("pointer", reuse=reuse):
        tiled = tf.tile(tf.expand_dims(state, axis=1), [1, tf.shape(inputs)[1], 1])
        u = tf.concat([tiled, inputs], axis=2)
        s0 = tf.nn.tanh(tf.layers.dense(u, hidden, use_bias=False, name="s0"))
        s = tf.layers.dense(s0, 1, use_bias=False, name="s")
        s1 = softmax_mask(tf.squeeze(s, [2]), mask)
        a = tf.expand_dims(tf.nn.softmax(s1), axis=2)
        return tf.reduce_sum(a * inputs, axis=1), s1


def tower(context, question, context_chars, question_chars, y1, y2):
    dtype = y1.dtype
    c_mask = tf.cast(tf.cast(context, tf.bool), dtype)
    q_mask = tf.cast(tf.cast(question, tf.bool), dtype)
    c_len = tf.cast(tf.reduce_sum(c_mask, 1), tf.int32)
    q_len = tf.cast(tf.reduce_sum(q_mask, 1), tf.int32)
    word_mat = tf.get_variable("word_mat", [WORDS, WORD_DIM], dtype, initializer=tf.random_normal_initializer(stddev=0.5, dtype=dtype))
    char_mat = tf.get_variable("char_mat", [CHARS, CHAR_DIM], dtype, initializer=tf.random_normal_initializer(stddev=0.5, dtype=dtype))

    def embed(words, chars, reuse):
        with tf.variable_scope("emb", reuse=reuse):
            shape = chars.get_shape().as_list()
            flat = tf.reshape(chars, [-1, shape[2]])
            lengths = tf.reduce_sum(tf.cast(flat > 0, tf.int32), axis=1)
            _, (fw, bw) = bi_gru(tf.nn.embedding_lookup(char_mat, flat), CHAR_HIDDEN, lengths, "char")
            letters = tf.reshape(tf.concat([fw, bw], axis=1), [-1, shape[1], 2 * CHAR_HIDDEN])
            return tf.concat([tf.nn.embedding_lookup(word_mat, words), letters], axis=2)

    c_emb = embed(context, context_chars, None)
    q_emb = embed(question, question_chars, True)
    c = stacked_gru(c_emb, HIDDEN, LAYERS, c_len, "encoding")
    with tf.variable_scope(tf.get_variable_scope(), reuse=True):
        q = stacked_gru(q_emb, HIDDEN, LAYERS, q_len, "encoding")

    qc_att = dot_attention(c, q, q_mask, HIDDEN, "attention")
    att = stacked_gru(qc_att, HIDDEN, 1, c_len, "attention_gru")
    self_att = dot_attention(att, att, c_mask, HIDDEN, "match")
    match = stacked_gru(self_att, HIDDEN, 1, c_len, "match_gru")

    init = summ(q[:, :, -2 * HIDDEN:], HIDDEN, q_mask, "summ")
    with tf.variable_scope("ptr_net"):
        cell = tf.nn.rnn_cell.GRUCell(2 * HIDDEN)
        inp, logits1 = pointer(match, init, HIDDEN, c_mask, None)
        with tf.variable_scope("gru"):
            _, state = cell(inp, init)
        _, logits2 = pointer(match, state, HIDDEN, c_mask, True)

    losses = tf.nn.softmax_cross_entropy_with_logits_v2(logits=logits1, labels=tf.stop_gradient(y1))
    losses2 = tf.nn.softmax_cross_entropy_with_logits_v2(logits=logits2, labels=tf.stop_gradient(y2))
    loss = tf.reduce_mean(losses + losses2)
    outer = tf.matmul(tf.expand_dims(tf.nn.softmax(logits1), axis=2), tf.expand_dims(tf.nn.softmax(logits2), axis=1))
    outer = tf.matrix_band_part(outer, 0, 4)
    return loss, {"encoded": c, "attended": qc_att, "match": match, "init": init, "span": outer,
                  "start_loss": tf.reduce_mean(losses)}
