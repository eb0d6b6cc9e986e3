"""Semantic role labelling with deep self-attention (DeepAtt): every layer is a feed-forward sub-layer and then a self-attention
sub-layer, each with a residual and layer normalisation behind it."""
import math

import tensorflow.compat.v1 as tf

VOCAB_SIZE = 53
LABEL_SIZE = 9
FEATURE_SIZE = 16
HIDDEN_SIZE = 32
FILTER_SIZE = 48
NUM_HEADS = 4
NUM_LAYERS = 2
LABEL_SMOOTHING = 0.1


def linear(inputs, output_size, scope):
    with tf.variable_scope(scope):
        input_size = inputs.get_shape().as_list()[-1]
        matrix = tf.get_variable("matrix", [input_size, output_size], inputs.dtype,
                                 initializer=tf.glorot_uniform_initializer(dtype=inputs.dtype))
        bias = tf.get_variable("bias", [output_size], inputs.dtype, initializer=tf.zeros_initializer())
        output = tf.matmul(tf.reshape(inputs, [-1, input_size]), matrix)
        output = tf.reshape(output, tf.concat([tf.shape(inputs)[:-1], [output_size]], axis=0))
        output.set_shape(inputs.get_shape().as_list()[:-1] + [output_size])
        return tf.nn.bias_add(output, bias)


def layer_norm(inputs, epsilon=1e-6):
    with tf.variable_scope("layer_norm"):
        size = inputs.get_shape().as_list()[-1]
        scale = tf.get_variable("scale", [size], inputs.dtype, initializer=tf.ones_initializer())
        offset = tf.get_variable("offset", [size], inputs.dtype, initializer=tf.zeros_initializer())
        mean = tf.reduce_mean(inputs, axis=-1, keepdims=True)
        variance = tf.reduce_mean(tf.square(inputs - mean), axis=-1, keepdims=True)
        return (inputs - mean) * tf.rsqrt(variance + epsilon) * scale + offset


def split_heads(x):
    length, size = x.get_shape().as_list()[1:]
    x = tf.reshape(x, [-1, length, NUM_HEADS, size // NUM_HEADS])
    return tf.transpose(x, [0, 2, 1, 3])


def multihead_attention(x, bias):
    with tf.variable_scope("multihead_attention"):
        combined = linear(x, 3 * HIDDEN_SIZE, "qkv_transform")
        q, k, v = [split_heads(part) for part in tf.split(combined, 3, axis=-1)]
        q *= (HIDDEN_SIZE // NUM_HEADS) ** -0.5
        weights = tf.nn.softmax(tf.matmul(q, k, transpose_b=True) + bias, name="attention_weights")
        heads = tf.transpose(tf.matmul(weights, v), [0, 2, 1, 3])
        heads = tf.reshape(heads, [-1, x.get_shape().as_list()[1], HIDDEN_SIZE])
        return linear(heads, HIDDEN_SIZE, "output_transform")


def ffn_layer(x):
    with tf.variable_scope("ffn_layer"):
        hidden = tf.nn.relu(linear(x, FILTER_SIZE, "input_layer"))
        return linear(hidden, HIDDEN_SIZE, "output_layer")


def add_timing_signal(x, min_timescale=1.0, max_timescale=1.0e4):
    _, length, channels = x.get_shape().as_list()
    position = tf.cast(tf.range(length), x.dtype)
    num_timescales = channels // 2
    increment = math.log(max_timescale / min_timescale) / (num_timescales - 1)
    inv_timescales = min_timescale * tf.exp(tf.cast(tf.range(num_timescales), x.dtype) * -increment)
    scaled_time = tf.expand_dims(position, 1) * tf.expand_dims(inv_timescales, 0)
    signal = tf.concat([tf.sin(scaled_time), tf.cos(scaled_time)], axis=1)
    return x + tf.reshape(signal, [1, length, channels])


def smoothed_softmax_cross_entropy(logits, labels, label_smoothing):
    """The smoothed mass goes to the other classes only; the least value that can be reached is taken off."""
    n = float(LABEL_SIZE - 1)
    p = 1.0 - label_smoothing
    q = label_smoothing / n
    soft_targets = tf.one_hot(labels, depth=LABEL_SIZE, on_value=tf.constant(p, logits.dtype),
                              off_value=tf.constant(q, logits.dtype), dtype=logits.dtype)
    xentropy = tf.nn.softmax_cross_entropy_with_logits(logits=logits, labels=soft_targets)
    normalizing = -(p * math.log(p) + n * q * math.log(q + 1e-20))
    return xentropy - normalizing


def tower(tokens, preds, mask, targets):
    dtype = mask.dtype
    with tf.variable_scope("deepatt"):
        init = tf.random_normal_initializer(0.0, FEATURE_SIZE ** -0.5, dtype=dtype)
        weights = tf.get_variable("weights", [2, FEATURE_SIZE], dtype, initializer=init)
        embedding = tf.get_variable("embedding", [VOCAB_SIZE, FEATURE_SIZE], dtype, initializer=init)
        bias = tf.get_variable("bias", [HIDDEN_SIZE], dtype, initializer=tf.zeros_initializer())
        inputs = tf.concat([tf.gather(embedding, tokens), tf.gather(weights, preds)], -1)
        inputs = inputs * (HIDDEN_SIZE ** 0.5)
        inputs = inputs * tf.expand_dims(mask, -1)
        x = add_timing_signal(tf.nn.bias_add(inputs, bias))
        attn_bias = tf.expand_dims(tf.expand_dims((1.0 - mask) * -1e9, 1), 1)
        with tf.variable_scope("encoder"):
            for layer in range(NUM_LAYERS):
                with tf.variable_scope("layer_%d" % layer):
                    with tf.variable_scope("computation"):
                        x = layer_norm(x + ffn_layer(x))
                    with tf.variable_scope("self_attention"):
                        x = layer_norm(x + multihead_attention(x, attn_bias))
        with tf.variable_scope("prediction"):
            logits = linear(x, LABEL_SIZE, "logits")
        ce = smoothed_softmax_cross_entropy(tf.reshape(logits, [-1, LABEL_SIZE]), tf.reshape(targets, [-1]), LABEL_SMOOTHING)
        ce = tf.reshape(ce, tf.shape(targets))
        cost = tf.reduce_sum(ce * mask) / tf.reduce_sum(mask)
    return cost, {"encoder": x, "logits": logits}
