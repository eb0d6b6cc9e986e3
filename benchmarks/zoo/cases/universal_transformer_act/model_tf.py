"""Universal transformer: one layer applied again and again, and adaptive computation time, which halts every position by itself."""
import math

import tensorflow.compat.v1 as tf

VOCAB, HIDDEN, FILTER, HEADS = 18, 16, 28, 2
ACT_MAX_STEPS, ACT_EPSILON, ACT_LOSS_WEIGHT, ACT_BIAS_INIT = 4, 0.01, 0.05, -0.3
LABEL_SMOOTHING = 0.1


def timing_signal(position, channels, max_timescale=1.0e4):
    """position [n] -> [n, channels]: the sines in front, the cosines behind"""
    num_timescales = channels // 2
    increment = math.log(max_timescale) / (num_timescales - 1)
    inv_timescales = tf.exp(tf.cast(tf.range(num_timescales), position.dtype) * -increment)
    scaled_time = tf.expand_dims(position, 1) * tf.expand_dims(inv_timescales, 0)
    return tf.concat([tf.sin(scaled_time), tf.cos(scaled_time)], axis=1)


def step_preprocess(x, step):
    length = tf.shape(x)[1]
    x += tf.expand_dims(timing_signal(tf.cast(tf.range(length), x.dtype), HIDDEN), 0)
    x += tf.expand_dims(timing_signal(tf.reshape(tf.cast(step, x.dtype), [1]), HIDDEN), 0)
    return x


def layer_norm(x, name, epsilon=1e-6):
    with tf.variable_scope(name):
        scale = tf.get_variable("layer_norm_scale", [HIDDEN], x.dtype, initializer=tf.ones_initializer())
        bias = tf.get_variable("layer_norm_bias", [HIDDEN], x.dtype, initializer=tf.zeros_initializer())
        mean = tf.reduce_mean(x, axis=-1, keepdims=True)
        variance = tf.reduce_mean(tf.squared_difference(x, mean), axis=-1, keepdims=True)
        return (x - mean) * tf.rsqrt(variance + epsilon) * scale + bias


def dense(x, units, name, **kwargs):
    return tf.layers.dense(x, units, name=name, **kwargs)


def split_heads(x):
    shape = tf.shape(x)
    return tf.transpose(tf.reshape(x, [shape[0], shape[1], HEADS, HIDDEN // HEADS]), [0, 2, 1, 3])


def combine_heads(x):
    x = tf.transpose(x, [0, 2, 1, 3])
    shape = tf.shape(x)
    return tf.reshape(x, [shape[0], shape[1], HIDDEN])


def multihead_attention(x, bias):
    with tf.variable_scope("multihead_attention"):
        q = split_heads(dense(x, HIDDEN, "q", use_bias=False))
        k = split_heads(dense(x, HIDDEN, "k", use_bias=False))
        v = split_heads(dense(x, HIDDEN, "v", use_bias=False))
        q *= (HIDDEN // HEADS) ** -0.5
        weights = tf.nn.softmax(tf.matmul(q, k, transpose_b=True) + bias, name="attention_weights")
        return dense(combine_heads(tf.matmul(weights, v)), HIDDEN, "output_transform", use_bias=False)


def universal_transformer_layer(x, bias):
    with tf.variable_scope("self_attention"):
        x += multihead_attention(layer_norm(x, "layer_prepostprocess"), bias)
    with tf.variable_scope("ffn"):
        h = layer_norm(x, "layer_prepostprocess")
        h = dense(h, FILTER, "conv1", activation=tf.nn.relu)
        x += dense(h, HIDDEN, "conv2")
    return x


def universal_transformer_act(x, bias):
    dtype = x.dtype
    threshold = 1.0 - ACT_EPSILON
    zeros = tf.zeros(tf.shape(x)[:2], dtype)

    def should_continue(step, state, halting, remainders, n_updates, accumulated):
        return tf.reduce_any(tf.logical_and(halting < threshold, n_updates < ACT_MAX_STEPS))

    def ut_step(step, state, halting, remainders, n_updates, accumulated):
        state = step_preprocess(state, step)
        with tf.variable_scope("sigmoid_activation_for_pondering"):
            p = tf.layers.dense(state, 1, activation=tf.nn.sigmoid, bias_initializer=tf.constant_initializer(ACT_BIAS_INIT), name="p")
            p = tf.squeeze(p, -1)
        still_running = tf.cast(halting < 1.0, dtype)
        total = halting + p * still_running
        new_halted = tf.cast(total > threshold, dtype) * still_running
        still_running = tf.cast(total <= threshold, dtype) * still_running
        halting += p * still_running
        remainders += new_halted * (1 - halting)
        halting += new_halted * remainders
        n_updates += still_running + new_halted
        update_weights = tf.expand_dims(p * still_running + new_halted * remainders, -1)
        state = universal_transformer_layer(state, bias)
        accumulated += state * update_weights
        return step + 1, state, halting, remainders, n_updates, accumulated

    loop = tf.while_loop(should_continue, ut_step, [tf.constant(0), x, zeros, zeros, zeros, tf.zeros_like(x)])
    return loop[5], loop[4], loop[3]


def padded_cross_entropy(logits, labels, weights):
    confidence = 1.0 - LABEL_SMOOTHING
    low_confidence = LABEL_SMOOTHING / (VOCAB - 1)
    normalizing = -(confidence * math.log(confidence) + (VOCAB - 1) * low_confidence * math.log(low_confidence + 1e-20))
    soft_targets = tf.one_hot(labels, depth=VOCAB, on_value=confidence, off_value=low_confidence, dtype=logits.dtype)
    xentropy = tf.nn.softmax_cross_entropy_with_logits_v2(logits=logits, labels=tf.stop_gradient(soft_targets))
    return tf.reduce_sum((xentropy - normalizing) * weights) / tf.reduce_sum(weights)


def tower(inputs, targets, weights):
    dtype = weights.dtype
    with tf.variable_scope("universal_transformer"):
        with tf.variable_scope("symbol_modality"):
            emb = tf.get_variable("weights", [VOCAB, HIDDEN], dtype, initializer=tf.random_normal_initializer(0.0, HIDDEN ** -0.5, dtype=dtype))
        x = tf.gather(emb, inputs) * HIDDEN ** 0.5
        x *= tf.expand_dims(tf.cast(tf.not_equal(inputs, 0), dtype), -1)
        padding = tf.cast(tf.equal(inputs, 0), dtype)
        bias = tf.expand_dims(tf.expand_dims(padding * -1e9, 1), 1)
        with tf.variable_scope("encoder"):
            x, n_updates, remainders = universal_transformer_act(x, bias)
            x = layer_norm(x, "output_norm")
        logits = tf.reshape(tf.matmul(tf.reshape(x, [-1, HIDDEN]), emb, transpose_b=True), [-1, tf.shape(inputs)[1], VOCAB])
    act_loss = ACT_LOSS_WEIGHT * tf.reduce_mean(n_updates + remainders)
    loss = padded_cross_entropy(logits, targets, weights) + act_loss
    return loss, {"encoded": x, "logits": logits, "act_loss": act_loss, "ponder_times": tf.reduce_mean(n_updates)}
