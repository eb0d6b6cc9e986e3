"""RotatE: relations rotate entities in the complex plane; negatives are weighted by how likely the model holds them to be."""
import numpy as np
import tensorflow.compat.v1 as tf

N_ENTITY = 150
N_RELATION = 14
HIDDEN = 20
GAMMA = 6.0
EPSILON = 2.0
TEMPERATURE = 0.5
REGULARIZATION = 1e-4
EMBEDDING_RANGE = (GAMMA + EPSILON) / HIDDEN


def rotate(head, relation, tail):
    re_head, im_head = tf.split(head, 2, axis=-1)
    re_tail, im_tail = tf.split(tail, 2, axis=-1)
    # relations are uniform in the embedding range; as phases they go from -pi to pi
    phase = relation / (EMBEDDING_RANGE / np.pi)
    re_relation, im_relation = tf.cos(phase), tf.sin(phase)
    re_score = re_head * re_relation - im_head * im_relation - re_tail
    im_score = re_head * im_relation + im_head * re_relation - im_tail
    distance = tf.norm(tf.stack([re_score, im_score], axis=0), axis=0)
    return GAMMA - tf.reduce_sum(distance, axis=-1)


def tower(head, relation, tail, negatives, corrupt_head, subsampling):
    dtype = subsampling.dtype
    init = tf.random_uniform_initializer(-EMBEDDING_RANGE, EMBEDDING_RANGE)
    with tf.variable_scope("kge"):
        entity_embedding = tf.get_variable("entity_embedding", [N_ENTITY, 2 * HIDDEN], dtype, init)
        relation_embedding = tf.get_variable("relation_embedding", [N_RELATION, HIDDEN], dtype, init)
    h = tf.nn.embedding_lookup(entity_embedding, tf.expand_dims(head, 1))
    r = tf.nn.embedding_lookup(relation_embedding, tf.expand_dims(relation, 1))
    t = tf.nn.embedding_lookup(entity_embedding, tf.expand_dims(tail, 1))
    n = tf.nn.embedding_lookup(entity_embedding, negatives)
    at_head = tf.reshape(corrupt_head, [-1, 1, 1])
    positive_score = rotate(h, r, t)
    negative_score = rotate(at_head * n + (1 - at_head) * h, r, at_head * t + (1 - at_head) * n)

    adversarial = tf.stop_gradient(tf.nn.softmax(negative_score * TEMPERATURE, axis=1))
    negative = tf.reduce_sum(adversarial * tf.log_sigmoid(-negative_score), axis=1)
    positive = tf.squeeze(tf.log_sigmoid(positive_score), axis=1)
    positive_loss = -tf.reduce_sum(subsampling * positive) / tf.reduce_sum(subsampling)
    negative_loss = -tf.reduce_sum(subsampling * negative) / tf.reduce_sum(subsampling)
    loss = (positive_loss + negative_loss) / 2
    penalty = tf.reduce_sum(tf.abs(entity_embedding) ** 3) + tf.reduce_sum(tf.abs(relation_embedding) ** 3)
    return loss + REGULARIZATION * penalty, {
        "positive_score": positive_score, "negative_score": negative_score,
        "positive_loss": positive_loss, "negative_loss": negative_loss}
