"""Encoder with T5's relative positions, root mean square norm and gated gelu, trained to fill in masked tokens."""
import math

import numpy as np
import tensorflow.compat.v1 as tf

VOCAB_SIZE = 60
D_MODEL = 32
D_KV = 8
D_FF = 48
NUM_HEADS = 4
NUM_LAYERS = 2
NUM_BUCKETS = 8
MAX_DISTANCE = 16
Z_LOSS = 1e-3
LOSS_DENOMINATOR = 64.0


def rms_norm(x, name, epsilon=1e-6):
    with tf.variable_scope(name):
        scale = tf.get_variable("scale", [x.shape.as_list()[-1]], x.dtype, initializer=tf.ones_initializer())
        return x * tf.rsqrt(tf.reduce_mean(tf.square(x), axis=-1, keepdims=True) + epsilon) * scale


def dense(x, units, name, stddev):
    return tf.layers.dense(x, units, use_bias=False, kernel_initializer=tf.random_normal_initializer(stddev=stddev),
                           name=name)


def gelu(x):
    return 0.5 * x * (1.0 + tf.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * tf.pow(x, 3))))


def relative_position_bucket(relative_position):
    """Half of the buckets for each direction: one for each small distance, then growing ones up to MAX_DISTANCE."""
    num_buckets = NUM_BUCKETS // 2
    n = -relative_position
    ret = tf.cast(n < 0, tf.int32) * num_buckets
    n = tf.abs(n)
    max_exact = num_buckets // 2
    large = max_exact + tf.cast(
        tf.log(tf.cast(tf.maximum(n, 1), tf.float32) / max_exact) / math.log(MAX_DISTANCE / max_exact)
        * (num_buckets - max_exact), tf.int32)
    return ret + tf.where(n < max_exact, n, tf.minimum(large, num_buckets - 1))


def position_bias(length, dtype):
    positions = tf.range(length)
    bucket = relative_position_bucket(positions[None, :] - positions[:, None])  # memory - query
    table = tf.get_variable("relative_attention_bias", [NUM_BUCKETS, NUM_HEADS], dtype,
                            initializer=tf.random_normal_initializer(stddev=0.5))
    return tf.transpose(tf.gather(table, bucket), [2, 0, 1])[None]


def split_heads(x, length):
    return tf.transpose(tf.reshape(x, [-1, length, NUM_HEADS, D_KV]), [0, 2, 1, 3])


def self_attention(x, bias, name):
    length = x.shape.as_list()[1]
    with tf.variable_scope(name):
        q = split_heads(dense(x, NUM_HEADS * D_KV, "q", (D_MODEL * D_KV) ** -0.5), length)
        k = split_heads(dense(x, NUM_HEADS * D_KV, "k", D_MODEL ** -0.5), length)
        v = split_heads(dense(x, NUM_HEADS * D_KV, "v", D_MODEL ** -0.5), length)
        # the logits are not scaled: the initialisation of q has the factor
        probs = tf.nn.softmax(tf.matmul(q, k, transpose_b=True) + bias)
        y = tf.reshape(tf.transpose(tf.matmul(probs, v), [0, 2, 1, 3]), [-1, length, NUM_HEADS * D_KV])
        return dense(y, D_MODEL, "o", (NUM_HEADS * D_KV) ** -0.5)


def gated_feed_forward(x, name):
    with tf.variable_scope(name):
        hidden = gelu(dense(x, D_FF, "wi_0", D_MODEL ** -0.5)) * dense(x, D_FF, "wi_1", D_MODEL ** -0.5)
        return dense(hidden, D_MODEL, "wo", D_FF ** -0.5)


def tower(inputs, targets, weights):
    dtype = weights.dtype
    length = inputs.shape.as_list()[1]
    end_points = {}
    with tf.variable_scope("shared"):
        embedding = tf.get_variable("embedding", [VOCAB_SIZE, D_MODEL], dtype,
                                    initializer=tf.random_normal_initializer(stddev=1.0))
    with tf.variable_scope("encoder"):
        padding = tf.cast(tf.equal(inputs, 0), dtype)
        bias = position_bias(length, dtype) + padding[:, None, None, :] * -1e9
        x = tf.gather(embedding, inputs)
        for i in range(NUM_LAYERS):
            with tf.variable_scope("block_%03d" % i):
                x += self_attention(rms_norm(x, "layer_norm_attention"), bias, "SelfAttention")
                x += gated_feed_forward(rms_norm(x, "layer_norm_ff"), "DenseGatedGelu")
            end_points["block_%d" % i] = x
        x = rms_norm(x, "final_layer_norm")
    logits = tf.matmul(tf.reshape(x * D_MODEL ** -0.5, [-1, D_MODEL]), embedding, transpose_b=True)
    logits = tf.reshape(logits, [-1, length, VOCAB_SIZE])
    log_z = tf.reduce_logsumexp(logits, axis=-1)
    xent = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=targets, logits=logits)
    loss = tf.reduce_sum((xent + Z_LOSS * tf.square(log_z)) * weights) / LOSS_DENOMINATOR
    end_points["logits"] = logits
    return loss, end_points
