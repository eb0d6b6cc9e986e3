import tensorflow.compat.v1 as tf

CLASSES = 5
HID_UNITS = 6
N_HEADS = [3, 2]
L2_COEF = 0.002


def leaky_relu(x, alpha=0.2):
    return tf.maximum(alpha * x, x)


def attn_head(seq, out_sz, bias_mat, activation, residual=False):
    seq_fts = tf.layers.conv1d(seq, out_sz, 1, use_bias=False, name="fts")
    f_1 = tf.layers.conv1d(seq_fts, 1, 1, name="f_1")
    f_2 = tf.layers.conv1d(seq_fts, 1, 1, name="f_2")
    logits = f_1 + tf.transpose(f_2, [0, 2, 1])
    coefs = tf.nn.softmax(leaky_relu(logits) + bias_mat)
    vals = tf.matmul(coefs, seq_fts)
    ret = vals + tf.get_variable("biases", [out_sz], dtype=seq.dtype, initializer=tf.zeros_initializer())
    if residual:
        ret += tf.layers.conv1d(seq, out_sz, 1, name="residual")
    return activation(ret)


def adj_to_bias(adj):
    """Nodes see themselves and those they are linked to."""
    nodes = adj.shape[1].value
    seen = tf.minimum(adj + tf.eye(nodes, dtype=adj.dtype), 1.0)
    return -1e9 * (1.0 - seen)


def row_normalise(features):
    total = tf.reduce_sum(features, axis=-1, keepdims=True)
    return features / tf.maximum(total, 1.0)


def inference(features, adj):
    bias_mat = adj_to_bias(adj)
    inputs = row_normalise(features)
    attns = []
    for head in range(N_HEADS[0]):
        with tf.variable_scope("layer_1/head_%d" % head):
            attns.append(attn_head(inputs, HID_UNITS, bias_mat, tf.nn.elu))
    h_1 = tf.concat(attns, axis=-1)
    out = []
    for head in range(N_HEADS[1]):
        with tf.variable_scope("layer_2/head_%d" % head):
            out.append(attn_head(h_1, CLASSES, bias_mat, lambda x: x, residual=True))
    return h_1, tf.add_n(out) / N_HEADS[1]


def masked_softmax_cross_entropy(logits, labels, mask):
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    mask /= tf.reduce_mean(mask)
    return tf.reduce_mean(loss * mask)


def masked_accuracy(logits, labels, mask):
    correct = tf.equal(tf.argmax(logits, 1), tf.cast(labels, tf.int64))
    mask /= tf.reduce_mean(mask)
    return tf.reduce_mean(tf.cast(correct, mask.dtype) * mask)


def tower(features, adjacency, labels, mask):
    hidden, logits = inference(features, adjacency)
    log_resh = tf.reshape(logits, [-1, CLASSES])
    lab_resh = tf.reshape(labels, [-1])
    msk_resh = tf.reshape(mask, [-1])
    loss = masked_softmax_cross_entropy(log_resh, lab_resh, msk_resh)
    accuracy = masked_accuracy(log_resh, lab_resh, msk_resh)
    # the names never match, so that everything decays, biases too
    decayed = [v for v in tf.trainable_variables() if v.name not in ["bias", "gamma", "b", "g", "beta"]]
    loss += L2_COEF * tf.add_n([tf.nn.l2_loss(v) for v in decayed])
    return loss, {"hidden": hidden, "logits": logits, "accuracy": accuracy}
