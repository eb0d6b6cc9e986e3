"""Contrastive learning of representations, after the kind of code that was published with SimCLR: views stacked on the channels,
a projection head whose last batch norm has no offset, NT-Xent with logits_aa, logits_ab, ... and a large number on the diagonal,
weight decay over all that is not batch norm. The negatives are those of the tower's own shard."""
import tensorflow.compat.v1 as tf

LARGE_NUM = 1e9
TEMPERATURE = 0.5
WEIGHT_DECAY = 1e-3
BATCH_NORM_DECAY = 0.9
BATCH_NORM_EPSILON = 1e-5


def batch_norm_relu(inputs, is_training, relu=True, center=True):
    inputs = tf.layers.batch_normalization(inputs, axis=-1, momentum=BATCH_NORM_DECAY, epsilon=BATCH_NORM_EPSILON,
                                           center=center, scale=True, training=is_training, fused=False)
    return tf.nn.relu(inputs) if relu else inputs


def conv2d_fixed_padding(inputs, filters, kernel_size, strides):
    if strides > 1:
        pad_total = kernel_size - 1
        pad_beg = pad_total // 2
        pad_end = pad_total - pad_beg
        inputs = tf.pad(inputs, [[0, 0], [pad_beg, pad_end], [pad_beg, pad_end], [0, 0]])
    return tf.layers.conv2d(inputs, filters, kernel_size, strides=strides, padding="SAME" if strides == 1 else "VALID",
                            use_bias=False, kernel_initializer=tf.variance_scaling_initializer())


def base_model(inputs, is_training):
    with tf.variable_scope("base_model"):
        inputs = conv2d_fixed_padding(inputs, 12, 3, 1)
        inputs = tf.identity(batch_norm_relu(inputs, is_training), "initial_conv")
        inputs = conv2d_fixed_padding(inputs, 20, 3, 2)
        inputs = batch_norm_relu(inputs, is_training)
        return tf.reduce_mean(inputs, [1, 2])


def projection_head(hiddens, is_training):
    with tf.variable_scope("head_contrastive"):
        with tf.variable_scope("nl_0"):
            hiddens = tf.layers.dense(hiddens, 32, use_bias=False, kernel_initializer=tf.random_normal_initializer(stddev=0.1))
            hiddens = batch_norm_relu(hiddens, is_training)
        with tf.variable_scope("nl_1"):
            hiddens = tf.layers.dense(hiddens, 16, use_bias=False, kernel_initializer=tf.random_normal_initializer(stddev=0.1))
            return batch_norm_relu(hiddens, is_training, relu=False, center=False)


def add_contrastive_loss(hidden, temperature):
    hidden1, hidden2 = tf.split(hidden, 2, 0)
    batch_size = tf.shape(hidden1)[0]
    labels = tf.one_hot(tf.range(batch_size), batch_size * 2, dtype=hidden.dtype)
    masks = tf.one_hot(tf.range(batch_size), batch_size, dtype=hidden.dtype)
    logits_aa = tf.matmul(hidden1, hidden1, transpose_b=True) / temperature - masks * LARGE_NUM
    logits_bb = tf.matmul(hidden2, hidden2, transpose_b=True) / temperature - masks * LARGE_NUM
    logits_ab = tf.matmul(hidden1, hidden2, transpose_b=True) / temperature
    logits_ba = tf.matmul(hidden2, hidden1, transpose_b=True) / temperature
    loss_a = tf.nn.softmax_cross_entropy_with_logits_v2(labels, tf.concat([logits_ab, logits_aa], 1))
    loss_b = tf.nn.softmax_cross_entropy_with_logits_v2(labels, tf.concat([logits_ba, logits_bb], 1))
    return tf.reduce_mean(loss_a) + tf.reduce_mean(loss_b), logits_ab


def tower(features, training=True):
    features_list = tf.split(features, num_or_size_splits=2, axis=-1)
    features = tf.concat(features_list, 0)
    hiddens = base_model(features, training)
    projected = tf.math.l2_normalize(projection_head(hiddens, training), -1)
    contrast_loss, logits_con = add_contrastive_loss(projected, TEMPERATURE)
    l2_losses = [tf.nn.l2_loss(v) for v in tf.trainable_variables() if "batch_normalization" not in v.name]
    loss = contrast_loss + WEIGHT_DECAY * tf.add_n(l2_losses)
    return loss, {"hiddens": hiddens, "projected": projected, "logits_ab": logits_con, "contrast_loss": contrast_loss}
