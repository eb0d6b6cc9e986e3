"""Conv-TasNet for three speakers, after the TensorFlow 1 ports of the well-known PyTorch implementation: a learned filter bank, a
temporal convolutional network of dilated depthwise blocks with skip connections, masks, overlap-and-add, and scale-invariant SNR
under the best permutation of the speakers."""
from itertools import permutations

import numpy as np
import tensorflow.compat.v1 as tf

N = 26        # filters of the encoder
L = 8         # their length, in samples
B = 12        # channels of the bottleneck
H = 20        # channels inside a block
SC = 14       # channels of the skip connections
P = 3         # kernel of the depthwise convolutions
X = 3         # blocks per repeat
R = 1         # repeats
C = 3         # speakers
EPS = 1e-8


def conv1x1(x, filters, name, use_bias=True):
    return tf.layers.conv1d(x, filters, 1, use_bias=use_bias, name=name)


def prelu(x, name):
    with tf.variable_scope(name):
        alpha = tf.get_variable("alpha", [1], x.dtype, initializer=tf.constant_initializer(0.25))
        return tf.nn.relu(x) - alpha * tf.nn.relu(-x)


def norm(x, axes, name):
    """Over the axes `axes`: [2] is the channel-wise norm, [1, 2] the global one."""
    with tf.variable_scope(name):
        channels = x.shape.as_list()[-1]
        gamma = tf.get_variable("gamma", [1, 1, channels], x.dtype, initializer=tf.ones_initializer())
        beta = tf.get_variable("beta", [1, 1, channels], x.dtype, initializer=tf.zeros_initializer())
        mean, variance = tf.nn.moments(x, axes, keep_dims=True)
        return gamma * (x - mean) / tf.sqrt(variance + EPS) + beta


def depthwise_conv(x, dilation, name):
    with tf.variable_scope(name):
        channels = x.shape.as_list()[-1]
        kernel = tf.get_variable("depthwise_kernel", [1, P, channels, 1], x.dtype,
                                 initializer=tf.glorot_uniform_initializer())
        bias = tf.get_variable("bias", [channels], x.dtype, initializer=tf.zeros_initializer())
        y = tf.nn.depthwise_conv2d(tf.expand_dims(x, 1), kernel, [1, 1, 1, 1], "SAME", rate=[1, dilation])
        return tf.nn.bias_add(tf.squeeze(y, [1]), bias)


def temporal_block(x, dilation, last):
    y = conv1x1(x, H, "conv1x1")
    y = norm(prelu(y, "prelu_1"), [1, 2], "gln_1")
    y = depthwise_conv(y, dilation, "dconv")
    y = norm(prelu(y, "prelu_2"), [1, 2], "gln_2")
    skip = conv1x1(y, SC, "skip_out")
    if last:  # nobody reads its residual path
        return x, skip
    return x + conv1x1(y, B, "res_out"), skip


def separator(mixture_w):
    with tf.variable_scope("separator"):
        x = conv1x1(norm(mixture_w, [2], "cln"), B, "bottleneck")
        skips = 0.0
        for r in range(R):
            for i in range(X):
                with tf.variable_scope("repeat_%d_block_%d" % (r, i)):
                    x, skip = temporal_block(x, 2 ** i, r == R - 1 and i == X - 1)
                    skips += skip
        score = conv1x1(prelu(skips, "prelu_out"), C * N, "mask")
        score = tf.reshape(score, [-1, x.shape.as_list()[1], C, N])
        return tf.nn.softmax(score, axis=2)


def separate(mixture):
    with tf.variable_scope("encoder"):
        mixture_w = tf.layers.conv1d(tf.expand_dims(mixture, -1), N, L, strides=L // 2, use_bias=False,
                                     activation=tf.nn.relu, name="conv1d_U")
    est_mask = separator(mixture_w)
    with tf.variable_scope("decoder"):
        source_w = tf.transpose(tf.expand_dims(mixture_w, 2) * est_mask, [0, 2, 1, 3])
        frames = tf.layers.dense(source_w, L, use_bias=False, name="basis_signals")
        estimates = tf.signal.overlap_and_add(frames, L // 2)
    return mixture_w, est_mask, estimates


def cal_si_snr_with_pit(source, estimate, lengths):
    dtype = source.dtype
    samples = source.shape.as_list()[-1]
    mask = tf.expand_dims(tf.sequence_mask(lengths, samples, dtype=dtype), 1)
    num_samples = tf.reshape(tf.cast(lengths, dtype), [-1, 1, 1])
    estimate *= mask
    zero_mean_target = (source - tf.reduce_sum(source, 2, keepdims=True) / num_samples) * mask
    zero_mean_estimate = (estimate - tf.reduce_sum(estimate, 2, keepdims=True) / num_samples) * mask

    s_target = tf.expand_dims(zero_mean_target, 1)                                     # [B, 1, C, T]
    s_estimate = tf.expand_dims(zero_mean_estimate, 2)                                 # [B, C, 1, T]
    pair_wise_dot = tf.reduce_sum(s_estimate * s_target, 3, keepdims=True)
    s_target_energy = tf.reduce_sum(s_target ** 2, 3, keepdims=True) + EPS
    pair_wise_proj = pair_wise_dot * s_target / s_target_energy
    e_noise = s_estimate - pair_wise_proj
    pair_wise_si_snr = tf.reduce_sum(pair_wise_proj ** 2, 3) / (tf.reduce_sum(e_noise ** 2, 3) + EPS)
    pair_wise_si_snr = 10 * tf.log(pair_wise_si_snr + EPS) / np.log(10.0)              # [B, C, C]

    perms = np.array(list(permutations(range(C))))
    perms_one_hot = tf.constant(np.eye(C)[perms], dtype)                               # [C!, C, C]
    snr_set = tf.einsum("bij,pij->bp", pair_wise_si_snr, perms_one_hot)
    return pair_wise_si_snr, tf.reduce_max(snr_set, axis=1) / C


def tower(mixture, sources, lengths):
    mixture_w, est_mask, estimates = separate(mixture)
    pair_wise, max_snr = cal_si_snr_with_pit(sources, estimates, lengths)
    loss = 0 - tf.reduce_mean(max_snr)
    return loss, {"mixture_w": mixture_w, "estimates": estimates, "pair_wise_si_snr": pair_wise}
