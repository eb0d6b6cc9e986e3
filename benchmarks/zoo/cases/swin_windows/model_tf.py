"""Swin transformer: attention within windows, every other block with shifted ones, a table of relative positions, patch merging."""
import math

import numpy as np
import tensorflow.compat.v1 as tf

NUM_CLASSES = 6
PATCH_SIZE = 2
WINDOW = 4
EMBED_DIM = 12
DEPTHS = [2, 1]
NUM_HEADS = [2, 4]
MLP_RATIO = 2
SMOOTHING = 0.1


def layer_norm(x, name):
    dim = x.shape[-1]
    with tf.variable_scope(name):
        gamma = tf.get_variable("gamma", [dim], x.dtype, tf.ones_initializer())
        beta = tf.get_variable("beta", [dim], x.dtype, tf.zeros_initializer())
        mean, variance = tf.nn.moments(x, [-1], keepdims=True)
        return tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-5)


def gelu(x):
    return 0.5 * x * (1.0 + tf.erf(x / math.sqrt(2.0)))


def dense(x, units, name, use_bias=True):
    return tf.layers.dense(x, units, use_bias=use_bias, name=name,
                           kernel_initializer=tf.truncated_normal_initializer(stddev=0.15, dtype=x.dtype))


def window_partition(x, size):
    _, height, width, channels = x.shape.as_list()
    x = tf.reshape(x, [-1, height // size, size, width // size, size, channels])
    x = tf.transpose(x, [0, 1, 3, 2, 4, 5])
    return tf.reshape(x, [-1, size * size, channels])


def window_reverse(windows, size, height, width, channels):
    x = tf.reshape(windows, [-1, height // size, width // size, size, size, channels])
    x = tf.transpose(x, [0, 1, 3, 2, 4, 5])
    return tf.reshape(x, [-1, height, width, channels])


def relative_position_index(size):
    coords = np.stack(np.meshgrid(np.arange(size), np.arange(size), indexing="ij")).reshape(2, -1)
    relative = (coords[:, :, None] - coords[:, None, :]).transpose(1, 2, 0) + size - 1
    return relative[..., 0] * (2 * size - 1) + relative[..., 1]


def shifted_mask(height, width, size, shift):
    regions = np.zeros([height, width])
    parts = [slice(0, -size), slice(-size, -shift), slice(-shift, None)]
    number = 0
    for h in parts:
        for w in parts:
            regions[h, w] = number
            number += 1
    regions = regions.reshape(height // size, size, width // size, size).transpose(0, 2, 1, 3).reshape(-1, size * size)
    difference = regions[:, None, :] - regions[:, :, None]
    return np.where(difference != 0, -100.0, 0.0)


def window_attention(x, heads, mask):
    _, tokens, dim = x.shape.as_list()
    qkv = tf.reshape(dense(x, 3 * dim, "qkv"), [-1, tokens, 3, heads, dim // heads])
    qkv = tf.transpose(qkv, [2, 0, 3, 1, 4])
    q, k, v = qkv[0], qkv[1], qkv[2]
    q = q * (dim // heads) ** -0.5
    attn = tf.matmul(q, k, transpose_b=True)
    table = tf.get_variable("relative_position_bias_table", [(2 * WINDOW - 1) ** 2, heads], x.dtype,
                            tf.truncated_normal_initializer(stddev=0.3, dtype=x.dtype))
    bias = tf.gather(table, relative_position_index(WINDOW).reshape(-1))
    bias = tf.transpose(tf.reshape(bias, [tokens, tokens, heads]), [2, 0, 1])
    attn = attn + bias[None]
    if mask is not None:
        windows = mask.shape[0]
        attn = tf.reshape(attn, [-1, windows, heads, tokens, tokens]) + tf.constant(mask[None, :, None], x.dtype)
        attn = tf.reshape(attn, [-1, heads, tokens, tokens])
    attn = tf.nn.softmax(attn, axis=-1)
    x = tf.reshape(tf.transpose(tf.matmul(attn, v), [0, 2, 1, 3]), [-1, tokens, dim])
    return dense(x, dim, "proj")


def swin_block(x, heads, shift, name):
    _, height, width, dim = x.shape.as_list()
    if min(height, width) <= WINDOW:
        shift = 0
    with tf.variable_scope(name):
        shortcut = x
        x = layer_norm(x, "norm1")
        mask = None
        if shift > 0:
            x = tf.roll(x, shift=[-shift, -shift], axis=[1, 2])
            mask = shifted_mask(height, width, WINDOW, shift)
        with tf.variable_scope("attn"):
            windows = window_attention(window_partition(x, WINDOW), heads, mask)
        x = window_reverse(windows, WINDOW, height, width, dim)
        if shift > 0:
            x = tf.roll(x, shift=[shift, shift], axis=[1, 2])
        x = shortcut + x
        with tf.variable_scope("mlp"):
            y = gelu(dense(layer_norm(x, "norm2"), MLP_RATIO * dim, "fc1"))
            return x + dense(y, dim, "fc2")


def patch_merging(x):
    dim = int(x.shape[-1])
    with tf.variable_scope("downsample"):
        x = tf.concat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], -1)
        return dense(layer_norm(x, "norm"), 2 * dim, "reduction", use_bias=False)


def tower(images, labels):
    ends = {}
    with tf.variable_scope("swin"):
        with tf.variable_scope("patch_embed"):
            x = tf.layers.conv2d(images, EMBED_DIM, PATCH_SIZE, strides=PATCH_SIZE, name="proj")
            x = layer_norm(x, "norm")
        for stage, (depth, heads) in enumerate(zip(DEPTHS, NUM_HEADS)):
            with tf.variable_scope("layers%d" % stage):
                for i in range(depth):
                    x = swin_block(x, heads, 0 if i % 2 == 0 else WINDOW // 2, "blocks%d" % i)
                ends["stage%d" % stage] = x
                if stage < len(DEPTHS) - 1:
                    x = patch_merging(x)
        x = tf.reduce_mean(layer_norm(x, "norm"), [1, 2])
        logits = dense(x, NUM_CLASSES, "head")
    ends["logits"] = logits
    onehot = tf.one_hot(labels, NUM_CLASSES, on_value=1.0 - SMOOTHING + SMOOTHING / NUM_CLASSES, off_value=SMOOTHING / NUM_CLASSES,
                        dtype=logits.dtype)
    loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=onehot, logits=logits))
    hit = tf.equal(tf.argmax(logits, 1, output_type=tf.int32), labels)
    ends["accuracy"] = tf.reduce_mean(tf.cast(hit, logits.dtype))
    return loss, ends
