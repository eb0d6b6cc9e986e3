"""FiBiNET, after the click-through libraries in TensorFlow 1: squeeze-excite over fields and bilinear interactions.

Bilinear interactions of type "each": every field but the last has a matrix. They are taken of the embeddings as they are and of
the re-weighted ones, with matrices of their own. A linear part beside it; l2 on what is looked up by ids.
"""
import itertools

import tensorflow.compat.v1 as tf

VOCABULARIES = (31, 45, 12, 7, 17, 9)
NAMES = ("user", "item", "category", "hour", "city", "device")
EMBEDDING = 8
REDUCTION = 2
HIDDEN = (26, 14)
L2_EMBEDDING = 1e-3
L2_LINEAR = 1e-3


def senet_layer(embeddings):
    """Embeddings [batch, fields, size]."""
    fields = embeddings.shape.as_list()[1]
    reduced = max(1, fields // REDUCTION)
    init = tf.random_uniform_initializer(-0.1, 0.6)  # mostly above zero, so that no field is cut off from the beginning
    with tf.variable_scope("senet"):
        w1 = tf.get_variable("W_1", [fields, reduced], embeddings.dtype, initializer=init)
        w2 = tf.get_variable("W_2", [reduced, fields], embeddings.dtype, initializer=init)
        z = tf.reduce_mean(embeddings, axis=-1)
        a1 = tf.nn.relu(tf.tensordot(z, w1, axes=(-1, 0)))
        a2 = tf.nn.relu(tf.tensordot(a1, w2, axes=(-1, 0)))
        return tf.multiply(embeddings, tf.expand_dims(a2, axis=2))


def bilinear_interaction(embeddings, scope):
    fields, size = embeddings.shape.as_list()[1:]
    inputs = tf.unstack(embeddings, axis=1)
    with tf.variable_scope(scope):
        weights = [tf.get_variable("bilinear_weight%d" % i, [size, size], embeddings.dtype,
                                   initializer=tf.glorot_normal_initializer()) for i in range(fields - 1)]
        products = [tf.multiply(tf.tensordot(inputs[i], weights[i], axes=(-1, 0)), inputs[j])
                    for i, j in itertools.combinations(range(fields), 2)]
        return tf.concat(products, axis=1)


def tower(ids, dense, labels):
    dtype = dense.dtype
    regularization, embedded, linear = [], [], []
    for i, (name, vocabulary) in enumerate(zip(NAMES, VOCABULARIES)):
        table = tf.get_variable("sparse_emb_" + name, [vocabulary, EMBEDDING], dtype,
                                initializer=tf.random_normal_initializer(stddev=0.5))
        wide = tf.get_variable("linear_emb_" + name, [vocabulary, 1], dtype,
                               initializer=tf.random_normal_initializer(stddev=0.1))
        embedded.append(tf.nn.embedding_lookup(table, ids[:, i]))
        linear.append(tf.nn.embedding_lookup(wide, ids[:, i]))
        regularization += [L2_EMBEDDING * tf.nn.l2_loss(table), L2_LINEAR * tf.nn.l2_loss(wide)]
    with tf.variable_scope("linear"):
        kernel = tf.get_variable("linear_kernel", [dense.shape.as_list()[-1], 1], dtype,
                                 initializer=tf.glorot_normal_initializer())
        linear_logit = tf.add_n(linear) + tf.matmul(dense, kernel)

    embeddings = tf.stack(embedded, axis=1)
    reweighted = senet_layer(embeddings)
    senet_bilinear = bilinear_interaction(reweighted, "senet_bilinear")
    bilinear = bilinear_interaction(embeddings, "bilinear")
    net = tf.concat([senet_bilinear, bilinear, dense], axis=1)
    with tf.variable_scope("dnn"):
        for i, units in enumerate(HIDDEN):
            net = tf.layers.dense(net, units, activation=tf.nn.relu, name="dense_%d" % i)
        dnn_logit = tf.layers.dense(net, 1, use_bias=False, name="logit")
    global_bias = tf.get_variable("global_bias", [1], dtype, initializer=tf.zeros_initializer())
    logit = tf.squeeze(linear_logit + dnn_logit + global_bias, 1)

    log_loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logit))
    loss = log_loss + tf.add_n(regularization)
    return loss, {"reweighted": reweighted, "senet_bilinear": senet_bilinear, "bilinear": bilinear, "logit": logit,
                  "log_loss": log_loss}
