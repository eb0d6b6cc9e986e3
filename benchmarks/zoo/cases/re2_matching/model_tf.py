"""A matcher of two sentences: blocks of convolution, alignment and fusion with augmented residual connections.

All dense and convolution kernels are weight-normalised. `drop` is the scaled dropout mask in front of the prediction.
"""
import math

import numpy as np
import tensorflow.compat.v1 as tf

VOCAB, EMBED, HIDDEN, CLASSES = 60, 16, 24, 3
BLOCKS, ENC_LAYERS, KERNEL = 3, 2, 3


def gelu(x):
    return 0.5 * x * (1 + tf.nn.tanh(x * 0.7978845608028654 * (1 + 0.044715 * x * x)))


def get_weight(shape, dtype, gain):
    std = gain / np.sqrt(np.prod(shape[:-1]))
    w = tf.get_variable('weight', shape, dtype, tf.random_normal_initializer(0.0, std))
    g = tf.get_variable('weight_g', (1,) * (len(shape) - 1) + (shape[-1],), dtype, tf.ones_initializer())
    norm = tf.sqrt(tf.reduce_sum(tf.square(w), axis=list(range(len(shape) - 1)), keepdims=True))
    return w / tf.maximum(norm, 1e-7) * g


def apply_bias(x):
    b = tf.get_variable('bias', [int(x.shape[-1])], x.dtype, tf.zeros_initializer())
    return tf.nn.bias_add(x, b)


def dense(x, units, activation=None, name='dense'):
    with tf.variable_scope(name):
        fan_in = int(x.shape[-1])
        lead = [-1] + [int(d) for d in x.shape[1:-1]]
        w = get_weight([fan_in, units], x.dtype, np.sqrt(2.0) if activation else 1.0)
        out = apply_bias(tf.matmul(tf.reshape(x, [-1, fan_in]), w))
        out = tf.reshape(out, lead + [units])
        return activation(out) if activation else out


def conv1d(x, filters, kernel_size, name):
    with tf.variable_scope(name):
        w = get_weight([kernel_size, int(x.shape[-1]), filters], x.dtype, np.sqrt(2.0))
        out = tf.nn.conv2d(tf.expand_dims(x, 1), tf.expand_dims(w, 0), strides=[1, 1, 1, 1], padding='SAME')
        return tf.nn.relu(apply_bias(tf.squeeze(out, [1])))


def encoder(x, mask):
    with tf.variable_scope('encoder', reuse=tf.AUTO_REUSE):
        for i in range(ENC_LAYERS):
            x = conv1d(mask * x, HIDDEN, KERNEL, 'cnn_%d' % i)
        return x


def alignment(a, b, mask_a, mask_b):
    with tf.variable_scope('alignment', reuse=tf.AUTO_REUSE):
        temperature = tf.get_variable('temperature', [], a.dtype, tf.constant_initializer(math.sqrt(1.0 / HIDDEN)))
        with tf.variable_scope('proj', reuse=tf.AUTO_REUSE):
            pa = dense(a, HIDDEN, gelu)
            pb = dense(b, HIDDEN, gelu)
        attention = tf.matmul(pa, pb, transpose_b=True) * temperature
        mask = tf.matmul(mask_a, mask_b, transpose_b=True)
        attention = mask * attention + (1 - mask) * -1e9
        attention_a = tf.nn.softmax(attention, axis=1)
        attention_b = tf.nn.softmax(attention, axis=2)
        feature_b = tf.matmul(attention_a, a, transpose_a=True)
        feature_a = tf.matmul(attention_b, b)
        return feature_a, feature_b


def fusion(x, align):
    with tf.variable_scope('align', reuse=tf.AUTO_REUSE):
        x = tf.concat([dense(tf.concat([x, align], axis=-1), HIDDEN, gelu, 'orig'),
                       dense(tf.concat([x, x - align], axis=-1), HIDDEN, gelu, 'sub'),
                       dense(tf.concat([x, x * align], axis=-1), HIDDEN, gelu, 'mul')], axis=-1)
        return dense(x, HIDDEN, gelu, 'proj')


def augmented_residual(x, res, i):
    if i == 1:
        return tf.concat([res, x], axis=-1)
    x = (res[:, :, -HIDDEN:] + x) * math.sqrt(0.5)
    return tf.concat([res[:, :, :-HIDDEN], x], axis=-1)


def pooling(x, mask):
    return tf.reduce_max(mask * x + (1 - mask) * -1e9, axis=1)


def tower(text_a, text_b, mask_a, mask_b, drop, target):
    dtype = drop.dtype
    mask_a, mask_b = tf.expand_dims(mask_a, -1), tf.expand_dims(mask_b, -1)
    with tf.variable_scope('embedding'):
        matrix = tf.get_variable('embedding_matrix', [VOCAB, EMBED], dtype, tf.random_normal_initializer(0.0, 0.5))
        a, b = tf.nn.embedding_lookup(matrix, text_a), tf.nn.embedding_lookup(matrix, text_b)
    res_a, res_b = a, b
    for i in range(BLOCKS):
        with tf.variable_scope('block-%d' % i):
            if i > 0:
                a, b = augmented_residual(a, res_a, i), augmented_residual(b, res_b, i)
                res_a, res_b = a, b
            a = tf.concat([a, encoder(a, mask_a)], axis=-1)
            b = tf.concat([b, encoder(b, mask_b)], axis=-1)
            align_a, align_b = alignment(a, b, mask_a, mask_b)
            a, b = fusion(a, align_a), fusion(b, align_b)
    a, b = pooling(a, mask_a), pooling(b, mask_b)
    with tf.variable_scope('prediction'):
        x = tf.concat([a, b, a * b, tf.abs(a - b)], axis=-1) * drop
        x = dense(x, HIDDEN, gelu, 'dense_1')
        logits = dense(x, CLASSES, name='dense_2')
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=target, logits=logits))
    return loss, {'pooled_a': a, 'pooled_b': b, 'logits': logits}
