"""Embedding net trained with batch-hard triplets, after the well-known blog post's tutorial code."""
import tensorflow.compat.v1 as tf

EMBEDDING_SIZE = 16
MARGIN = 0.5


def build_model(images):
    out = images
    for i, channels in enumerate([12, 24]):
        with tf.variable_scope("block_{}".format(i + 1)):
            out = tf.layers.conv2d(out, channels, 3, padding="same")
            out = tf.nn.relu(out)
            if i == 0:
                out = tf.layers.max_pooling2d(out, 2, 2)
            else:
                out = tf.layers.max_pooling2d(out, 3, 2, padding="same")
    out = tf.reshape(out, [-1, 4 * 4 * 24])
    with tf.variable_scope("fc_1"):
        out = tf.layers.dense(out, EMBEDDING_SIZE)
    return out


def pairwise_distances(embeddings):
    dot_product = tf.matmul(embeddings, tf.transpose(embeddings))
    square_norm = tf.diag_part(dot_product)
    distances = tf.expand_dims(square_norm, 1) - 2.0 * dot_product + tf.expand_dims(square_norm, 0)
    distances = tf.maximum(distances, 0.0)
    mask = tf.cast(tf.equal(distances, 0.0), distances.dtype)
    distances = distances + mask * 1e-16
    return tf.sqrt(distances) * (1.0 - mask)


def batch_hard_triplet_loss(labels, embeddings, margin):
    dtype = embeddings.dtype
    distances = pairwise_distances(embeddings)
    same = tf.equal(tf.expand_dims(labels, 0), tf.expand_dims(labels, 1))
    different_index = tf.logical_not(tf.cast(tf.eye(tf.shape(labels)[0]), tf.bool))
    positive = tf.cast(tf.logical_and(same, different_index), dtype)
    negative = tf.cast(tf.logical_not(same), dtype)
    hardest_positive = tf.reduce_max(positive * distances, axis=1)
    furthest = tf.reduce_max(distances, axis=1, keepdims=True)
    hardest_negative = tf.reduce_min(distances + furthest * (1.0 - negative), axis=1)
    triplet = tf.maximum(hardest_positive - hardest_negative + margin, 0.0)
    return tf.reduce_mean(triplet), hardest_positive, hardest_negative


def tower(images, identities):
    with tf.variable_scope("model"):
        features = build_model(images)
    embeddings = tf.nn.l2_normalize(features, 1, 1e-10)
    loss, positive, negative = batch_hard_triplet_loss(identities, embeddings, MARGIN)
    norm = tf.reduce_mean(tf.norm(features, axis=1))
    return loss, {"features": features, "embeddings": embeddings, "hardest_positive": positive,
                  "hardest_negative": negative, "feature_norm": norm}
