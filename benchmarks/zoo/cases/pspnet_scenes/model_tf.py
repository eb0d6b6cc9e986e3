"""Pyramid scene parsing with an auxiliary loss, after the kind of TensorFlow 1 ports of PSPNet for ADE20K and Cityscapes.

Bilinear resizing is written as two products with matrices, since TensorFlow's op returns float32 whatever it is given.
"""
import numpy as np
import tensorflow.compat.v1 as tf

NUM_CLASSES = 7
IGNORE_LABEL = 255
WEIGHT_DECAY = 0.001
AUX_WEIGHT = 0.4


def conv(x, k, c_o, s, name, rate=1, biased=False, padding="SAME"):
    return tf.layers.conv2d(x, c_o, k, strides=s, padding=padding, dilation_rate=rate, use_bias=biased, name=name,
                            kernel_initializer=tf.variance_scaling_initializer(scale=2.0))


def batch_norm(x, training, name, relu=True):
    x = tf.layers.batch_normalization(x, momentum=0.95, epsilon=1e-5, fused=False, training=training, name=name)
    return tf.nn.relu(x) if relu else x


def interpolation(size_in, size_out):
    """The matrix of linear interpolation with aligned corners."""
    at = np.arange(size_out) * ((size_in - 1) / max(size_out - 1, 1))
    low = np.minimum(np.floor(at).astype(int), size_in - 1)
    high = np.minimum(low + 1, size_in - 1)
    matrix = np.zeros((size_out, size_in))
    np.add.at(matrix, (np.arange(size_out), low), 1 - (at - low))
    np.add.at(matrix, (np.arange(size_out), high), at - low)
    return matrix


def interp(x, size):
    _, h, w, _ = x.shape.as_list()
    rows = tf.constant(interpolation(h, size[0]), x.dtype)
    columns = tf.constant(interpolation(w, size[1]), x.dtype)
    return tf.einsum("pw,bowc->bopc", columns, tf.einsum("oh,bhwc->bowc", rows, x))


def bottleneck(x, c_mid, c_out, rate, training, name):
    shortcut = batch_norm(conv(x, 1, c_out, 1, name + "_1x1_proj"), training, name + "_1x1_proj_bn", relu=False)
    y = batch_norm(conv(x, 1, c_mid, 1, name + "_1x1_reduce"), training, name + "_1x1_reduce_bn")
    y = batch_norm(conv(y, 3, c_mid, 1, name + "_3x3", rate), training, name + "_3x3_bn")
    y = batch_norm(conv(y, 1, c_out, 1, name + "_1x1_increase"), training, name + "_1x1_increase_bn", relu=False)
    return tf.nn.relu(y + shortcut)


def pyramid_pool(x, bins, training):
    _, h, w, _ = x.shape.as_list()
    levels = [x]
    for n in bins:
        size = [1, h // n, w // n, 1]
        y = tf.nn.avg_pool(x, size, size, padding="VALID")
        y = batch_norm(conv(y, 1, 6, 1, "conv5_3_pool%d" % n), training, "conv5_3_pool%d_bn" % n)
        levels.append(interp(y, [h, w]))
    return tf.concat(levels, axis=-1)


def segmentation_loss(logits, labels):
    raw_prediction = tf.reshape(logits, [-1, NUM_CLASSES])
    raw_gt = tf.reshape(labels, [-1])
    indices = tf.squeeze(tf.where(tf.less_equal(raw_gt, NUM_CLASSES - 1)), 1)
    gt = tf.gather(raw_gt, indices)
    prediction = tf.gather(raw_prediction, indices)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(logits=prediction, labels=gt))


def tower(images, labels, training=True):
    size = labels.shape.as_list()[1:]
    x = batch_norm(conv(images, 3, 8, 2, "conv1_1_3x3_s2"), training, "conv1_1_3x3_s2_bn")
    x = batch_norm(conv(x, 3, 10, 1, "conv1_2_3x3"), training, "conv1_2_3x3_bn")
    x = tf.nn.max_pool(x, [1, 3, 3, 1], [1, 2, 2, 1], padding="SAME")
    conv4 = bottleneck(x, 9, 16, 1, training, "conv4_1")
    conv5 = bottleneck(conv4, 11, 20, 2, training, "conv5_1")

    pooled = pyramid_pool(conv5, (1, 2, 3, 6), training)
    x = batch_norm(conv(pooled, 3, 14, 1, "conv5_4"), training, "conv5_4_bn")
    logits = interp(conv(x, 1, NUM_CLASSES, 1, "conv6", biased=True), size)

    aux = batch_norm(conv(conv4, 3, 12, 1, "conv4_aux"), training, "conv4_aux_bn")
    aux_logits = interp(conv(aux, 1, NUM_CLASSES, 1, "aux_conv6", biased=True), size)

    main_loss = segmentation_loss(logits, labels)
    aux_loss = segmentation_loss(aux_logits, labels)
    l2_losses = [WEIGHT_DECAY * tf.nn.l2_loss(v) for v in tf.trainable_variables() if "kernel" in v.name]
    loss = main_loss + AUX_WEIGHT * aux_loss + tf.add_n(l2_losses)
    return loss, {"conv4": conv4, "conv5": conv5, "logits": logits, "main_loss": main_loss, "aux_loss": aux_loss}
