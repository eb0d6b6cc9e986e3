"""GRU4Rec: session-parallel mini-batches, the other examples' targets as negatives, TOP1 and BPR losses."""
import tensorflow.compat.v1 as tf

N_ITEMS, EMBEDDING, RNN_SIZE = 80, 16, 24
BPREG = 0.5


def gru_layer(x, h, name):
    """The cudnn form of the unit: the reset gate multiplies the state's product, which has a bias of its own."""
    with tf.variable_scope(name, reuse=tf.AUTO_REUSE):
        sigma = (6.0 / (EMBEDDING + RNN_SIZE)) ** 0.5
        initializer = tf.random_uniform_initializer(minval=-sigma, maxval=sigma)
        w = tf.get_variable("W", [int(x.shape[-1]), 3 * RNN_SIZE], x.dtype, initializer)
        u = tf.get_variable("U", [RNN_SIZE, 3 * RNN_SIZE], x.dtype, initializer)
        b_w = tf.get_variable("b_w", [3 * RNN_SIZE], x.dtype, tf.zeros_initializer())
        b_u = tf.get_variable("b_u", [3 * RNN_SIZE], x.dtype, tf.zeros_initializer())
    x_r, x_z, x_h = tf.split(tf.matmul(x, w) + b_w, 3, axis=1)
    h_r, h_z, h_h = tf.split(tf.matmul(h, u) + b_u, 3, axis=1)
    r = tf.sigmoid(x_r + h_r)
    z = tf.sigmoid(x_z + h_z)
    candidate = tf.tanh(x_h + r * h_h)
    return z * h + (1.0 - z) * candidate


def top1(yhat):
    yhatT = tf.transpose(yhat)
    term1 = tf.reduce_mean(tf.nn.sigmoid(-tf.diag_part(yhat) + yhatT) + tf.nn.sigmoid(yhatT ** 2), axis=0)
    term2 = tf.nn.sigmoid(tf.diag_part(yhat) ** 2) / tf.cast(tf.shape(yhat)[0], yhat.dtype)
    return tf.reduce_mean(term1 - term2)


def bpr(yhat):
    yhatT = tf.transpose(yhat)
    return tf.reduce_mean(-tf.log(tf.nn.sigmoid(tf.diag_part(yhat) - yhatT) + 1e-24))


def tower(items, targets, begins, state):
    dtype = state.dtype
    with tf.variable_scope("gru_layer"):
        embedding = tf.get_variable("embedding", [N_ITEMS, EMBEDDING], dtype)
        softmax_w = tf.get_variable("softmax_w", [N_ITEMS, RNN_SIZE], dtype)
        softmax_b = tf.get_variable("softmax_b", [N_ITEMS], dtype, tf.constant_initializer(0.0))
        top1_losses, bpr_losses, outputs, scores = [], [], [], []
        for t in range(6):
            # a new session begins with an empty state
            state = state * (1.0 - begins[:, t:t + 1])
            inputs = tf.nn.embedding_lookup(embedding, items[:, t])
            state = gru_layer(inputs, state, "gru_cell")
            outputs.append(state)
            sampled_w = tf.nn.embedding_lookup(softmax_w, targets[:, t])
            sampled_b = tf.nn.embedding_lookup(softmax_b, targets[:, t])
            logits = tf.matmul(state, sampled_w, transpose_b=True) + sampled_b
            yhat = tf.tanh(logits)
            scores.append(yhat)
            top1_losses.append(top1(yhat))
            bpr_losses.append(bpr(yhat))
    top1_loss = tf.add_n(top1_losses) / 6
    bpr_loss = tf.add_n(bpr_losses) / 6
    return top1_loss + BPREG * bpr_loss, {"hidden": tf.stack(outputs, axis=1), "yhat": tf.stack(scores),
                                          "top1": top1_loss, "bpr": bpr_loss}
