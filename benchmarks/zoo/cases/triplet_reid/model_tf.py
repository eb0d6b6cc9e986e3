"""Person re-identification with batch-hard triplets of the tower's own crops and a softmax over persons behind a batch norm neck,
after the kind of public TF1 code that came with "In Defense of the Triplet Loss" and the strong baselines that followed it."""
import tensorflow.compat.v1 as tf

_RGB_MEAN = [123.68, 116.78, 103.94]
_SCALE = 58.0
NUM_PERSONS = 9
LABEL_SMOOTHING = 0.1


def batch_norm(x, training, name, center=True):
    return tf.layers.batch_normalization(x, momentum=0.9, epsilon=1e-5, center=center, training=training, fused=False, name=name)


def conv2d(x, filters, size, stride, name):
    return tf.layers.conv2d(x, filters, size, stride, padding="same", use_bias=False,
                            kernel_initializer=tf.variance_scaling_initializer(2.0), name=name)


def unit(x, depth, stride, training, name):
    with tf.variable_scope(name):
        shortcut = x
        if stride != 1:
            shortcut = batch_norm(conv2d(x, depth, 1, stride, "shortcut"), training, "shortcut_bn")
        y = tf.nn.relu(batch_norm(conv2d(x, depth, 3, stride, "conv1"), training, "bn1"))
        y = batch_norm(conv2d(y, depth, 3, 1, "conv2"), training, "bn2")
        return tf.nn.relu(y + shortcut)


def trunk(images, training):
    x = (images - tf.constant(_RGB_MEAN, images.dtype)) / _SCALE
    with tf.variable_scope("trunk"):
        x = tf.nn.relu(batch_norm(conv2d(x, 8, 3, 1, "conv1"), training, "bn1"))
        pooled = tf.layers.max_pooling2d(x, 3, 2, padding="same")
        x = unit(pooled, 8, 1, training, "unit1")
        x = unit(x, 14, 2, training, "unit2")
        return pooled, tf.reduce_mean(x, [1, 2])


def cdist(a, b):
    diffs = tf.expand_dims(a, axis=1) - tf.expand_dims(b, axis=0)
    return tf.sqrt(tf.reduce_sum(tf.square(diffs), axis=-1) + 1e-12)


def batch_hard(dists, pids):
    """Soft-margin loss of each anchor's furthest positive and closest negative."""
    same_identity_mask = tf.equal(tf.expand_dims(pids, axis=1), tf.expand_dims(pids, axis=0))
    negative_mask = tf.logical_not(same_identity_mask)
    positive_mask = tf.logical_xor(same_identity_mask, tf.eye(tf.shape(pids)[0], dtype=tf.bool))
    furthest_positive = tf.reduce_max(dists * tf.cast(positive_mask, dists.dtype), axis=1)
    closest_negative = tf.reduce_min(tf.where(negative_mask, dists, 1e5 * tf.ones_like(dists)), axis=1)
    return tf.nn.softplus(furthest_positive - closest_negative)


def tower(images, pids, training=True):
    pooled, features = trunk(images, training)
    with tf.variable_scope("head"):
        neck = batch_norm(features, training, "neck", center=False)
        logits = tf.layers.dense(neck, NUM_PERSONS, use_bias=False, name="classifier",
                                 kernel_initializer=tf.random_normal_initializer(stddev=0.05))
    triplet = tf.reduce_mean(batch_hard(cdist(features, features), pids))
    smoothed = tf.one_hot(pids, NUM_PERSONS, dtype=logits.dtype) * (1.0 - LABEL_SMOOTHING) + LABEL_SMOOTHING / NUM_PERSONS
    id_loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=smoothed, logits=logits))
    end_points = {"stem": pooled, "features": features, "neck": neck, "logits": logits, "triplet": triplet, "id_loss": id_loss}
    return id_loss + triplet, end_points
