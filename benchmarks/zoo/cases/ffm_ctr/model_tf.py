"""Field-aware factorization machine: each feature has one latent vector for every other field."""
import numpy as np
import tensorflow.compat.v1 as tf

FIELD_SIZES = [8, 10, 12, 6, 5, 9]  # the last are the tags
N_FIELDS = len(FIELD_SIZES)
N_FEATURES = sum(FIELD_SIZES)
K = 4
REG = 2e-3


def inference(fields, values, tags, tag_mask):
    dtype = values.dtype
    offsets = np.concatenate([[0], np.cumsum(FIELD_SIZES)[:-1]]).astype(np.int32)
    feats = fields + offsets[None, :-1]
    tag_feats = tags + offsets[-1]
    # instance-wise normalisation, as libffm does
    values = values * tf.rsqrt(tf.reduce_sum(tf.square(values), axis=1, keepdims=True))

    with tf.variable_scope("linear_layer"):
        w0 = tf.get_variable("w0", [1], dtype, initializer=tf.zeros_initializer())
        w = tf.get_variable("w", [N_FEATURES, 1], dtype, initializer=tf.truncated_normal_initializer(stddev=0.02))
        tag_share = tag_mask / tf.reduce_sum(tag_mask, axis=1, keepdims=True)
        linear = tf.reduce_sum(tf.squeeze(tf.nn.embedding_lookup(w, feats), 2) * values, axis=1)
        linear += tf.reduce_sum(tf.squeeze(tf.nn.embedding_lookup(w, tag_feats), 2) * tag_share, axis=1)
        linear += w0

    with tf.variable_scope("field_aware_interaction_layer"):
        v = tf.get_variable("v", [N_FEATURES, N_FIELDS, K], dtype,
                            initializer=tf.truncated_normal_initializer(stddev=0.2))
        single = tf.nn.embedding_lookup(v, feats)
        several = tf.nn.embedding_lookup(v, tag_feats)
        tag_vector = tf.reduce_sum(several * tag_share[:, :, None, None], axis=1, keepdims=True)
        latent = tf.concat([single * values[:, :, None, None], tag_vector], axis=1)
        interactions = []
        for i in range(N_FIELDS):
            for j in range(i + 1, N_FIELDS):
                interactions.append(tf.reduce_sum(latent[:, i, j] * latent[:, j, i], axis=1))
        interaction = tf.add_n(interactions)
    return linear, latent, interaction, tf.nn.l2_loss(single)


def tower(fields, values, tags, tag_mask, clicked, importance):
    linear, latent, interaction, l2 = inference(fields, values, tags, tag_mask)
    logits = linear + interaction
    y = 2.0 * clicked - 1.0
    log_loss = tf.reduce_sum(importance * tf.log(1.0 + tf.exp(-y * logits)))
    loss = log_loss + REG * l2
    return loss, {"linear": linear, "latent": latent, "interaction": interaction, "logits": logits,
                  "log_loss": log_loss}
