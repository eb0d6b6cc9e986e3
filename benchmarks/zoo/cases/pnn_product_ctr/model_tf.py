"""Product-based network with both product layers, all weights in dictionaries as the tutorials keep them."""
import tensorflow.compat.v1 as tf

FEATURE_SIZE = 49
FIELD_SIZE = 5
EMBEDDING_SIZE = 6
DEEP_INIT_SIZE = 12
DEEP_LAYERS = [20, 16]
BATCH_NORM_DECAY = 0.9


def _initialize_weights(dtype):
    weights = {}

    def variable(key, shape, stddev):
        weights[key] = tf.get_variable(key, shape, dtype, initializer=tf.random_normal_initializer(0.0, stddev))

    variable("feature_embeddings", [FEATURE_SIZE, EMBEDDING_SIZE], 0.3)
    variable("product-linear", [DEEP_INIT_SIZE, FIELD_SIZE, EMBEDDING_SIZE], 0.2)
    variable("product-quadratic-inner", [DEEP_INIT_SIZE, FIELD_SIZE], 0.3)
    variable("product-quadratic-outer", [DEEP_INIT_SIZE, EMBEDDING_SIZE, EMBEDDING_SIZE], 0.1)
    variable("product-bias", [DEEP_INIT_SIZE], 0.1)
    input_size = DEEP_INIT_SIZE
    for i, units in enumerate(DEEP_LAYERS):
        variable("layer_%d" % i, [input_size, units], (2.0 / (input_size + units)) ** 0.5)
        input_size = units
    variable("output", [input_size, 1], (2.0 / (input_size + 1)) ** 0.5)
    weights["output_bias"] = tf.get_variable("output_bias", [1], dtype, initializer=tf.constant_initializer(0.01))
    return weights


def batch_norm_layer(x, training, scope, epsilon=1e-3):
    shape = [x.shape.as_list()[-1]]
    with tf.variable_scope(scope):
        gamma = tf.get_variable("gamma", shape, x.dtype, initializer=tf.ones_initializer())
        beta = tf.get_variable("beta", shape, x.dtype, initializer=tf.zeros_initializer())
        pop_mean = tf.get_variable("pop_mean", shape, x.dtype, initializer=tf.zeros_initializer(), trainable=False)
        pop_var = tf.get_variable("pop_variance", shape, x.dtype, initializer=tf.ones_initializer(), trainable=False)
        if not training:
            return tf.nn.batch_normalization(x, pop_mean, pop_var, beta, gamma, epsilon)
        mean, var = tf.nn.moments(x, [0])
        for pop, batch in [(pop_mean, mean), (pop_var, var)]:
            tf.add_to_collection(tf.GraphKeys.UPDATE_OPS,
                                 tf.assign(pop, pop * BATCH_NORM_DECAY + batch * (1 - BATCH_NORM_DECAY)))
        return tf.nn.batch_normalization(x, mean, var, beta, gamma, epsilon)


def tower(feat_index, feat_value, label, keep_0, keep_1, keep_2, training=True):
    weights = _initialize_weights(feat_value.dtype)
    masks = [keep_0, keep_1, keep_2]

    embeddings = tf.nn.embedding_lookup(weights["feature_embeddings"], feat_index)
    embeddings = tf.multiply(embeddings, tf.reshape(feat_value, [-1, FIELD_SIZE, 1]))

    # linear signal
    linear_output = []
    for i in range(DEEP_INIT_SIZE):
        linear_output.append(tf.reshape(tf.reduce_sum(tf.multiply(embeddings, weights["product-linear"][i]), axis=[1, 2]), [-1, 1]))
    lz = tf.concat(linear_output, axis=1)

    # quadratic signal: inner products with a factorised matrix, outer products of the summed embedding
    inner_output, outer_output = [], []
    embedding_sum = tf.reduce_sum(embeddings, axis=1)
    p = tf.matmul(tf.expand_dims(embedding_sum, 2), tf.expand_dims(embedding_sum, 1))
    for i in range(DEEP_INIT_SIZE):
        theta = tf.multiply(embeddings, tf.reshape(weights["product-quadratic-inner"][i], [1, -1, 1]))
        inner_output.append(tf.reshape(tf.norm(tf.reduce_sum(theta, axis=1), axis=1), [-1, 1]))
        theta = tf.multiply(p, tf.expand_dims(weights["product-quadratic-outer"][i], 0))
        outer_output.append(tf.reshape(tf.reduce_sum(theta, axis=[1, 2]), [-1, 1]))
    l_inner = tf.concat(inner_output, axis=1)
    l_outer = tf.concat(outer_output, axis=1)

    y_deep = tf.nn.relu(lz + l_inner + l_outer + weights["product-bias"])
    product = y_deep
    if training:
        y_deep = y_deep * masks[0]
    for i in range(len(DEEP_LAYERS)):
        y_deep = tf.matmul(y_deep, weights["layer_%d" % i])  # batch norm brings the bias
        y_deep = tf.nn.relu(batch_norm_layer(y_deep, training, "bn_%d" % i))
        if training:
            y_deep = y_deep * masks[i + 1]
    out = tf.nn.sigmoid(tf.add(tf.matmul(y_deep, weights["output"]), weights["output_bias"]))
    # tf.losses.log_loss, written out to stay in the precision of its inputs
    eps = 1e-7
    loss = tf.reduce_mean(-label * tf.log(out + eps) - (1 - label) * tf.log(1 - out + eps))
    return loss, {"product": product, "probability": out}
