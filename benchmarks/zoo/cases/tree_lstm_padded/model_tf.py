"""Child-sum Tree-LSTM over padded binary trees; nodes are composed in postorder, children are fetched by gather_nd."""
import tensorflow.compat.v1 as tf

VOCAB = 30
EMB = 8
DIM = 12
CLASSES = 5
NODES = 9
L2 = 1e-3


def get_weights(dtype):
    xavier = tf.glorot_uniform_initializer()
    w = {}
    with tf.variable_scope("embed"):
        w["E"] = tf.get_variable("embedding", [VOCAB, EMB], dtype, tf.random_uniform_initializer(-0.25, 0.25))
    with tf.variable_scope("tree"):
        w["W_iou"] = tf.get_variable("W_iou", [EMB, 3 * DIM], dtype, xavier)
        w["U_iou"] = tf.get_variable("U_iou", [DIM, 3 * DIM], dtype, xavier)
        w["b_iou"] = tf.get_variable("b_iou", [3 * DIM], dtype, tf.zeros_initializer())
        w["W_f"] = tf.get_variable("W_f", [EMB, DIM], dtype, xavier)
        w["U_f"] = tf.get_variable("U_f", [DIM, DIM], dtype, xavier)
        w["b_f"] = tf.get_variable("b_f", [DIM], dtype, tf.constant_initializer(1.0))
    with tf.variable_scope("sentiment"):
        w["W_s"] = tf.get_variable("W_s", [DIM, CLASSES], dtype, xavier)
        w["b_s"] = tf.get_variable("b_s", [CLASSES], dtype, tf.zeros_initializer())
    return w


def compose(w, x, h1, c1, h2, c2):
    iou = tf.matmul(x, w["W_iou"]) + tf.matmul(h1 + h2, w["U_iou"]) + w["b_iou"]
    i, o, u = tf.split(iou, 3, axis=1)
    fx = tf.matmul(x, w["W_f"]) + w["b_f"]
    f1 = tf.sigmoid(fx + tf.matmul(h1, w["U_f"]))
    f2 = tf.sigmoid(fx + tf.matmul(h2, w["U_f"]))
    c = tf.sigmoid(i) * tf.tanh(u) + f1 * c1 + f2 * c2
    h = tf.sigmoid(o) * tf.tanh(c)
    return h, c


def tower(words, left, right, sizes, mask, labels):
    w = get_weights(mask.dtype)
    batch = tf.shape(words)[0]
    rows = tf.range(batch)
    emb = tf.nn.embedding_lookup(w["E"], words)
    emb = emb * tf.cast(tf.expand_dims(words > 0, -1), emb.dtype)
    zero = tf.zeros(tf.stack([batch, DIM]), mask.dtype)
    hs, cs = [zero], [zero]
    for t in range(NODES):
        h_all, c_all = tf.stack(hs, axis=1), tf.stack(cs, axis=1)
        l_idx = tf.stack([rows, left[:, t]], axis=1)
        r_idx = tf.stack([rows, right[:, t]], axis=1)
        h, c = compose(w, emb[:, t], tf.gather_nd(h_all, l_idx), tf.gather_nd(c_all, l_idx),
                       tf.gather_nd(h_all, r_idx), tf.gather_nd(c_all, r_idx))
        hs.append(h)
        cs.append(c)
    states = tf.stack(hs, axis=1)
    root = tf.gather_nd(states, tf.stack([rows, sizes], axis=1))
    logits = tf.reshape(tf.nn.xw_plus_b(tf.reshape(states[:, 1:], [-1, DIM]), w["W_s"], w["b_s"]), [-1, NODES, CLASSES])
    xent = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    node_loss = tf.reduce_sum(xent * mask) / tf.reduce_sum(mask)
    # the sentence itself counts once more
    root_labels = tf.gather_nd(labels, tf.stack([rows, sizes - 1], axis=1))
    root_logits = tf.nn.xw_plus_b(root, w["W_s"], w["b_s"])
    root_loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=root_labels, logits=root_logits))
    reg = tf.add_n([tf.nn.l2_loss(v) for k, v in sorted(w.items()) if k != "E"])
    loss = node_loss + 0.5 * root_loss + L2 * reg
    return loss, {"states": states[:, 1:], "logits": logits, "root_logits": root_logits, "node_loss": node_loss}
