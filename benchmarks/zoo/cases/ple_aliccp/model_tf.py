"""Progressive layered extraction for click and conversion: one table per field, batch norm of the concatenated embeddings, two
levels of task-specific and shared experts under gates, two towers, weighted cross entropies."""
import tensorflow.compat.v1 as tf

FIELDS = [("101", 31), ("121", 13), ("122", 7), ("205", 22), ("206", 5), ("301", 17)]
TAG_VOCAB = 40
EMBEDDING_SIZE = 6
TASK_NUM = 2
EXP_PER_TASK = [2, 2]
SHARED_NUM = 1
DEEP_LAYERS = [16, 12]
LEVEL_NUMBER = 2
POS_WEIGHTS = [1.5, 6.0]
LOSS_WEIGHTS = [1.0, 0.6]
L2_REG = 1e-3


def fully_connected(inputs, units, activation_fn, name):
    return tf.layers.dense(inputs, units, activation=activation_fn, name=name,
                           kernel_initializer=tf.glorot_uniform_initializer(dtype=inputs.dtype))


def table(name, rows, dtype):
    return tf.get_variable(name, [rows, EMBEDDING_SIZE], dtype, tf.random_normal_initializer(stddev=0.3, dtype=dtype))


def expert(inputs, name):
    for n, unit in enumerate(DEEP_LAYERS):
        inputs = fully_connected(inputs, unit, tf.nn.relu, "{}_fc{}".format(name, n))
    return inputs


def gate(inputs, experts, name):
    weights = tf.nn.softmax(fully_connected(inputs, len(experts), None, name), axis=1)
    stacked = tf.stack(experts, axis=1)
    return tf.reduce_sum(tf.multiply(stacked, tf.expand_dims(weights, -1)), axis=1)


def ple_net(inputs, is_last, level_name):
    with tf.variable_scope(level_name):
        own = []
        for i in range(TASK_NUM):
            own.append([expert(inputs[i], "task{}_expert{}".format(i, j)) for j in range(EXP_PER_TASK[i])])
        shared = [expert(inputs[-1], "shared_expert{}".format(j)) for j in range(SHARED_NUM)]
        outputs = [gate(inputs[i], own[i] + shared, "gate{}".format(i)) for i in range(TASK_NUM)] if is_last else None
        if not is_last:
            everything = sum(own, []) + shared
            outputs = [gate(inputs[i], everything, "gate{}".format(i)) for i in range(TASK_NUM + 1)]
        return outputs


def build_tower(x, name):
    with tf.variable_scope(name):
        x = fully_connected(x, 10, tf.nn.relu, "fc0")
        x = fully_connected(x, 6, tf.nn.relu, "fc1")
        return tf.reshape(fully_connected(x, 1, None, "deep_out"), [-1])


def tower(feats, tags, tag_weights, labels, training=True):
    dtype = labels.dtype
    weights, embeddings = [], []
    for i, (name, size) in enumerate(FIELDS):
        wgts = table("feat_{}_wgts".format(name), size, dtype)
        weights.append(wgts)
        embeddings.append(tf.nn.embedding_lookup(wgts, feats[:, i]))
    wgts = table("feat_tags_wgts", TAG_VOCAB, dtype)
    weights.append(wgts)
    # what embedding_lookup_sparse does with combiner="sum" and weights
    bag = tf.nn.embedding_lookup(wgts, tags) * tf.expand_dims(tag_weights, -1)
    embeddings.append(tf.reduce_sum(bag, axis=1))
    embedding = tf.layers.batch_normalization(tf.concat(embeddings, axis=-1), momentum=0.9, training=training, name="bn")

    task_inputs = [embedding] * (TASK_NUM + 1)
    for level in range(LEVEL_NUMBER):
        task_inputs = ple_net(task_inputs, level == LEVEL_NUMBER - 1, "level{}".format(level))
    y_ctr = build_tower(task_inputs[0], "ctr")
    y_cvr = build_tower(task_inputs[1], "cvr")

    label_ctr, label_cvr = tf.unstack(labels, axis=1)
    loss_ctr = tf.reduce_mean(tf.nn.weighted_cross_entropy_with_logits(labels=label_ctr, logits=y_ctr, pos_weight=POS_WEIGHTS[0]))
    loss_cvr = tf.reduce_mean(tf.nn.weighted_cross_entropy_with_logits(labels=label_cvr, logits=y_cvr, pos_weight=POS_WEIGHTS[1]))
    loss = LOSS_WEIGHTS[0] * loss_ctr + LOSS_WEIGHTS[1] * loss_cvr + L2_REG * tf.add_n([tf.nn.l2_loss(w) for w in weights])
    return loss, {"embedding": embedding, "extracted_ctr": task_inputs[0], "extracted_cvr": task_inputs[1], "click": y_ctr,
                  "valid_play": y_cvr, "loss_ctr": loss_ctr, "loss_cvr": loss_cvr}
