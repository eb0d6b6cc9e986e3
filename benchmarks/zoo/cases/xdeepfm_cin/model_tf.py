"""xDeepFM: a linear part, a compressed interaction network, and a deep network on shared field embeddings."""
import numpy as np
import tensorflow.compat.v1 as tf

FIELD_SIZES = [11, 5, 23, 3, 17, 8, 14]
EMBEDDING_SIZE = 6
CROSS_LAYER_SIZES = [10, 12, 8]
DEEP_LAYERS = [20, 12]
L2_REG = 0.003


def cin(nn_input, field_num, dim, dtype):
    hidden_layers = [nn_input]
    field_nums = [field_num]
    final_result = []
    split_tensor0 = tf.split(hidden_layers[0], dim * [1], 2)
    for idx, layer_size in enumerate(CROSS_LAYER_SIZES):
        split_tensor = tf.split(hidden_layers[-1], dim * [1], 2)
        dot_result_m = tf.matmul(split_tensor0, split_tensor, transpose_b=True)     # [D, B, F0, Hk]
        dot_result_o = tf.reshape(dot_result_m, [dim, -1, field_nums[0] * field_nums[-1]])
        dot_result = tf.transpose(dot_result_o, perm=[1, 0, 2])                     # [B, D, F0 * Hk]

        filters = tf.get_variable("f_%d" % idx, [1, field_nums[-1] * field_nums[0], layer_size], dtype=dtype)
        curr_out = tf.nn.conv1d(dot_result, filters, stride=1, padding="VALID")
        b = tf.get_variable("f_b%d" % idx, [layer_size], dtype=dtype, initializer=tf.zeros_initializer())
        curr_out = tf.nn.relu(tf.nn.bias_add(curr_out, b))
        curr_out = tf.transpose(curr_out, perm=[0, 2, 1])

        if idx != len(CROSS_LAYER_SIZES) - 1:
            next_hidden, direct_connect = tf.split(curr_out, 2 * [layer_size // 2], 1)
            field_nums.append(layer_size // 2)
        else:
            next_hidden, direct_connect = None, curr_out
        final_result.append(direct_connect)
        hidden_layers.append(next_hidden)
    return tf.reduce_sum(tf.concat(final_result, axis=1), -1)


def tower(ids, values, labels, training=True):
    dtype = values.dtype.base_dtype
    num_fields = len(FIELD_SIZES)
    offsets = np.cumsum([0] + FIELD_SIZES[:-1])
    feature_ids = ids + tf.constant(offsets, ids.dtype)
    penalised = []

    with tf.variable_scope("linear_part"):
        w = tf.get_variable("w", [sum(FIELD_SIZES), 1], dtype=dtype,
                            initializer=tf.random_normal_initializer(stddev=0.05, dtype=dtype))
        b = tf.get_variable("b", [1], dtype=dtype, initializer=tf.zeros_initializer())
        linear = tf.squeeze(tf.nn.embedding_lookup(w, feature_ids), -1)
        linear = tf.reduce_sum(linear * values, axis=1) + b
        penalised.append(w)

    with tf.variable_scope("embedding"):
        table = tf.get_variable("embedding_layer", [sum(FIELD_SIZES), EMBEDDING_SIZE], dtype=dtype,
                                initializer=tf.random_normal_initializer(stddev=0.3, dtype=dtype))
        embedding = tf.nn.embedding_lookup(table, feature_ids) * tf.expand_dims(values, -1)
        penalised.append(table)

    with tf.variable_scope("exfm_part") as scope:
        cross = cin(embedding, num_fields, EMBEDDING_SIZE, dtype)
        for i, _ in enumerate(CROSS_LAYER_SIZES):
            with tf.variable_scope(scope, reuse=True):
                penalised.append(tf.get_variable("f_%d" % i, dtype=dtype))
        cross_logit = tf.layers.dense(cross, 1, name="w_nn_output")

    with tf.variable_scope("nn_part"):
        hidden = tf.reshape(embedding, [-1, num_fields * EMBEDDING_SIZE])
        for i, units in enumerate(DEEP_LAYERS):
            hidden = tf.layers.dense(hidden, units, use_bias=i > 0, name="w_nn_layer%d" % i)
            if i == 0:
                hidden = tf.layers.batch_normalization(hidden, momentum=0.9, epsilon=1e-3, training=training,
                                                       name="bn%d" % i)
            hidden = tf.nn.relu(hidden)
        deep_logit = tf.layers.dense(hidden, 1, use_bias=False, name="w_nn_output")

    logits = linear + tf.squeeze(cross_logit + deep_logit, -1)
    data_loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(logits=logits, labels=labels))
    l2_loss = L2_REG * tf.add_n([tf.nn.l2_loss(p) for p in penalised])
    return data_loss + l2_loss, {"embedding": embedding, "cross": cross, "deep": hidden, "logits": logits}
