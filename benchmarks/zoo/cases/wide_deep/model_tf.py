"""Wide and deep click model; skill 0 stands for an empty slot."""
import tensorflow.compat.v1 as tf


def linear_model(occupation, education, crossed, numbers):
    dtype = numbers.dtype
    with tf.variable_scope("linear/linear_model", values=(numbers,)):
        total = 0.0
        for name, ids, buckets in [("occupation", occupation, 30), ("education", education, 12),
                                   ("education_X_occupation", crossed, 50)]:
            with tf.variable_scope(name):
                weights = tf.get_variable("weights", [buckets, 1], dtype, tf.zeros_initializer())
                total += tf.nn.embedding_lookup(weights, ids)
        with tf.variable_scope("numbers"):
            weights = tf.get_variable("weights", [4, 1], dtype, tf.zeros_initializer())
            total += tf.matmul(numbers, weights)
        bias = tf.get_variable("bias_weights", [1], dtype, tf.zeros_initializer())
        return tf.nn.bias_add(total, bias, name="weighted_sum")


def input_layer(occupation, education, skills, numbers):
    dtype = numbers.dtype
    with tf.variable_scope("dnn/input_from_feature_columns/input_layer"):
        columns = []
        for name, ids, buckets, dim in [("education_embedding", education, 12, 4),
                                        ("occupation_embedding", occupation, 30, 8)]:
            with tf.variable_scope(name):
                table = tf.get_variable("embedding_weights", [buckets, dim], dtype,
                                        tf.truncated_normal_initializer(stddev=dim ** -0.5))
                columns.append(tf.nn.embedding_lookup(table, ids))
        with tf.variable_scope("skills_embedding"):
            table = tf.get_variable("embedding_weights", [40, 8], dtype, tf.truncated_normal_initializer(stddev=8 ** -0.5))
            present = tf.expand_dims(tf.cast(tf.not_equal(skills, 0), dtype), -1)
            rows = tf.nn.embedding_lookup(table, skills) * present
            columns.append(tf.reduce_sum(rows, 1) / tf.reduce_sum(present, 1))
        columns.append(numbers)
        return tf.concat(columns, 1)


def dnn(net):
    with tf.variable_scope("dnn"):
        for i, units in enumerate([32, 16]):
            with tf.variable_scope("hiddenlayer_%d" % i):
                kernel = tf.get_variable("kernel", [int(net.shape[1]), units], net.dtype, tf.glorot_uniform_initializer())
                bias = tf.get_variable("bias", [units], net.dtype, tf.zeros_initializer())
                net = tf.nn.relu(tf.nn.xw_plus_b(net, kernel, bias))
        with tf.variable_scope("logits"):
            kernel = tf.get_variable("kernel", [16, 1], net.dtype, tf.glorot_uniform_initializer())
            bias = tf.get_variable("bias", [1], net.dtype, tf.zeros_initializer())
            return tf.nn.xw_plus_b(net, kernel, bias), net


def tower(occupation, education, crossed, skills, numbers, labels):
    numbers = tf.log1p(numbers)
    wide = linear_model(occupation, education, crossed, numbers)
    features = input_layer(occupation, education, skills, numbers)
    deep, hidden = dnn(features)
    logits = tf.squeeze(wide + deep, axis=1)
    losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
    return tf.reduce_mean(losses), {"wide": wide, "features": features, "hidden": hidden, "logits": logits}
