"""Attentional factorisation machine, trained to rank what was clicked in front of what was not."""
import tensorflow.compat.v1 as tf

NUM_FEATURES = 61
NUM_FIELDS = 6
EMBEDDING_SIZE = 10
ATTENTION_SIZE = 8
LAMBDA_ATTENTION = 0.05
LAMBDA_EMBEDDING = 0.01


def initialize_weights(dtype):
    with tf.variable_scope("afm", reuse=tf.AUTO_REUSE):
        return {
            "feature_embeddings": tf.get_variable("feature_embeddings", [NUM_FEATURES, EMBEDDING_SIZE], dtype,
                                                  tf.random_normal_initializer(0.0, 0.3)),
            "feature_bias": tf.get_variable("feature_bias", [NUM_FEATURES, 1], dtype,
                                            tf.random_uniform_initializer(-0.1, 0.1)),
            "attention_W": tf.get_variable("attention_W", [EMBEDDING_SIZE, ATTENTION_SIZE], dtype,
                                           tf.glorot_normal_initializer()),
            "attention_b": tf.get_variable("attention_b", [1, ATTENTION_SIZE], dtype, tf.zeros_initializer()),
            "attention_p": tf.get_variable("attention_p", [ATTENTION_SIZE], dtype, tf.random_normal_initializer()),
            "prediction": tf.get_variable("prediction", [EMBEDDING_SIZE, 1], dtype, tf.ones_initializer()),
        }


def score(weights, features, values):
    embeddings = tf.nn.embedding_lookup(weights["feature_embeddings"], features)
    scaled = embeddings * values[:, :, None]
    products = []
    for i in range(NUM_FIELDS):
        for j in range(i + 1, NUM_FIELDS):
            products.append(tf.multiply(scaled[:, i, :], scaled[:, j, :]))
    products = tf.stack(products, axis=1)
    num_interactions = NUM_FIELDS * (NUM_FIELDS - 1) // 2
    projected = tf.matmul(tf.reshape(products, [-1, EMBEDDING_SIZE]), weights["attention_W"]) + weights["attention_b"]
    projected = tf.reshape(tf.nn.relu(projected), [-1, num_interactions, ATTENTION_SIZE])
    attention = tf.nn.softmax(tf.reduce_sum(weights["attention_p"] * projected, axis=2, keepdims=True), axis=1)
    pooled = tf.reduce_sum(attention * products, axis=1)
    bilinear = tf.matmul(pooled, weights["prediction"])
    biases = tf.nn.embedding_lookup(weights["feature_bias"], features)
    linear = tf.reduce_sum(biases * values[:, :, None], axis=1)
    return tf.squeeze(bilinear + linear, 1), pooled, embeddings


def tower(clicked, clicked_values, skipped, skipped_values, importance):
    weights = initialize_weights(clicked_values.dtype)
    clicked_score, pooled, clicked_embeddings = score(weights, clicked, clicked_values)
    skipped_score, _, skipped_embeddings = score(weights, skipped, skipped_values)
    ranking = tf.reduce_sum(importance * tf.nn.softplus(skipped_score - clicked_score))
    penalty = LAMBDA_EMBEDDING * (tf.nn.l2_loss(clicked_embeddings) + tf.nn.l2_loss(skipped_embeddings))
    penalty += LAMBDA_ATTENTION * tf.nn.l2_loss(weights["attention_W"])
    return ranking + penalty, {"pooled": pooled, "clicked_score": clicked_score, "skipped_score": skipped_score,
                               "ranking": ranking}
