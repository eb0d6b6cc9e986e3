"""Multi-gate mixture of experts over three tasks: click, purchase after a click, time of stay after a click.

The softmax of the gates drops experts out against polarisation; its masks are fed.
"""
import tensorflow.compat.v1 as tf

NUM_SEGMENTS, NUM_CATEGORIES = 13, 29
MEAN = [2.0, 0.3, -1.0, 0.5, 4.0, 0.0, 1.0]
STD = [1.5, 0.4, 3.0, 1.0, 2.0, 0.7, 1.2]
NUM_EXPERTS = 4
EXPERT_UNITS = [18, 14]
TASKS = ["click", "purchase", "dwell"]
TASK_UNITS = 9
TASK_WEIGHTS = {"click": 1.0, "purchase": 0.7, "dwell": 0.25}
HUBER_DELTA = 2.0


def input_layer(numeric, segment, category):
    dtype = numeric.dtype.base_dtype
    normal = tf.random_normal_initializer(stddev=0.3, dtype=dtype)
    with tf.variable_scope("input_layer"):
        segment_emb = tf.get_variable("segment_embedding", [NUM_SEGMENTS, 4], dtype, initializer=normal)
        category_emb = tf.get_variable("category_embedding", [NUM_CATEGORIES, 5], dtype, initializer=normal)
        scaled = (numeric - tf.constant(MEAN, dtype)) / tf.constant(STD, dtype)
        return tf.concat([scaled, tf.nn.embedding_lookup(segment_emb, segment),
                          tf.nn.embedding_lookup(category_emb, category)], axis=1)


def leaky_relu(x, alpha=0.2):
    return tf.maximum(alpha * x, x)


def expert_network(x, index):
    with tf.variable_scope("expert_%d" % index):
        for i, units in enumerate(EXPERT_UNITS):
            x = leaky_relu(tf.layers.dense(x, units, name="fc%d" % (i + 1)))
        return x


def huber(labels, predictions, delta):
    error = tf.abs(predictions - labels)
    quadratic = tf.minimum(error, delta)
    return 0.5 * quadratic * quadratic + delta * (error - quadratic)


def tower(numeric, segment, category, click, purchase, dwell, gate_dropout, training=True):
    dtype = numeric.dtype.base_dtype
    x = input_layer(numeric, segment, category)

    with tf.variable_scope("mmoe"):
        experts = tf.stack([expert_network(x, i) for i in range(NUM_EXPERTS)], axis=1)      # [B, E, H]
        mixed, gates = [], []
        for t, task in enumerate(TASKS):
            gate = tf.nn.softmax(tf.layers.dense(x, NUM_EXPERTS, name="gate_" + task))
            if training:
                gate *= gate_dropout[:, t]
            gates.append(gate)
            mixed.append(tf.reduce_sum(tf.expand_dims(gate, -1) * experts, axis=1))

    logits = {}
    for task, hidden in zip(TASKS, mixed):
        with tf.variable_scope("tower_" + task):
            if task == "purchase":      # knows how likely the click was, but does not train it
                probability = tf.stop_gradient(tf.sigmoid(logits["click"]))
                hidden = tf.concat([hidden, tf.expand_dims(probability, -1)], axis=1)
            hidden = tf.layers.dense(hidden, TASK_UNITS, activation=tf.nn.relu, name="fc")
            logits[task] = tf.squeeze(tf.layers.dense(hidden, 1, name="output"), -1)

    # what follows a click is only known where there was one
    clicks = tf.maximum(tf.reduce_sum(click), tf.ones([], dtype))
    losses = {
        "click": tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=click, logits=logits["click"])),
        "purchase": tf.reduce_sum(click * tf.nn.sigmoid_cross_entropy_with_logits(
            labels=purchase, logits=logits["purchase"])) / clicks,
        "dwell": tf.reduce_sum(click * huber(dwell, logits["dwell"], HUBER_DELTA)) / clicks,
    }
    loss = tf.add_n([TASK_WEIGHTS[task] * losses[task] for task in TASKS])
    return loss, {"experts": experts, "gates": tf.stack(gates, axis=1),
                  "logits": tf.stack([logits[task] for task in TASKS], axis=1)}
