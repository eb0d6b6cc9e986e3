"""Text matching as image recognition: MatchPyramid, trained on pairs with the hinge loss.

Written after the kind of code in pl8787's MatchPyramid-TensorFlow and the first MatchZoo: an interaction matrix, tf.nn.conv2d on
weights made by hand, tf.gather_nd with indices that the reader has made for dynamic pooling, pairs at even and odd places.
"""
import tensorflow.compat.v1 as tf

VOCAB_SIZE = 61
EMBED_SIZE = 18
DATA1_PSIZE = 3
DATA2_PSIZE = 5
HIDDEN_SIZE = 22
REG_RATE = 0.01


def conv_relu(x, name, shape):
    with tf.variable_scope(name):
        w = tf.get_variable("w", shape, x.dtype, initializer=tf.truncated_normal_initializer(mean=0.0, stddev=0.2))
        b = tf.get_variable("b", [shape[-1]], x.dtype, initializer=tf.constant_initializer())
        return tf.nn.relu(tf.nn.conv2d(x, w, [1, 1, 1, 1], "SAME") + b)


def dynamic_pooling(x, dpool_index):
    _, length1, length2, _ = x.shape.as_list()
    batch = tf.range(tf.shape(x)[0])[:, None, None, None] * tf.ones([1, length1, length2, 1], tf.int32)
    expanded = tf.gather_nd(x, tf.concat([batch, dpool_index], 3))
    stride1 = length1 // DATA1_PSIZE
    stride2 = length2 // DATA2_PSIZE
    return tf.nn.max_pool(expanded, [1, stride1, stride2, 1], [1, stride1, stride2, 1], "VALID")


def fully_connected(x, name, units):
    with tf.variable_scope(name):
        w = tf.get_variable("w", [x.shape.as_list()[1], units], x.dtype, initializer=tf.glorot_uniform_initializer())
        b = tf.get_variable("b", [units], x.dtype, initializer=tf.constant_initializer())
        return tf.matmul(x, w) + b, tf.nn.l2_loss(w)


def tower(query, doc, query_mask, doc_mask, dpool_index):
    dtype = query_mask.dtype
    with tf.variable_scope("match_pyramid"):
        embedding = tf.get_variable("embedding", [VOCAB_SIZE, EMBED_SIZE], dtype,
                                    initializer=tf.random_uniform_initializer(-0.5, 0.5))
        embed1 = tf.nn.embedding_lookup(embedding, query)
        embed2 = tf.nn.embedding_lookup(embedding, doc)
        # batch, length of the query, length of the document
        cross = tf.einsum("abd,acd->abc", embed1, embed2)
        same = tf.cast(tf.equal(query[:, :, None], doc[:, None, :]), dtype)
        filled = query_mask[:, :, None] * doc_mask[:, None, :]
        cross_img = tf.stack([cross, same], 3) * filled[:, :, :, None]
        conv1 = conv_relu(cross_img, "conv1", [3, 5, 2, 8])
        conv2 = conv_relu(conv1, "conv2", [3, 3, 8, 10])
        pool = dynamic_pooling(conv2, dpool_index)
        flat = tf.reshape(pool, [-1, DATA1_PSIZE * DATA2_PSIZE * 10])
        fc1, decay1 = fully_connected(flat, "fc1", HIDDEN_SIZE)
        pred, decay2 = fully_connected(tf.nn.relu(fc1), "pred", 1)
    pred = tf.reshape(pred, [-1])
    pos = pred[::2]
    neg = pred[1::2]
    hinge = tf.reduce_mean(tf.maximum(1.0 + neg - pos, 0.0))
    loss = hinge + REG_RATE * (decay1 + decay2)
    return loss, {"cross": cross_img, "conv": conv2, "pooled": pool, "pred": pred, "hinge": hinge}
