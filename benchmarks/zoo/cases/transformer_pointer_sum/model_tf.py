"""Transformer that writes or copies: attention is all you need, with the pointer of get to the point on top."""
import math

import numpy as np
import tensorflow.compat.v1 as tf

VOCAB, EXTRA = 40, 3
D, HEADS, FFN = 24, 2, 48
UNKNOWN = 2
TOKENS_PER_BATCH = 64.0


def layer_norm(x, scope):
    with tf.variable_scope(scope):
        scale = tf.get_variable("layer_norm_scale", [D], x.dtype, initializer=tf.ones_initializer())
        bias = tf.get_variable("layer_norm_bias", [D], x.dtype, initializer=tf.zeros_initializer())
        mean = tf.reduce_mean(x, axis=[-1], keepdims=True)
        variance = tf.reduce_mean(tf.square(x - mean), axis=[-1], keepdims=True)
        return (x - mean) * tf.rsqrt(variance + 1e-6) * scale + bias


def timing_signal(length, channels):
    position = np.arange(length)
    num_timescales = channels // 2
    increment = math.log(1e4) / (num_timescales - 1)
    scaled = position[:, None] * np.exp(np.arange(num_timescales) * -increment)[None, :]
    return np.concatenate([np.sin(scaled), np.cos(scaled)], axis=1)


def split_heads(x):
    return tf.transpose(tf.reshape(x, [-1, x.shape.as_list()[1], HEADS, D // HEADS]), [0, 2, 1, 3])


def combine_heads(x):
    x = tf.transpose(x, [0, 2, 1, 3])
    return tf.reshape(x, [-1, x.shape.as_list()[1], D])


def multihead_attention(query, memory, bias, scope):
    """Returns what is read and the weights of all heads."""
    with tf.variable_scope(scope):
        q = split_heads(tf.layers.dense(query, D, use_bias=False, name="q")) * (D // HEADS) ** -0.5
        k = split_heads(tf.layers.dense(memory, D, use_bias=False, name="k"))
        v = split_heads(tf.layers.dense(memory, D, use_bias=False, name="v"))
        weights = tf.nn.softmax(tf.matmul(q, k, transpose_b=True) + bias)
        x = combine_heads(tf.matmul(weights, v))
        return tf.layers.dense(x, D, use_bias=False, name="output_transform"), weights


def ffn(x, scope):
    with tf.variable_scope(scope):
        return tf.layers.dense(tf.layers.dense(x, FFN, activation=tf.nn.relu, name="conv1"), D, name="conv2")


def embed(ids, table):
    length = ids.shape.as_list()[1]
    ids = tf.where(ids >= VOCAB, tf.fill(tf.shape(ids), UNKNOWN), ids)
    x = tf.gather(table, ids) * D ** 0.5
    # padding has no embedding
    x *= tf.expand_dims(tf.cast(tf.not_equal(ids, 0), table.dtype), -1)
    return x + tf.constant(timing_signal(length, D), table.dtype)


def tower(article, inputs, targets, weights):
    dtype = weights.dtype
    source_length, target_length = article.shape.as_list()[1], inputs.shape.as_list()[1]
    with tf.variable_scope("transformer"):
        table = tf.get_variable("symbol_modality/weights", [VOCAB, D], dtype,
                                initializer=tf.random_normal_initializer(0.0, D ** -0.5))
        padding = tf.cast(tf.equal(article, 0), dtype) * -1e9
        padding = padding[:, None, None, :]
        with tf.variable_scope("encoder"):
            x = embed(article, table)
            with tf.variable_scope("layer_0"):
                y = layer_norm(x, "self_attention_prepost")
                x += multihead_attention(y, y, padding, "self_attention")[0]
                x += ffn(layer_norm(x, "ffn_prepost"), "ffn")
            memory = layer_norm(x, "final")
        with tf.variable_scope("decoder"):
            causal = tf.constant((1 - np.tri(target_length)) * -1e9, dtype)[None, None]
            embedded = embed(inputs, table)
            x = embedded
            with tf.variable_scope("layer_0"):
                y = layer_norm(x, "self_attention_prepost")
                x += multihead_attention(y, y, causal, "self_attention")[0]
                read, attention = multihead_attention(layer_norm(x, "encdec_prepost"), memory, padding, "encdec")
                x += read
                x += ffn(layer_norm(x, "ffn_prepost"), "ffn")
            decoded = layer_norm(x, "final")
        with tf.variable_scope("pointer"):
            copy = tf.reduce_mean(attention, 1)
            context = tf.matmul(copy, memory)
            p_gen = tf.sigmoid(tf.layers.dense(tf.concat([context, decoded, embedded], -1), 1, name="p_gen"))
            logits = tf.reshape(tf.matmul(tf.reshape(decoded, [-1, D]), table, transpose_b=True),
                                [-1, target_length, VOCAB])
            vocab_dist = p_gen * tf.nn.softmax(logits)
            vocab_dist = tf.pad(vocab_dist, [[0, 0], [0, 0], [0, EXTRA]])
            copy_dist = tf.matmul((1 - p_gen) * copy, tf.one_hot(article, VOCAB + EXTRA, dtype=dtype))
            final_dist = vocab_dist + copy_dist
    gold = tf.reduce_sum(final_dist * tf.one_hot(targets, VOCAB + EXTRA, dtype=dtype), -1)
    losses = -tf.log(gold + 1e-10) * weights
    loss = tf.reduce_sum(losses) / TOKENS_PER_BATCH
    return loss, {"memory": memory, "decoded": decoded, "copy": copy, "p_gen": p_gen, "final_dist": final_dist}
