"""Neural factorisation machine on libfm-like rows: bilinear pooling, batch norm, two dense layers, a linear part."""
import numpy as np
import tensorflow.compat.v1 as tf

from data import FIELDS

M = sum(FIELDS)
HIDDEN_FACTOR = 12
LAYERS = [20, 10]
LAMDA_BILINEAR = 0.02


def _initialize_weights(dtype):
    all_weights = dict()
    normal = tf.random_normal_initializer(0.0, 0.1)
    all_weights["feature_embeddings"] = tf.get_variable("feature_embeddings", [M, HIDDEN_FACTOR], dtype, normal)
    all_weights["feature_bias"] = tf.get_variable("feature_bias", [M, 1], dtype, tf.random_uniform_initializer(0.0, 0.05))
    all_weights["bias"] = tf.get_variable("bias", [], dtype, tf.constant_initializer(0.0))
    n_in = HIDDEN_FACTOR
    for i, n_out in enumerate(LAYERS):
        glorot = np.sqrt(2.0 / (n_in + n_out))
        all_weights["layer_%d" % i] = tf.get_variable("layer_%d" % i, [n_in, n_out], dtype,
                                                      tf.random_normal_initializer(0.0, glorot))
        all_weights["bias_%d" % i] = tf.get_variable("bias_%d" % i, [1, n_out], dtype,
                                                     tf.random_normal_initializer(0.0, glorot))
        n_in = n_out
    all_weights["prediction"] = tf.get_variable("prediction", [n_in, 1], dtype, tf.random_normal_initializer(0.0, 0.3))
    return all_weights


def tower(ids, values, labels, keep_fm, keep_deep, training=True):
    weights = _initialize_weights(values.dtype)
    first = np.cumsum((0,) + FIELDS[:-1]).astype("int32")
    features = ids + tf.constant(first)

    # the model: sum_square part and square_sum part
    nonzero_embeddings = tf.nn.embedding_lookup(weights["feature_embeddings"], features)
    nonzero_embeddings = nonzero_embeddings * tf.expand_dims(values, -1)
    summed_features_emb_square = tf.square(tf.reduce_sum(nonzero_embeddings, 1))
    squared_sum_features_emb = tf.reduce_sum(tf.square(nonzero_embeddings), 1)
    fm = 0.5 * tf.subtract(summed_features_emb_square, squared_sum_features_emb)
    pooled = fm
    fm = tf.layers.batch_normalization(fm, momentum=0.9, epsilon=1e-3, training=training, name="bn_fm")
    if training:
        fm = fm * keep_fm

    # deep layers
    for i in range(len(LAYERS)):
        fm = tf.add(tf.matmul(fm, weights["layer_%d" % i]), weights["bias_%d" % i])
        fm = tf.nn.relu(fm)
        if training and i == 0:
            fm = fm * keep_deep
    deep = tf.matmul(fm, weights["prediction"])

    bilinear = tf.reduce_sum(deep, 1, keep_dims=True)
    feature_bias = tf.reduce_sum(tf.nn.embedding_lookup(weights["feature_bias"], features) * tf.expand_dims(values, -1), 1)
    out = tf.add_n([bilinear, feature_bias, weights["bias"] * tf.ones_like(labels)])

    loss = tf.nn.l2_loss(tf.subtract(labels, out))
    loss = loss + LAMDA_BILINEAR * tf.nn.l2_loss(weights["feature_embeddings"])
    return loss, {"pooled": pooled, "linear": feature_bias, "out": out}
