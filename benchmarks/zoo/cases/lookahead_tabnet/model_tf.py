"""TabNet: decision steps that attend to few columns each, with ghost batch normalisation."""
import numpy as np
import tensorflow.compat.v1 as tf

NUM_KINDS = 6
EMBEDDING = 2
COLUMNS = 8 + EMBEDDING
FEATURE_DIM = 10
OUTPUT_DIM = 4
NUM_STEPS = 4
RELAXATION = 1.5
BATCH_MOMENTUM = 0.75
VIRTUAL_BATCH = 8
NUM_CLASSES = 3
SPARSITY = 0.02
EPSILON = 0.00001


def glu(act, n_units):
    return act[:, :n_units] * tf.nn.sigmoid(act[:, n_units:])


def sparsemax(logits):
    """As in tf.contrib, of rows."""
    dims = logits.shape.as_list()[1]
    z = logits - tf.reduce_mean(logits, axis=1, keepdims=True)
    z_sorted, _ = tf.nn.top_k(z, k=dims)
    z_cumsum = tf.cumsum(z_sorted, axis=1)
    k = tf.range(1, dims + 1)
    z_check = 1 + tf.cast(k, z.dtype) * z_sorted > z_cumsum
    k_z = tf.reduce_sum(tf.cast(z_check, tf.int32), axis=1)
    indices = tf.stack([tf.range(0, tf.shape(z)[0]), k_z - 1], axis=1)
    tau_sum = tf.gather_nd(z_cumsum, indices)
    tau_z = (tau_sum - 1) / tf.cast(k_z, z.dtype)
    return tf.maximum(tf.zeros_like(z), z - tau_z[:, tf.newaxis])


def batch_norm(x, training, name, virtual=VIRTUAL_BATCH):
    return tf.layers.batch_normalization(x, training=training, momentum=BATCH_MOMENTUM, virtual_batch_size=virtual,
                                         name=name)


def block(x, training, dense_name, norm_name):
    x = tf.layers.dense(x, FEATURE_DIM * 2, use_bias=False, name=dense_name, reuse=tf.AUTO_REUSE)
    return glu(batch_norm(x, training, norm_name), FEATURE_DIM)


def tower(numeric, kind, labels, training=True):
    dtype = numeric.dtype
    table = tf.get_variable("kind_embedding", [NUM_KINDS, EMBEDDING], dtype,
                            initializer=tf.truncated_normal_initializer(stddev=0.7))
    features = tf.concat([numeric, tf.nn.embedding_lookup(table, kind)], axis=1)
    features = batch_norm(features, training, "input_norm", virtual=None)
    output_aggregated = 0.0
    masked_features = features
    complementary = tf.ones_like(features)
    total_entropy = 0.0
    masks = []
    for ni in range(NUM_STEPS):
        # two layers that the steps share, two of each step's own
        transform_f1 = block(masked_features, training, "transform_f1", "norm_f1_%d" % ni)
        transform_f2 = block(transform_f1, training, "transform_f2", "norm_f2_%d" % ni)
        transform_f2 = (transform_f2 + transform_f1) * np.sqrt(0.5)
        transform_f3 = block(transform_f2, training, "transform_f3_%d" % ni, "norm_f3_%d" % ni)
        transform_f3 = (transform_f3 + transform_f2) * np.sqrt(0.5)
        transform_f4 = block(transform_f3, training, "transform_f4_%d" % ni, "norm_f4_%d" % ni)
        transform_f4 = (transform_f4 + transform_f3) * np.sqrt(0.5)
        if ni > 0:
            output_aggregated += tf.nn.relu(transform_f4[:, :OUTPUT_DIM])
        if ni < NUM_STEPS - 1:
            coefficients = transform_f4[:, OUTPUT_DIM:]
            mask_values = tf.layers.dense(coefficients, COLUMNS, use_bias=False, name="mask_%d" % ni)
            mask_values = batch_norm(mask_values, training, "norm_mask_%d" % ni)
            mask_values = sparsemax(mask_values * complementary)
            complementary *= RELAXATION - mask_values
            total_entropy += tf.reduce_mean(
                tf.reduce_sum(-mask_values * tf.log(mask_values + EPSILON), axis=1)) / (NUM_STEPS - 1)
            masked_features = mask_values * features
            masks.append(mask_values)
    logits = tf.layers.dense(output_aggregated, NUM_CLASSES, use_bias=False, name="classify")
    xent = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=labels))
    loss = xent + SPARSITY * total_entropy
    return loss, {"features": features, "mask1": masks[0], "mask2": masks[1], "mask3": masks[2],
                  "aggregated": output_aggregated, "logits": logits, "entropy": total_entropy, "xent": xent}
