"""AutoInt for click-through rates, after its authors' TensorFlow 1 code: every field's embedding times its value, self-attention
over the fields with rectified projections and a rectified residual, beside it a small deep part; log loss plus l2 of the tables."""
import numpy as np
import tensorflow.compat.v1 as tf

FEATURE_SIZE = 89
FIELD_SIZE = 7
EMBEDDING_SIZE = 10
BLOCK_SHAPE = [12, 15]
HEADS = 3
DEEP_LAYERS = [22, 13]
L2_REG = 0.01


def normalize(inputs, epsilon=1e-8):
    params_shape = inputs.shape.as_list()[-1:]
    mean, variance = tf.nn.moments(inputs, [-1], keep_dims=True)
    beta = tf.get_variable("beta", params_shape, inputs.dtype, tf.zeros_initializer())
    gamma = tf.get_variable("gamma", params_shape, inputs.dtype, tf.ones_initializer())
    normalized = (inputs - mean) / ((variance + epsilon) ** 0.5)
    return gamma * normalized + beta


def multihead_attention(queries, keys, values, num_units, num_heads):
    Q = tf.layers.dense(queries, num_units, activation=tf.nn.relu, name="q")
    K = tf.layers.dense(keys, num_units, activation=tf.nn.relu, name="k")
    V = tf.layers.dense(values, num_units, activation=tf.nn.relu, name="v")
    V_res = tf.layers.dense(values, num_units, activation=tf.nn.relu, name="v_res")

    # the heads go to the axis of the batch
    Q_ = tf.concat(tf.split(Q, num_heads, axis=2), axis=0)
    K_ = tf.concat(tf.split(K, num_heads, axis=2), axis=0)
    V_ = tf.concat(tf.split(V, num_heads, axis=2), axis=0)
    weights = tf.matmul(Q_, tf.transpose(K_, [0, 2, 1]))
    weights = weights / (K_.shape.as_list()[-1] ** 0.5)
    weights = tf.nn.softmax(weights)
    outputs = tf.matmul(weights, V_)
    outputs = tf.concat(tf.split(outputs, num_heads, axis=0), axis=2)

    outputs += V_res
    outputs = tf.nn.relu(outputs)
    return normalize(outputs)


def tower(feat_index, feat_value, label):
    dtype = feat_value.dtype
    table = tf.get_variable("feature_embeddings", [FEATURE_SIZE, EMBEDDING_SIZE], dtype,
                            tf.random_normal_initializer(0.0, 0.1))
    embeddings = tf.nn.embedding_lookup(table, feat_index)
    embeddings = tf.multiply(embeddings, tf.expand_dims(feat_value, -1))

    y_dense = tf.reshape(embeddings, [-1, FIELD_SIZE * EMBEDDING_SIZE])
    for i, units in enumerate(DEEP_LAYERS):
        y_dense = tf.layers.dense(y_dense, units, activation=tf.nn.relu, name="deep_%d" % i)
    y_dense = tf.layers.dense(y_dense, 1, use_bias=False, name="deep_out")

    y_deep = embeddings
    for i, units in enumerate(BLOCK_SHAPE):
        with tf.variable_scope("block_%d" % i):
            y_deep = multihead_attention(y_deep, y_deep, y_deep, units, HEADS)
    interactions = y_deep
    flat = tf.reshape(y_deep, [-1, FIELD_SIZE * BLOCK_SHAPE[-1]])
    glorot = np.sqrt(2.0 / (FIELD_SIZE * BLOCK_SHAPE[-1] + 1))
    projection = tf.get_variable("prediction", [FIELD_SIZE * BLOCK_SHAPE[-1], 1], dtype,
                                 tf.random_normal_initializer(0.0, glorot))
    bias = tf.get_variable("prediction_bias", [], dtype, tf.constant_initializer(0.01))
    out = tf.nn.sigmoid(tf.matmul(flat, projection) + bias + y_dense)

    epsilon = 1e-7
    log_loss = tf.reduce_mean(-label * tf.log(out + epsilon) - (1 - label) * tf.log(1 - out + epsilon))
    loss = log_loss + L2_REG * tf.nn.l2_loss(table)
    return loss, {"embeddings": embeddings, "interactions": interactions, "out": out, "log_loss": log_loss}
