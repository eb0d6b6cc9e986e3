"""Colourful image colourisation: classifies each place into bins of ab, with soft targets from the nearest bins; rare colours are
boosted in the gradient at the logits, pictures without colour count nothing."""
import numpy as np
import tensorflow.compat.v1 as tf

GRID = np.array([(a, b) for a in (-40.0, 0.0, 40.0) for b in (-40.0, 0.0, 40.0)])
PRIOR = np.array([0.02, 0.05, 0.16, 0.09, 0.30, 0.08, 0.04, 0.07, 0.19])
Q = len(GRID)
NEIGHBOURS = 3
SIGMA = 20.0
PRIOR_GAMMA = 0.5
GRAY_THRESHOLD = 5.0
TEMPERATURE = 0.38


class Net(object):
    def __init__(self, training):
        self.training = training

    def variable(self, name, shape, dtype, stddev):
        return tf.get_variable(name, shape, dtype=dtype, initializer=tf.truncated_normal_initializer(stddev=stddev, dtype=dtype))

    def conv2d(self, scope, x, kernel_size, stride=1, dilation=1, relu=True):
        with tf.variable_scope(scope):
            k, _, c, out = kernel_size
            kernel = self.variable("weights", kernel_size, x.dtype, (2.0 / (k * k * c)) ** 0.5)
            if dilation == 1:
                conv = tf.nn.conv2d(x, kernel, [1, stride, stride, 1], padding="SAME")
            else:
                conv = tf.nn.atrous_conv2d(x, kernel, dilation, padding="SAME")
            biases = tf.get_variable("biases", [out], dtype=x.dtype, initializer=tf.constant_initializer(0.0))
            conv = tf.nn.bias_add(conv, biases)
            return tf.nn.relu(conv) if relu else conv

    def deconv2d(self, scope, x, kernel_size, relu=True):
        with tf.variable_scope(scope):
            k, _, out, c = kernel_size
            kernel = self.variable("weights", kernel_size, x.dtype, (2.0 / (k * k * c / 4)) ** 0.5)
            shape = x.shape.as_list()
            output_shape = tf.stack([tf.shape(x)[0], shape[1] * 2, shape[2] * 2, out])
            conv = tf.nn.conv2d_transpose(x, kernel, output_shape, [1, 2, 2, 1], padding="SAME")
            conv.set_shape([shape[0], shape[1] * 2, shape[2] * 2, out])
            biases = tf.get_variable("biases", [out], dtype=x.dtype, initializer=tf.constant_initializer(0.0))
            conv = tf.nn.bias_add(conv, biases)
            return tf.nn.relu(conv) if relu else conv

    def batch_norm(self, scope, x):
        return tf.layers.batch_normalization(x, momentum=0.9, epsilon=1e-5, training=self.training, fused=False, name=scope)

    def inference(self, data_l):
        conv = self.conv2d("conv_1_1", data_l, [3, 3, 1, 8])
        conv = self.conv2d("conv_1_2", conv, [3, 3, 8, 8], stride=2)
        conv = self.batch_norm("bn_1", conv)
        conv = self.conv2d("conv_2_1", conv, [3, 3, 8, 14])
        conv = self.conv2d("conv_2_2", conv, [3, 3, 14, 14], stride=2)
        conv = self.batch_norm("bn_2", conv)
        conv = self.conv2d("conv_3_1", conv, [3, 3, 14, 20], dilation=2)
        conv = self.conv2d("conv_3_2", conv, [3, 3, 20, 20], dilation=2)
        conv = self.batch_norm("bn_3", conv)
        conv = self.conv2d("conv_4_1", conv, [3, 3, 20, 20])
        conv = self.batch_norm("bn_4", conv)
        conv = self.deconv2d("conv_5_1", conv, [4, 4, 16, 20])
        conv = self.conv2d("conv_5_2", conv, [3, 3, 16, 16])
        return self.conv2d("conv_5_q", conv, [1, 1, 16, Q], relu=False)


def encode(ab):
    """[B, H, W, 2] -> [B, H, W, Q], what a gaussian gives to the nearest bins"""
    grid = tf.constant(GRID, ab.dtype)
    dist = tf.reduce_sum(tf.square(tf.expand_dims(ab, 3) - grid), axis=4)
    neg, index = tf.nn.top_k(-dist, NEIGHBOURS)
    weights = tf.exp(neg / (2 * SIGMA ** 2))
    weights = weights / tf.reduce_sum(weights, axis=3, keepdims=True)
    return tf.reduce_sum(tf.one_hot(index, Q, dtype=ab.dtype) * tf.expand_dims(weights, 4), axis=3)


def prior_boost(encoded):
    mix = (1 - PRIOR_GAMMA) * PRIOR + PRIOR_GAMMA / Q
    factor = 1.0 / mix
    factor = factor / np.sum(PRIOR * factor)
    return tf.expand_dims(tf.gather(tf.constant(factor, encoded.dtype), tf.argmax(encoded, 3)), 3)


def non_gray(ab):
    coloured = tf.cast(tf.greater(tf.abs(ab), GRAY_THRESHOLD), ab.dtype)
    return tf.reduce_max(coloured, axis=[1, 2, 3], keepdims=True)


def decode(logits):
    probs = tf.nn.softmax(logits / TEMPERATURE)
    return tf.tensordot(probs, tf.constant(GRID, logits.dtype), [[3], [0]])


def tower(data_l, data_ab, training=True):
    logits = Net(training).inference((data_l - 50.0) / 100.0)
    ab = data_ab[:, ::2, ::2, :]
    target = encode(ab)
    boost = prior_boost(target) * non_gray(ab)

    batch_size = tf.cast(tf.shape(data_l)[0], logits.dtype)
    g_loss = tf.reduce_sum(tf.nn.softmax_cross_entropy_with_logits_v2(labels=tf.stop_gradient(target), logits=logits)) / batch_size
    # class rebalancing: the gradient at the logits is multiplied by the boost
    dl2c = tf.stop_gradient(tf.gradients(g_loss, logits)[0])
    loss = tf.reduce_sum(dl2c * logits * boost)

    ab_pred = decode(logits)
    return loss, {"logits": logits, "ab_pred": ab_pred, "cross_entropy": g_loss,
                  "rmse": tf.sqrt(tf.reduce_mean(tf.square(ab_pred - ab)))}
