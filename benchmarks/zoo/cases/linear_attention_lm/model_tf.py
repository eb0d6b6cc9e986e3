"""Language model whose causal attention is a running sum over a kernel's features, linear in the length."""
import math

import numpy as np
import tensorflow.compat.v1 as tf

VOCAB = 36
MAX_LEN = 14
HIDDEN = 24
NUM_HEADS = 3
NUM_LAYERS = 2
FILTER = 48
EPS = 1e-6


def dense(x, units, scope, use_bias=True):
    with tf.variable_scope(scope):
        n_in = x.shape.as_list()[-1]
        w = tf.get_variable("weights", [n_in, units], x.dtype, initializer=tf.glorot_uniform_initializer())
        y = tf.tensordot(x, w, axes=[[x.shape.ndims - 1], [0]])
        if use_bias:
            y = tf.nn.bias_add(y, tf.get_variable("biases", [units], x.dtype, initializer=tf.zeros_initializer()))
        return y


def layer_norm(x, scope):
    with tf.variable_scope(scope):
        gamma = tf.get_variable("gamma", [HIDDEN], x.dtype, initializer=tf.ones_initializer())
        beta = tf.get_variable("beta", [HIDDEN], x.dtype, initializer=tf.zeros_initializer())
        mean, variance = tf.nn.moments(x, [-1], keep_dims=True)
        return (x - mean) / tf.sqrt(variance + 1e-5) * gamma + beta


def gelu(x):
    return x * 0.5 * (1.0 + tf.erf(x / math.sqrt(2.0)))


def kernel_feature_map(x):
    return tf.nn.elu(x) + 1.0


def causal_linear_attention(x, mask, scope):
    """phi(q) . sum of phi(k) v over the past, over phi(q) . sum of phi(k)."""
    with tf.variable_scope(scope):
        head_size = HIDDEN // NUM_HEADS
        q, k, v = [tf.reshape(dense(x, HIDDEN, name, use_bias=False), [-1, MAX_LEN, NUM_HEADS, head_size])
                   for name in ("query_transform", "key_transform", "value_transform")]
        q = kernel_feature_map(q)
        k = kernel_feature_map(k) * mask[:, :, None, None]
        kv = tf.cumsum(tf.einsum("bthd,bthe->bthde", k, v), axis=1)
        numerator = tf.einsum("bthd,bthde->bthe", q, kv)
        denominator = tf.reduce_sum(q * tf.cumsum(k, axis=1), axis=-1, keepdims=True) + EPS
        return dense(tf.reshape(numerator / denominator, [-1, MAX_LEN, HIDDEN]), HIDDEN, "output_transform")


def tower(tokens, labels, mask):
    dtype = mask.dtype
    endpoints = {}
    with tf.variable_scope("model", initializer=tf.random_normal_initializer(0.0, 0.1)):
        table = tf.get_variable("embedding", [VOCAB, HIDDEN], dtype)
        positions = tf.get_variable("position_embedding", [MAX_LEN, HIDDEN], dtype)
        x = tf.nn.embedding_lookup(table, tokens) + positions
        for i in range(NUM_LAYERS):
            with tf.variable_scope("layer_%d" % i):
                x += causal_linear_attention(layer_norm(x, "attention_norm"), mask, "attention")
                y = dense(layer_norm(x, "ffn_norm"), FILTER, "filter")
                x += dense(gelu(y), HIDDEN, "projection")
            endpoints["layer_%d" % i] = x
        x = layer_norm(x, "output_norm")
        softmax_b = tf.get_variable("softmax_b", [VOCAB], dtype, initializer=tf.zeros_initializer())
        logits = tf.reshape(tf.matmul(tf.reshape(x, [-1, HIDDEN]), table, transpose_b=True) + softmax_b,
                            [-1, MAX_LEN, VOCAB])
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    loss = tf.reduce_sum(losses * mask) / tf.reduce_sum(mask)
    endpoints["logits"] = logits
    return loss, endpoints
