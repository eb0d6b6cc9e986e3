"""Deep session interest network: self-attention within each session after a bias encoding, a bidirectional LSTM over the sessions'
interests, and two local activation units that pool both by the target item."""
import tensorflow.compat.v1 as tf

EMBEDDING_SIZE = 6
ATT_EMBEDDING_SIZE, ATT_HEAD_NUM = 3, 4
SESS_MAX_COUNT, SESS_LEN_MAX = 4, 6
FIELDS = {"cms_segid": 9, "pvalue_level": 4, "cate_id": 24, "brand": 33}
ATT_HIDDEN_UNITS = (16, 8)
DNN_HIDDEN_UNITS = (20, 10)
L2_REG_EMBEDDING = 2e-4
PADDING = -2 ** 32 + 1


def variable(name, shape, like, stddev=0.05):
    return tf.get_variable(name, shape, like.dtype, tf.truncated_normal_initializer(stddev=stddev, dtype=like.dtype))


def transformer(x, lengths, name):
    """x is [batch, clicks, dim]; the clicks see each other and, blinded, not themselves."""
    units = ATT_EMBEDDING_SIZE * ATT_HEAD_NUM
    with tf.variable_scope(name, reuse=tf.AUTO_REUSE):
        W_Query = variable("query", [units, units], x, 0.3)
        W_key = variable("key", [units, units], x, 0.3)
        W_Value = variable("value", [units, units], x, 0.3)
        fw1 = variable("fw1", [units, 4 * units], x, 0.2)
        fw2 = variable("fw2", [4 * units, units], x, 0.2)
    querys, keys, values = (tf.tensordot(x, w, axes=(-1, 0)) for w in (W_Query, W_key, W_Value))
    # heads go to the front: [heads * batch, clicks, size]
    querys, keys, values = (tf.concat(tf.split(t, ATT_HEAD_NUM, axis=2), axis=0) for t in (querys, keys, values))
    outputs = tf.matmul(querys, keys, transpose_b=True) / (ATT_EMBEDDING_SIZE ** 0.5)
    key_masks = tf.tile(tf.sequence_mask(lengths, x.get_shape().as_list()[1]), [ATT_HEAD_NUM, 1])
    key_masks = tf.tile(tf.expand_dims(key_masks, 1), [1, tf.shape(querys)[1], 1])
    outputs = tf.where(key_masks, outputs, tf.ones_like(outputs) * PADDING)
    outputs = tf.matrix_set_diag(outputs, tf.ones_like(outputs)[:, :, 0] * PADDING)
    outputs = tf.matmul(tf.nn.softmax(outputs), values)
    result = tf.concat(tf.split(outputs, ATT_HEAD_NUM, axis=0), axis=2)
    result += x
    fw = tf.tensordot(tf.nn.relu(tf.tensordot(result, fw1, axes=(-1, 0))), fw2, axes=(-1, 0))
    return tf.reduce_mean(result + fw, axis=1, keepdims=True)


def attention_pooling(query, keys, lengths, name):
    with tf.variable_scope(name):
        queries = tf.tile(tf.expand_dims(query, 1), [1, SESS_MAX_COUNT, 1])
        net = tf.concat([queries, keys, queries - keys, queries * keys], axis=-1)
        for i, units in enumerate(ATT_HIDDEN_UNITS):
            net = tf.layers.dense(net, units, activation=tf.nn.sigmoid, name="att{}".format(i))
        # a bias of the scores would cancel in the softmax
        score = tf.transpose(tf.layers.dense(net, 1, use_bias=False, name="score"), [0, 2, 1])
        masks = tf.expand_dims(tf.sequence_mask(lengths, SESS_MAX_COUNT), axis=1)
        score = tf.nn.softmax(tf.where(masks, score, tf.ones_like(score) * PADDING))
        return tf.squeeze(tf.matmul(score, keys), axis=1)


def tower(user, target, sessions, clicks, sess_length, price, label):
    tables = {name: variable("sparse_emb_" + name, [rows, EMBEDDING_SIZE], label, 0.6) for name, rows in FIELDS.items()}
    look_up = tf.nn.embedding_lookup
    query_emb = tf.concat([look_up(tables["cate_id"], target[:, 0]), look_up(tables["brand"], target[:, 1])], axis=-1)
    deep_input = [look_up(tables["cms_segid"], user[:, 0]), look_up(tables["pvalue_level"], user[:, 1]), query_emb]

    with tf.variable_scope("bias_encoding"):
        sess_bias = variable("sess_bias_embedding", [SESS_MAX_COUNT, 1, 1], label, 0.2)
        seq_bias = variable("seq_bias_embedding", [1, SESS_LEN_MAX, 1], label, 0.2)
        item_bias = variable("item_bias_embedding", [1, 1, 2 * EMBEDDING_SIZE], label, 0.2)
    tr_out = []
    for i in range(SESS_MAX_COUNT):
        keys_emb = tf.concat([look_up(tables["cate_id"], sessions[:, i, :, 0]), look_up(tables["brand"], sessions[:, i, :, 1])], axis=-1)
        tr_input = keys_emb + item_bias + seq_bias + sess_bias[i]
        tr_out.append(transformer(tr_input, clicks[:, i], "transformer"))
    sess_fea = tf.concat(tr_out, axis=1)

    interest = attention_pooling(query_emb, sess_fea, sess_length, "interest_attention")
    cell_fw = tf.nn.rnn_cell.LSTMCell(2 * EMBEDDING_SIZE, name="cell_fw")
    cell_bw = tf.nn.rnn_cell.LSTMCell(2 * EMBEDDING_SIZE, name="cell_bw")
    (fw, bw), _ = tf.nn.bidirectional_dynamic_rnn(cell_fw, cell_bw, sess_fea, sequence_length=sess_length, dtype=label.dtype,
                                                  scope="bilstm")
    lstm_outputs = fw + bw
    evolved = attention_pooling(query_emb, lstm_outputs, sess_length, "lstm_attention")

    net = tf.concat(deep_input + [interest, evolved, price], axis=-1)
    with tf.variable_scope("dnn"):
        for i, units in enumerate(DNN_HIDDEN_UNITS):
            net = tf.layers.dense(net, units, activation=tf.nn.relu, name="kernel{}".format(i))
        logit = tf.layers.dense(net, 1, use_bias=False, name="output")
        logit += tf.get_variable("global_bias", [1], label.dtype, tf.zeros_initializer())
    logit = tf.squeeze(logit, axis=1)
    log_loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=label, logits=logit))
    regularisation = L2_REG_EMBEDDING * tf.add_n([tf.reduce_sum(tf.square(t)) for t in tables.values()])
    return log_loss + regularisation, {"sess_fea": sess_fea, "interest": interest, "lstm_outputs": lstm_outputs, "evolved": evolved,
                                       "logit": logit, "log_loss": log_loss}
