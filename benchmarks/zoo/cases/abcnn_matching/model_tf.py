"""ABCNN-3 with one block: attention in front of the wide convolution and in the pooling behind it."""
import tensorflow.compat.v1 as tf

S = 10  # words of a sentence
W = 3  # width of the filters
D0 = 12
DI = 14
VOCAB = 50
L2_REG = 0.0004


def pad_for_wide_conv(x):
    return tf.pad(x, [[0, 0], [0, 0], [W - 1, W - 1], [0, 0]], "CONSTANT", name="pad_wide_conv")


def cos_sim(v1, v2):
    norm1 = tf.sqrt(tf.reduce_sum(tf.square(v1), axis=1))
    norm2 = tf.sqrt(tf.reduce_sum(tf.square(v2), axis=1))
    return tf.reduce_sum(v1 * v2, axis=1, name="cos_sim") / (norm1 * norm2)


def make_attention_mat(x1, x2):
    # x1, x2 = [batch, height, width, 1], and x2 so transposed that each column meets each of x1
    euclidean = tf.sqrt(tf.reduce_sum(tf.square(x1 - tf.transpose(x2, [0, 1, 3, 2])), axis=1) + 1e-6)
    return 1.0 / (1.0 + euclidean)


def convolution(name_scope, x, d, reuse):
    with tf.variable_scope(name_scope + "-conv", reuse=tf.AUTO_REUSE if reuse else None):
        w = tf.get_variable("weights", [d, W, 2, DI], x.dtype, initializer=tf.glorot_normal_initializer())
        b = tf.get_variable("biases", [DI], x.dtype, initializer=tf.constant_initializer(1e-4))
        conv = tf.nn.tanh(tf.nn.conv2d(x, w, [1, 1, 1, 1], "VALID") + b)
        return tf.transpose(conv, [0, 3, 2, 1], name="conv_trans")


def w_pool(x, attention):
    """Sums over windows, weighed by how much attention each column gets."""
    pools = []
    attention = tf.transpose(tf.expand_dims(tf.expand_dims(attention, -1), -1), [0, 2, 1, 3])
    for i in range(S):
        pools.append(tf.reduce_sum(x[:, :, i:i + W, :] * attention[:, :, i:i + W, :], axis=2, keepdims=True))
    return tf.concat(pools, axis=2, name="w_ap")


def all_pool(x):
    return tf.squeeze(tf.reduce_mean(x, axis=2), axis=-1)


def cnn_layer(variable_scope, x1, x2, d):
    with tf.variable_scope(variable_scope):
        with tf.name_scope("att_mat"):
            a_w = tf.get_variable("aW", [S, d], x1.dtype, initializer=tf.glorot_normal_initializer())
            att_mat = make_attention_mat(x1, x2)
            x1_a = tf.expand_dims(tf.matrix_transpose(tf.einsum("ijk,kl->ijl", att_mat, a_w)), -1)
            x2_a = tf.expand_dims(tf.matrix_transpose(tf.einsum("ijk,kl->ijl", tf.matrix_transpose(att_mat), a_w)), -1)
            x1 = tf.concat([x1, x1_a], axis=3)
            x2 = tf.concat([x2, x2_a], axis=3)
        left_conv = convolution("shared", pad_for_wide_conv(x1), d, reuse=True)
        right_conv = convolution("shared", pad_for_wide_conv(x2), d, reuse=True)
        att_mat = make_attention_mat(left_conv, right_conv)
        left_attention, right_attention = tf.reduce_sum(att_mat, axis=2), tf.reduce_sum(att_mat, axis=1)
        left_wp, right_wp = w_pool(left_conv, left_attention), w_pool(right_conv, right_attention)
        return left_wp, all_pool(left_wp), right_wp, all_pool(right_wp)


def tower(question, answer, features, labels):
    dtype = features.dtype
    embeddings = tf.get_variable("embeddings", [VOCAB, D0], dtype, initializer=tf.random_uniform_initializer(-0.5, 0.5))

    def embed(ids):
        x = tf.nn.embedding_lookup(embeddings, ids) * tf.cast(tf.not_equal(ids, 0), dtype)[:, :, None]
        return tf.expand_dims(tf.matrix_transpose(x), -1)

    x1, x2 = embed(question), embed(answer)
    left_wp, left_ap, right_wp, right_ap = cnn_layer("CNN-1", x1, x2, D0)
    sims = [cos_sim(all_pool(x1), all_pool(x2)), cos_sim(left_ap, right_ap)]
    with tf.variable_scope("output-layer"):
        output_features = tf.concat([features, tf.stack(sims, axis=1)], axis=1, name="output_features")
        w = tf.get_variable("FC/weights", [4, 2], dtype, initializer=tf.glorot_uniform_initializer())
        b = tf.get_variable("FC/biases", [2], dtype, initializer=tf.constant_initializer(1e-4))
        estimation = tf.nn.xw_plus_b(output_features, w, b)
    cost = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(logits=estimation, labels=labels))
    regularized = [v for v in tf.trainable_variables() if v.op.name.split("/")[-1] in ("weights", "aW")]
    cost += L2_REG * tf.add_n([tf.nn.l2_loss(v) for v in regularized])
    outputs = {"left": tf.squeeze(left_wp, -1), "right": tf.squeeze(right_wp, -1), "output_features": output_features,
               "estimation": estimation}
    return cost, outputs
