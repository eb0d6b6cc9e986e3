"""Two towers with the softmax over the batch, corrected for how often a video is drawn. Layers after contrib's: batch norm without
scale behind fully connected layers without bias."""
import tensorflow.compat.v1 as tf
from tensorflow.python.training import moving_averages

EMBEDDING_DIM = 8
AGES, COUNTRIES, VIDEOS, CHANNELS = 7, 12, 61, 15
USER_UNITS, VIDEO_UNITS = [24, 12], [20, 12]
TEMPERATURE = 0.2
BN_DECAY, BN_EPSILON = 0.9, 1e-3
L2 = 1e-3


def get_table(name, rows, dtype):
    return tf.get_variable(name, [rows, EMBEDDING_DIM], dtype, tf.uniform_unit_scaling_initializer(factor=3.0, dtype=dtype))


def batch_norm(x, is_training, scope):
    with tf.variable_scope(scope):
        size = x.get_shape().as_list()[-1:]
        beta = tf.get_variable("beta", size, x.dtype, tf.zeros_initializer())
        moving_mean = tf.get_variable("moving_mean", size, x.dtype, tf.zeros_initializer(), trainable=False)
        moving_variance = tf.get_variable("moving_variance", size, x.dtype, tf.ones_initializer(), trainable=False)
        if not is_training:
            return tf.nn.batch_normalization(x, moving_mean, moving_variance, beta, None, BN_EPSILON)
        mean, variance = tf.nn.moments(x, [0])
        decay = tf.constant(BN_DECAY, x.dtype)
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS,
                             moving_averages.assign_moving_average(moving_mean, mean, decay, zero_debias=False))
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS,
                             moving_averages.assign_moving_average(moving_variance, variance, decay, zero_debias=False))
        return tf.nn.batch_normalization(x, mean, variance, beta, None, BN_EPSILON)


def fully_connected(x, units, is_training, scope, normalise=True):
    with tf.variable_scope(scope):
        weights = tf.get_variable("weights", [x.get_shape().as_list()[-1], units], x.dtype,
                                  tf.glorot_normal_initializer(dtype=x.dtype))
        x = tf.matmul(x, weights)
        if normalise:
            return tf.nn.relu(batch_norm(x, is_training, "BatchNorm"))
        return tf.nn.bias_add(x, tf.get_variable("biases", [units], x.dtype, tf.zeros_initializer()))


def tower_of(x, units, is_training, scope):
    with tf.variable_scope(scope):
        for i, n in enumerate(units[:-1]):
            x = fully_connected(x, n, is_training, "fully_connected_{}".format(i))
        x = fully_connected(x, units[-1], is_training, "output", normalise=False)
        return tf.nn.l2_normalize(x, axis=1)


def tower(user, history, numbers, video, length, sampling_p, training=True):
    dtype = numbers.dtype
    with tf.variable_scope("embeddings"):
        age_table = get_table("age", AGES, dtype)
        country_table = get_table("country", COUNTRIES, dtype)
        video_table = get_table("video", VIDEOS, dtype)
        channel_table = get_table("channel", CHANNELS, dtype)

    watched = tf.cast(tf.not_equal(history, 0), dtype)
    watched_emb = tf.nn.embedding_lookup(video_table, history) * tf.expand_dims(watched, -1)
    watched_mean = tf.reduce_sum(watched_emb, 1) / tf.reduce_sum(watched, 1, keepdims=True)
    dense = batch_norm(numbers, training, "numbers_norm")
    user_input = tf.concat([tf.nn.embedding_lookup(age_table, user[:, 0]), tf.nn.embedding_lookup(country_table, user[:, 1]),
                            watched_mean, dense, tf.square(dense)], axis=1)
    user_emb = tower_of(user_input, USER_UNITS, training, "user_tower")

    video_input = tf.concat([tf.nn.embedding_lookup(video_table, video[:, 0]), tf.nn.embedding_lookup(channel_table, video[:, 1]),
                             tf.log1p(length)], axis=1)
    video_emb = tower_of(video_input, VIDEO_UNITS, training, "video_tower")

    scores = tf.matmul(user_emb, video_emb, transpose_b=True) / TEMPERATURE
    logits = scores - tf.expand_dims(tf.log(sampling_p), 0)
    labels = tf.range(tf.shape(logits)[0])
    xent = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    decayed = [v for v in tf.trainable_variables() if v.op.name.endswith("weights")]
    l2 = L2 * tf.add_n([tf.nn.l2_loss(v) for v in decayed])
    return xent + l2, {"user_emb": user_emb, "video_emb": video_emb, "scores": scores, "xent": xent}
