"""Self-attentive sequential recommendation; the mask of the dropout behind the embeddings is fed."""
import tensorflow.compat.v1 as tf

ITEM_NUM = 41
MAXLEN = 9
HIDDEN_UNITS = 16
NUM_BLOCKS = 2
NUM_HEADS = 2
L2_EMB = 0.001
MASKED = -2.0 ** 32 + 1


def normalize(inputs, epsilon=1e-8, scope="ln"):
    with tf.variable_scope(scope):
        params_shape = inputs.get_shape()[-1:]
        mean, variance = tf.nn.moments(inputs, [-1], keep_dims=True)
        beta = tf.get_variable("beta", params_shape, inputs.dtype, initializer=tf.zeros_initializer())
        gamma = tf.get_variable("gamma", params_shape, inputs.dtype, initializer=tf.ones_initializer())
        return gamma * (inputs - mean) / tf.sqrt(variance + epsilon) + beta


def multihead_attention(queries, keys, present, num_units, num_heads, scope="self_attention"):
    with tf.variable_scope(scope):
        Q = tf.layers.dense(queries, num_units, name="query")
        K = tf.layers.dense(keys, num_units, use_bias=False, name="key")   # a bias would cancel
        V = tf.layers.dense(keys, num_units, name="value")

        Q_ = tf.concat(tf.split(Q, num_heads, axis=2), axis=0)     # [h*N, T, C/h]
        K_ = tf.concat(tf.split(K, num_heads, axis=2), axis=0)
        V_ = tf.concat(tf.split(V, num_heads, axis=2), axis=0)

        outputs = tf.matmul(Q_, tf.transpose(K_, [0, 2, 1]))
        outputs = outputs / (K_.get_shape().as_list()[-1] ** 0.5)
        paddings = tf.ones_like(outputs) * MASKED

        key_masks = tf.tile(tf.expand_dims(tf.tile(present, [num_heads, 1]), 1), [1, MAXLEN, 1])
        outputs = tf.where(tf.equal(key_masks, 0), paddings, outputs)

        tril = tf.linalg.band_part(tf.ones_like(outputs[0]), -1, 0)
        masks = tf.tile(tf.expand_dims(tril, 0), [tf.shape(outputs)[0], 1, 1])
        outputs = tf.where(tf.equal(masks, 0), paddings, outputs)

        outputs = tf.nn.softmax(outputs)
        query_masks = tf.expand_dims(tf.tile(present, [num_heads, 1]), -1)
        outputs *= query_masks

        outputs = tf.matmul(outputs, V_)
        outputs = tf.concat(tf.split(outputs, num_heads, axis=0), axis=2)
        return outputs + queries


def feedforward(inputs, num_units, scope="feedforward"):
    with tf.variable_scope(scope):
        outputs = tf.layers.conv1d(inputs, num_units[0], 1, activation=tf.nn.relu, name="conv1")
        outputs = tf.layers.conv1d(outputs, num_units[1], 1, name="conv2")
        return outputs + inputs


def tower(seq, pos, neg, dropout, training=True):
    dtype = dropout.dtype.base_dtype
    present = tf.cast(tf.not_equal(seq, 0), dtype)
    mask = tf.expand_dims(present, -1)
    normal = tf.random_normal_initializer(stddev=0.2, dtype=dtype)

    with tf.variable_scope("SASRec"):
        with tf.variable_scope("input_embeddings"):
            item_emb_table = tf.get_variable("lookup_table", [ITEM_NUM + 1, HIDDEN_UNITS], dtype, initializer=normal)
        with tf.variable_scope("dec_pos"):
            pos_emb_table = tf.get_variable("lookup_table", [MAXLEN, HIDDEN_UNITS], dtype, initializer=normal)

        x = tf.nn.embedding_lookup(item_emb_table, seq) * (HIDDEN_UNITS ** 0.5)
        positions = tf.tile(tf.expand_dims(tf.range(tf.shape(seq)[1]), 0), [tf.shape(seq)[0], 1])
        x += tf.nn.embedding_lookup(pos_emb_table, positions)
        if training:
            x *= dropout
        x *= mask

        outputs = {"embedded": x}
        for i in range(NUM_BLOCKS):
            with tf.variable_scope("num_blocks_%d" % i):
                x = multihead_attention(normalize(x, scope="ln1"), x, present, HIDDEN_UNITS, NUM_HEADS)
                x = feedforward(normalize(x, scope="ln2"), [HIDDEN_UNITS, HIDDEN_UNITS])
                x *= mask
                outputs["block_%d" % i] = x
        x = normalize(x)

    pos_emb = tf.nn.embedding_lookup(item_emb_table, pos)
    neg_emb = tf.nn.embedding_lookup(item_emb_table, neg)
    pos_logits = tf.reduce_sum(pos_emb * x, -1)
    neg_logits = tf.reduce_sum(neg_emb * x, -1)
    istarget = tf.cast(tf.not_equal(pos, 0), dtype)

    losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.ones_like(pos_logits), logits=pos_logits)
    losses += tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.zeros_like(neg_logits), logits=neg_logits)
    loss = tf.reduce_sum(losses * istarget) / tf.reduce_sum(istarget)
    loss += L2_EMB * (tf.nn.l2_loss(item_emb_table) + tf.nn.l2_loss(pos_emb_table))

    outputs["pos_logits"] = pos_logits * istarget
    outputs["neg_logits"] = neg_logits * istarget
    return loss, outputs
