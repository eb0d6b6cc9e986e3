"""FastSpeech, after the kind of TensorFlow text-to-speech repositories that have transformer blocks of tensor2tensor's layers.

Blocks of self attention and two 1-D convolutions, a duration predictor on detached states, an expansion of the states by the
given durations as a product with an alignment matrix, a small postnet.
"""
import numpy as np
import tensorflow.compat.v1 as tf

VOCABULARY = 40
HIDDEN = 24
HEADS = 2
FILTER = 36
DURATION_FILTER = 20
MELS = 10
POSTNET = 18


def timing_signal(length, channels, dtype):
    position = np.arange(length)
    num_timescales = channels // 2
    log_increment = np.log(10000.0) / (num_timescales - 1)
    inv_timescales = np.exp(np.arange(num_timescales) * -log_increment)
    scaled_time = position[:, None] * inv_timescales[None, :]
    signal = np.concatenate([np.sin(scaled_time), np.cos(scaled_time)], axis=1)
    return tf.constant(signal[None], dtype)


def layer_norm(x, name, epsilon=1e-6):
    with tf.variable_scope(name):
        filters = x.shape.as_list()[-1]
        scale = tf.get_variable("layer_norm_scale", [filters], x.dtype, initializer=tf.ones_initializer())
        bias = tf.get_variable("layer_norm_bias", [filters], x.dtype, initializer=tf.zeros_initializer())
        mean = tf.reduce_mean(x, axis=-1, keepdims=True)
        variance = tf.reduce_mean(tf.squared_difference(x, mean), axis=-1, keepdims=True)
        return (x - mean) * tf.rsqrt(variance + epsilon) * scale + bias


def split_heads(x):
    length, channels = x.shape.as_list()[1:]
    return tf.transpose(tf.reshape(x, [-1, length, HEADS, channels // HEADS]), [0, 2, 1, 3])


def multihead_attention(x, bias, name):
    length = x.shape.as_list()[1]
    with tf.variable_scope(name):
        q = split_heads(tf.layers.dense(x, HIDDEN, name="q"))
        k = split_heads(tf.layers.dense(x, HIDDEN, name="k"))
        v = split_heads(tf.layers.dense(x, HIDDEN, name="v"))
        q *= (HIDDEN // HEADS) ** -0.5
        weights = tf.nn.softmax(tf.matmul(q, k, transpose_b=True) + bias, name="attention_weights")
        x = tf.reshape(tf.transpose(tf.matmul(weights, v), [0, 2, 1, 3]), [-1, length, HIDDEN])
        return tf.layers.dense(x, HIDDEN, name="output_transform")


def fft_block(x, mask, name):
    attention_bias = ((1.0 - mask) * -1e9)[:, None, None, :]
    with tf.variable_scope(name):
        x = layer_norm(x + multihead_attention(x, attention_bias, "self_attention"), "norm_1")
        x *= mask[:, :, None]
        with tf.variable_scope("ffn"):
            y = tf.layers.conv1d(x, FILTER, 3, padding="same", activation=tf.nn.relu, name="conv1")
            y = tf.layers.conv1d(y, HIDDEN, 3, padding="same", name="conv2")
        x = layer_norm(x + y, "norm_2")
        return x * mask[:, :, None]


def duration_predictor(x, mask):
    with tf.variable_scope("duration_predictor"):
        x = tf.stop_gradient(x)
        for i in range(2):
            x = tf.layers.conv1d(x, DURATION_FILTER, 3, padding="same", name="conv_%d" % i)
            x = layer_norm(tf.nn.relu(x), "norm_%d" % i)
        return tf.squeeze(tf.layers.dense(x, 1, name="projection"), -1) * mask


def length_regulator(x, durations, frames):
    ends = tf.cumsum(durations, axis=1)
    alignment = tf.sequence_mask(ends, frames, x.dtype) - tf.sequence_mask(ends - durations, frames, x.dtype)
    return tf.matmul(alignment, x, transpose_a=True)


def tower(phonemes, durations, mels):
    dtype = mels.dtype
    frames = mels.shape.as_list()[1]
    length = phonemes.shape.as_list()[1]
    mask = tf.cast(tf.not_equal(phonemes, 0), dtype)
    mel_mask = tf.sequence_mask(tf.reduce_sum(durations, axis=1), frames, dtype)

    with tf.variable_scope("encoder"):
        table = tf.get_variable("phoneme_embedding", [VOCABULARY, HIDDEN], dtype,
                                initializer=tf.random_normal_initializer(stddev=HIDDEN ** -0.5))
        x = tf.nn.embedding_lookup(table, phonemes) * HIDDEN ** 0.5
        x = (x + timing_signal(length, HIDDEN, dtype)) * mask[:, :, None]
        for i in range(2):
            x = fft_block(x, mask, "layer_%d" % i)
    encoded = x
    log_durations = duration_predictor(x, mask)
    expanded = length_regulator(x, durations, frames)
    with tf.variable_scope("decoder"):
        x = (expanded + timing_signal(frames, HIDDEN, dtype)) * mel_mask[:, :, None]
        x = fft_block(x, mel_mask, "layer_0")
        before = tf.layers.dense(x, MELS, name="mel_projection")
    with tf.variable_scope("postnet"):
        y = tf.layers.conv1d(before, POSTNET, 5, padding="same", activation=tf.nn.tanh, name="conv_0")
        after = before + tf.layers.conv1d(y, MELS, 5, padding="same", name="conv_1")

    with tf.variable_scope("losses"):
        weight = tf.broadcast_to(mel_mask[:, :, None], tf.shape(mels))
        mel_before = tf.reduce_sum(tf.abs(before - mels) * weight) / tf.reduce_sum(weight)
        mel_after = tf.reduce_sum(tf.abs(after - mels) * weight) / tf.reduce_sum(weight)
        target = tf.log(tf.cast(durations, dtype) + 1.0)
        duration = tf.reduce_sum(tf.squared_difference(log_durations, target) * mask) / tf.reduce_sum(mask)
        loss = mel_before + mel_after + duration
    return loss, {"encoded": encoded, "log_durations": log_durations, "expanded": expanded, "mel_before": before,
                  "mel_after": after, "mel_loss": mel_before + mel_after, "duration_loss": duration}
