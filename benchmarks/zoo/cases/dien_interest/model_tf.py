"""Deep interest evolution network for click-through rates, after the kind of TensorFlow 1 code that was published with the paper: a GRU
over the history with an auxiliary loss on its states, attention of the candidate item, a GRU whose update gate is scaled by
the attention, and a small net with Dice activations."""
import tensorflow.compat.v1 as tf

N_UID, N_MID, N_CAT = 20, 50, 9
UID_DIM, MID_DIM, CAT_DIM = 6, 7, 5
HIDDEN_SIZE = 14
ATTENTION_UNITS = (18, 10)


class VecAttGRUCell(tf.nn.rnn_cell.RNNCell):
    """A GRU cell that takes, beside its input, an attention score by which the update gate is damped."""

    def __init__(self, num_units, dtype):
        super().__init__(dtype=dtype)
        self._num_units = num_units

    @property
    def state_size(self):
        return self._num_units

    @property
    def output_size(self):
        return self._num_units

    def __call__(self, inputs, state, scope=None):
        x, att_score = inputs
        dim = x.shape.as_list()[-1] + self._num_units
        with tf.variable_scope(scope or "vec_att_gru_cell"):
            with tf.variable_scope("gates"):
                kernel = tf.get_variable("kernel", [dim, 2 * self._num_units], x.dtype)
                bias = tf.get_variable("bias", [2 * self._num_units], x.dtype, initializer=tf.ones_initializer())
                value = tf.nn.sigmoid(tf.matmul(tf.concat([x, state], 1), kernel) + bias)
            r, u = tf.split(value, 2, axis=1)
            with tf.variable_scope("candidate"):
                kernel = tf.get_variable("kernel", [dim, self._num_units], x.dtype)
                bias = tf.get_variable("bias", [self._num_units], x.dtype, initializer=tf.zeros_initializer())
                c = tf.tanh(tf.matmul(tf.concat([x, r * state], 1), kernel) + bias)
        u = (1.0 - att_score) * u
        new_h = u * state + (1 - u) * c
        return new_h, new_h


def dice(_x, name, axis=-1, epsilon=1e-9):
    alphas = tf.get_variable("alpha" + name, [_x.shape.as_list()[-1]], _x.dtype, initializer=tf.constant_initializer(0.0))
    mean = tf.reduce_mean(_x, axis=0, keepdims=True)
    std = tf.sqrt(tf.reduce_mean(tf.square(_x - mean) + epsilon, axis=0, keepdims=True))
    x_p = tf.sigmoid((_x - mean) / (std + epsilon))
    return alphas * (1.0 - x_p) * _x + x_p * _x


def prelu(_x, scope):
    with tf.variable_scope(scope):
        _alpha = tf.get_variable("prelu_" + scope, [_x.shape.as_list()[-1]], _x.dtype, initializer=tf.constant_initializer(0.1))
        return tf.maximum(tf.zeros_like(_x), _x) + _alpha * tf.minimum(tf.zeros_like(_x), _x)


def auxiliary_net(in_, stag):
    with tf.variable_scope(stag, reuse=tf.AUTO_REUSE):
        dnn1 = tf.layers.dense(in_, 16, activation=tf.nn.sigmoid, name="f1" + stag)
        dnn2 = tf.layers.dense(dnn1, 11, activation=tf.nn.sigmoid, name="f2" + stag)
        dnn3 = tf.layers.dense(dnn2, 2, activation=None, name="f3" + stag)
    return tf.nn.softmax(dnn3) + 0.00000001


def auxiliary_loss(h_states, click_seq, noclick_seq, mask):
    click_prop = auxiliary_net(tf.concat([h_states, click_seq], -1), "aux_net")[:, :, 0]
    noclick_prop = auxiliary_net(tf.concat([h_states, noclick_seq], -1), "aux_net")[:, :, 0]
    click_loss = -tf.log(click_prop) * mask
    noclick_loss = -tf.log(1.0 - noclick_prop) * mask
    return tf.reduce_mean(click_loss + noclick_loss)


def din_fcn_attention(query, facts, mask):
    facts_size = facts.shape.as_list()[-1]
    query = tf.layers.dense(query, facts_size, activation=None, name="f1_trans")
    query = prelu(query, "att")
    queries = tf.tile(tf.expand_dims(query, 1), [1, tf.shape(facts)[1], 1])
    din_all = tf.concat([queries, facts, queries - facts, queries * facts], axis=-1)
    d_layer_1 = tf.layers.dense(din_all, ATTENTION_UNITS[0], activation=tf.nn.sigmoid, name="f1_att")
    d_layer_2 = tf.layers.dense(d_layer_1, ATTENTION_UNITS[1], activation=tf.nn.sigmoid, name="f2_att")
    scores = tf.squeeze(tf.layers.dense(d_layer_2, 1, activation=None, name="f3_att"), axis=2)
    paddings = tf.ones_like(scores) * (-2 ** 32 + 1)
    scores = tf.where(tf.equal(mask, tf.ones_like(mask)), scores, paddings)
    return tf.nn.softmax(scores)


def build_fcn_net(inp):
    dnn1 = tf.layers.dense(inp, 24, activation=None, name="f1")
    dnn1 = dice(dnn1, name="dice_1")
    dnn2 = tf.layers.dense(dnn1, 15, activation=None, name="f2")
    dnn2 = dice(dnn2, name="dice_2")
    dnn3 = tf.layers.dense(dnn2, 2, activation=None, name="f3")
    return tf.nn.softmax(dnn3) + 0.00000001


def tower(uid, mid, cat, mid_his, cat_his, noclk_mid, noclk_cat, mask, seq_len, target):
    dtype = mask.dtype
    with tf.variable_scope("Embedding_layer"):
        uid_var = tf.get_variable("uid_embedding_var", [N_UID, UID_DIM], dtype)
        mid_var = tf.get_variable("mid_embedding_var", [N_MID, MID_DIM], dtype)
        cat_var = tf.get_variable("cat_embedding_var", [N_CAT, CAT_DIM], dtype)

    def items(mids, cats):
        return tf.concat([tf.nn.embedding_lookup(mid_var, mids), tf.nn.embedding_lookup(cat_var, cats)], -1)

    uid_eb = tf.nn.embedding_lookup(uid_var, uid)
    item_eb = items(mid, cat)
    item_his_eb = items(mid_his, cat_his)
    noclk_his_eb = items(noclk_mid, noclk_cat)
    item_his_eb_sum = tf.reduce_sum(item_his_eb, 1)

    with tf.variable_scope("rnn_1"):
        rnn_outputs, _ = tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(HIDDEN_SIZE, dtype=dtype), inputs=item_his_eb,
                                           sequence_length=seq_len, dtype=dtype, scope="gru1")
    aux_loss = auxiliary_loss(rnn_outputs[:, :-1, :], item_his_eb[:, 1:, :], noclk_his_eb[:, 1:, :], mask[:, 1:])

    with tf.variable_scope("Attention_layer_1"):
        alphas = din_fcn_attention(item_eb, rnn_outputs, mask)
    with tf.variable_scope("rnn_2"):
        _, final_state2 = tf.nn.dynamic_rnn(VecAttGRUCell(HIDDEN_SIZE, dtype), inputs=(rnn_outputs, tf.expand_dims(alphas, -1)),
                                            sequence_length=seq_len, dtype=dtype, scope="gru2")

    inp = tf.concat([uid_eb, item_eb, item_his_eb_sum, item_eb * item_his_eb_sum, final_state2], 1)
    with tf.variable_scope("fcn"):
        y_hat = build_fcn_net(inp)
    ctr_loss = -tf.reduce_mean(tf.log(y_hat) * target)
    loss = ctr_loss + aux_loss
    return loss, {"rnn_outputs": rnn_outputs, "alphas": alphas, "final_state": final_state2, "y_hat": y_hat,
                  "ctr_loss": ctr_loss, "aux_loss": aux_loss}
