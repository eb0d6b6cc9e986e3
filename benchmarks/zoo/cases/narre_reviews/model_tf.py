"""Rating regression by reviews with attention over them (NARRE): convolutions over each review's words, attention of what a review
says and whom it is about, id embeddings beside it, and a factorised product with biases."""
import tensorflow.compat.v1 as tf

USER_NUM, ITEM_NUM, VOCAB = 26, 20, 70
EMBEDDING_SIZE, EMBEDDING_ID, N_LATENT, ATTENTION_SIZE = 10, 8, 8, 12
FILTER_SIZES, NUM_FILTERS = [2, 3], 7
L2_REG_LAMBDA = 0.02


def uniform(name, shape, bound, dtype):
    return tf.get_variable(name, shape, dtype, tf.random_uniform_initializer(-bound, bound, dtype=dtype))


def constant(name, shape, dtype):
    return tf.get_variable(name, shape, dtype, tf.constant_initializer(0.1, dtype=dtype))


def text_cnn(words, table, review_num, side, dtype):
    review_len = words.get_shape().as_list()[2]
    embedded = tf.expand_dims(tf.nn.embedding_lookup(table, words), -1)
    embedded = tf.reshape(embedded, [-1, review_len, EMBEDDING_SIZE, 1])
    pooled_outputs = []
    for filter_size in FILTER_SIZES:
        with tf.variable_scope("{}_conv-maxpool-{}".format(side, filter_size)):
            filter_shape = [filter_size, EMBEDDING_SIZE, 1, NUM_FILTERS]
            W = tf.get_variable("W", filter_shape, dtype, tf.truncated_normal_initializer(stddev=0.1, dtype=dtype))
            b = constant("b", [NUM_FILTERS], dtype)
            conv = tf.nn.conv2d(embedded, W, strides=[1, 1, 1, 1], padding="VALID", name="conv")
            h = tf.nn.relu(tf.nn.bias_add(conv, b), name="relu")
            pooled = tf.nn.max_pool(h, ksize=[1, review_len - filter_size + 1, 1, 1], strides=[1, 1, 1, 1], padding="VALID",
                                    name="pool")
            pooled_outputs.append(pooled)
    return tf.reshape(tf.concat(pooled_outputs, 3), [-1, review_num, NUM_FILTERS * len(FILTER_SIZES)])


def tower(input_u, input_i, reuid, reiid, uid, iid, y):
    dtype = y.dtype
    filters = NUM_FILTERS * len(FILTER_SIZES)
    iidW = uniform("iidW", [ITEM_NUM, EMBEDDING_ID], 0.1, dtype)
    uidW = uniform("uidW", [USER_NUM, EMBEDDING_ID], 0.1, dtype)
    W1 = uniform("user_embedding/W1", [VOCAB, EMBEDDING_SIZE], 1.0, dtype)
    W2 = uniform("item_embedding/W2", [VOCAB, EMBEDDING_SIZE], 1.0, dtype)
    h_u = text_cnn(input_u, W1, input_u.get_shape().as_list()[1], "user", dtype)
    h_i = text_cnn(input_i, W2, input_i.get_shape().as_list()[1], "item", dtype)

    with tf.variable_scope("attention"):
        Wau = uniform("Wau", [filters, ATTENTION_SIZE], 0.1, dtype)
        Wru = uniform("Wru", [EMBEDDING_ID, ATTENTION_SIZE], 0.1, dtype)
        Wpu = uniform("Wpu", [ATTENTION_SIZE, 1], 0.1, dtype)
        bau = constant("bau", [ATTENTION_SIZE], dtype)
        # a bias in front of a softmax changes nothing, the one of the paper's last layer is left out
        iid_a = tf.nn.relu(tf.nn.embedding_lookup(iidW, reuid))
        u_j = tf.einsum("ajk,kl->ajl", tf.nn.relu(
            tf.einsum("ajk,kl->ajl", h_u, Wau) + tf.einsum("ajk,kl->ajl", iid_a, Wru) + bau), Wpu)
        u_a = tf.nn.softmax(u_j, 1)

        Wai = uniform("Wai", [filters, ATTENTION_SIZE], 0.1, dtype)
        Wri = uniform("Wri", [EMBEDDING_ID, ATTENTION_SIZE], 0.1, dtype)
        Wpi = uniform("Wpi", [ATTENTION_SIZE, 1], 0.1, dtype)
        bai = constant("bai", [ATTENTION_SIZE], dtype)
        uid_a = tf.nn.relu(tf.nn.embedding_lookup(uidW, reiid))
        i_j = tf.einsum("ajk,kl->ajl", tf.nn.relu(
            tf.einsum("ajk,kl->ajl", h_i, Wai) + tf.einsum("ajk,kl->ajl", uid_a, Wri) + bai), Wpi)
        i_a = tf.nn.softmax(i_j, 1)
        l2_loss = tf.nn.l2_loss(Wau) + tf.nn.l2_loss(Wru) + tf.nn.l2_loss(Wri) + tf.nn.l2_loss(Wai)

    with tf.variable_scope("get_fea"):
        u_feas = tf.reduce_sum(tf.multiply(u_a, h_u), 1)
        i_feas = tf.reduce_sum(tf.multiply(i_a, h_i), 1)
        iidmf = uniform("iidmf", [ITEM_NUM, EMBEDDING_ID], 0.1, dtype)
        uidmf = uniform("uidmf", [USER_NUM, EMBEDDING_ID], 0.1, dtype)
        uid_e = tf.reshape(tf.nn.embedding_lookup(uidmf, uid), [-1, EMBEDDING_ID])
        iid_e = tf.reshape(tf.nn.embedding_lookup(iidmf, iid), [-1, EMBEDDING_ID])
        u_feas = tf.matmul(u_feas, uniform("Wu", [filters, N_LATENT], 0.1, dtype)) + uid_e + constant("bu", [N_LATENT], dtype)
        i_feas = tf.matmul(i_feas, uniform("Wi", [filters, N_LATENT], 0.1, dtype)) + iid_e + constant("bi", [N_LATENT], dtype)

    with tf.variable_scope("ncf"):
        FM = tf.nn.relu(tf.multiply(u_feas, i_feas))
        score = tf.matmul(FM, uniform("wmul", [N_LATENT, 1], 0.1, dtype))
        u_bias = tf.gather(constant("uidW2", [USER_NUM], dtype), uid)
        i_bias = tf.gather(constant("iidW2", [ITEM_NUM], dtype), iid)
        predictions = score + u_bias + i_bias + constant("bias", [], dtype)

    losses = tf.nn.l2_loss(tf.subtract(predictions, y))
    loss = losses + L2_REG_LAMBDA * l2_loss
    mae = tf.reduce_mean(tf.abs(tf.subtract(predictions, y)))
    return loss, {"user_reviews": h_u, "item_reviews": h_i, "u_a": u_a, "i_a": i_a, "u_feas": u_feas, "i_feas": i_feas,
                  "predictions": predictions, "mae": mae}
