"""DeepFM: first-order weights, second-order crossings and a deep part over the same hashed embeddings."""
import tensorflow.compat.v1 as tf

FIELD_SIZE, BUCKETS, EMBEDDING, NUMBERS = 5, 200, 6, 2
DEEP_LAYERS = [24, 16]
L2_REG = 0.01


def glorot(fan_in, fan_out):
    return tf.random_normal_initializer(stddev=(2.0 / (fan_in + fan_out)) ** 0.5)


def initialize_weights(dtype):
    weights = {}
    weights["feature_embeddings"] = tf.get_variable("feature_embeddings", [BUCKETS, EMBEDDING], dtype,
                                                    tf.random_normal_initializer(stddev=0.1))
    weights["feature_bias"] = tf.get_variable("feature_bias", [BUCKETS, 1], dtype,
                                              tf.random_uniform_initializer(0.0, 1.0))
    input_size = FIELD_SIZE * EMBEDDING + NUMBERS
    for i, size in enumerate(DEEP_LAYERS):
        weights["layer_%d" % i] = tf.get_variable("layer_%d" % i, [input_size, size], dtype, glorot(input_size, size))
        weights["bias_%d" % i] = tf.get_variable("bias_%d" % i, [1, size], dtype, glorot(input_size, size))
        input_size = size
    input_size = FIELD_SIZE + EMBEDDING + DEEP_LAYERS[-1]
    weights["concat_projection"] = tf.get_variable("concat_projection", [input_size, 1], dtype, glorot(input_size, 1))
    weights["concat_bias"] = tf.get_variable("concat_bias", [1], dtype, tf.constant_initializer(0.01))
    return weights


def hashed(ids):
    """Every field has its own salt; all of them share the buckets."""
    salt = tf.constant([[7919 * (i + 1) for i in range(FIELD_SIZE)]], ids.dtype)
    return tf.floormod(ids * 40503 + salt, BUCKETS)


def tower(ids, numbers, label):
    weights = initialize_weights(numbers.dtype)
    feat_index = hashed(ids)
    embeddings = tf.nn.embedding_lookup(weights["feature_embeddings"], feat_index)  # None * F * K
    # ---------- first order term ----------
    y_first_order = tf.nn.embedding_lookup(weights["feature_bias"], feat_index)  # None * F * 1
    y_first_order = tf.reduce_sum(y_first_order, 2)  # None * F
    # ---------- second order term ---------------
    summed_features_emb = tf.reduce_sum(embeddings, 1)  # None * K
    summed_features_emb_square = tf.square(summed_features_emb)
    squared_features_emb = tf.square(embeddings)
    squared_sum_features_emb = tf.reduce_sum(squared_features_emb, 1)
    y_second_order = 0.5 * tf.subtract(summed_features_emb_square, squared_sum_features_emb)
    # ---------- Deep component ----------
    y_deep = tf.concat([tf.reshape(embeddings, shape=[-1, FIELD_SIZE * EMBEDDING]), tf.log1p(numbers)], axis=1)
    for i in range(len(DEEP_LAYERS)):
        y_deep = tf.nn.relu(tf.add(tf.matmul(y_deep, weights["layer_%d" % i]), weights["bias_%d" % i]))
    # ---------- DeepFM ----------
    concat_input = tf.concat([y_first_order, y_second_order, y_deep], axis=1)
    logit = tf.add(tf.matmul(concat_input, weights["concat_projection"]), weights["concat_bias"])
    log_loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=label, logits=logit))
    l2 = L2_REG * tf.nn.l2_loss(weights["concat_projection"])
    for i in range(len(DEEP_LAYERS)):
        l2 += L2_REG * tf.nn.l2_loss(weights["layer_%d" % i])
    # of the embeddings only what this batch looked up, averaged over it
    l2 += L2_REG * tf.reduce_mean(tf.reduce_sum(squared_features_emb, [1, 2])) / 2
    return log_loss + l2, {"y_first_order": y_first_order, "y_second_order": y_second_order, "y_deep": y_deep,
                           "logit": logit, "log_loss": log_loss}
