"""Behaviour sequence transformer for click-through rates, after the kind of TensorFlow 1 code published beside DIN and BST.

The attention is written as in the widely copied transformer of that time: heads are stacked along the batch, padding gets a large
negative score, the layer norm is made by hand.
"""
import tensorflow.compat.v1 as tf

ITEMS, CATEGORIES, USERS, GAPS = 45, 7, 17, 10
ITEM_DIM, CATE_DIM, GAP_DIM, USER_DIM = 12, 6, 6, 8
NUM_HEADS = 3
FF_DIM = 36
EMB_REG = 0.002


def leaky_relu(x, leak=0.2):
    return tf.maximum(x, leak * x)


def embedding_table(name, size, dim, dtype):
    return tf.get_variable(name, [size, dim], dtype, initializer=tf.random_normal_initializer(stddev=0.3))


def layer_norm(inputs, epsilon=1e-6, scope="ln"):
    with tf.variable_scope(scope):
        params_shape = inputs.shape[-1:]
        mean, variance = tf.nn.moments(inputs, [-1], keep_dims=True)
        beta = tf.get_variable("beta", params_shape, inputs.dtype, initializer=tf.zeros_initializer())
        gamma = tf.get_variable("gamma", params_shape, inputs.dtype, initializer=tf.ones_initializer())
        return gamma * (inputs - mean) / tf.sqrt(variance + epsilon) + beta


def multihead_attention(inputs, key_masks, num_heads, scope="multihead_attention"):
    d_model = inputs.shape.as_list()[-1]
    with tf.variable_scope(scope):
        q = tf.layers.dense(inputs, d_model, name="Q")
        k = tf.layers.dense(inputs, d_model, name="K")
        v = tf.layers.dense(inputs, d_model, name="V")
        q_ = tf.concat(tf.split(q, num_heads, axis=2), axis=0)
        k_ = tf.concat(tf.split(k, num_heads, axis=2), axis=0)
        v_ = tf.concat(tf.split(v, num_heads, axis=2), axis=0)
        outputs = tf.matmul(q_, tf.transpose(k_, [0, 2, 1])) / (d_model // num_heads) ** 0.5
        masks = tf.tile(key_masks[:, None, :], [num_heads, tf.shape(inputs)[1], 1])
        paddings = tf.ones_like(outputs) * (-2 ** 32 + 1)
        outputs = tf.nn.softmax(tf.where(masks, outputs, paddings))
        outputs = tf.concat(tf.split(tf.matmul(outputs, v_), num_heads, axis=0), axis=2)
        return tf.layers.dense(outputs, d_model, name="O")


def transformer_block(x, key_masks):
    d_model = x.shape.as_list()[-1]
    with tf.variable_scope("transformer"):
        x = layer_norm(x + multihead_attention(x, key_masks, NUM_HEADS), scope="ln_0")
        with tf.variable_scope("feedforward"):
            y = tf.layers.dense(x, FF_DIM, activation=leaky_relu, name="inner")
            y = tf.layers.dense(y, d_model, name="outer")
        return layer_norm(x + y, scope="ln_1")


def tower(hist_items, hist_cates, hist_gaps, hist_len, item, cate, user, dense, label):
    dtype = dense.dtype
    length = hist_items.shape.as_list()[1]
    with tf.variable_scope("embeddings"):
        item_table = embedding_table("item", ITEMS, ITEM_DIM, dtype)
        cate_table = embedding_table("category", CATEGORIES, CATE_DIM, dtype)
        gap_table = embedding_table("time_gap", GAPS, GAP_DIM, dtype)
        user_table = embedding_table("user", USERS, USER_DIM, dtype)
    # the target item comes last, at a distance of 0
    items = tf.concat([hist_items, item[:, None]], axis=1)
    cates = tf.concat([hist_cates, cate[:, None]], axis=1)
    gaps = tf.pad(hist_gaps, [[0, 0], [0, 1]])
    masks = tf.concat([tf.sequence_mask(hist_len, length), tf.ones_like(item[:, None], tf.bool)], axis=1)
    item_emb = tf.nn.embedding_lookup(item_table, items)
    user_emb = tf.nn.embedding_lookup(user_table, user)
    sequence = tf.concat([item_emb, tf.nn.embedding_lookup(cate_table, cates), tf.nn.embedding_lookup(gap_table, gaps)],
                         axis=-1)

    encoded = transformer_block(sequence, masks)
    flat = tf.reshape(encoded, [-1, (length + 1) * sequence.shape.as_list()[-1]])
    x = tf.concat([flat, user_emb, dense], axis=-1)
    with tf.variable_scope("mlp"):
        for i, units in enumerate((32, 14)):
            x = tf.layers.dense(x, units, activation=leaky_relu, name="fc_%d" % i)
        logit = tf.squeeze(tf.layers.dense(x, 1, name="logit"), axis=1)

    xent = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=label, logits=logit))
    batch_size = tf.cast(tf.shape(label)[0], dtype)
    reg = EMB_REG * (tf.nn.l2_loss(item_emb) + tf.nn.l2_loss(user_emb)) / batch_size
    return xent + reg, {"encoded": encoded, "logit": logit}
