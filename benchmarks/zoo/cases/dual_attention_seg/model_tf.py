"""Dual attention network for scene segmentation, after the TensorFlow re-implementations of DANet: a small dilated
backbone, position and channel attention with learned residual weights, an auxiliary head on the backbone, bilinear
logits and a cross entropy that leaves out pixels with the label 255."""
import numpy as np
import tensorflow.compat.v1 as tf

NUM_CLASSES = 7
IGNORE_LABEL = 255
AUX_WEIGHT = 0.4
WEIGHT_DECAY = 1e-3
BN_MOMENTUM = 0.95
BN_EPSILON = 1e-4


def conv(x, filters, size, name, stride=1, rate=1, use_bias=False):
    return tf.layers.conv2d(x, filters, size, strides=stride, dilation_rate=rate, padding="same", use_bias=use_bias,
                            kernel_initializer=tf.variance_scaling_initializer(2.0), name=name)


def conv_bn_relu(x, filters, size, name, training, stride=1, rate=1):
    with tf.variable_scope(name):
        x = conv(x, filters, size, "conv", stride, rate)
        x = tf.layers.batch_normalization(x, momentum=BN_MOMENTUM, epsilon=BN_EPSILON, training=training, fused=False,
                                          name="bn")
        return tf.nn.relu(x)


def hw_flatten(x):
    shape = x.shape.as_list()
    return tf.reshape(x, [-1, shape[1] * shape[2], shape[3]])


def position_attention(x, name):
    _, height, width, filters = x.shape.as_list()
    with tf.variable_scope(name):
        f = conv(x, filters // 8, 1, "f", use_bias=True)
        g = conv(x, filters // 8, 1, "g", use_bias=True)
        h = conv(x, filters, 1, "h", use_bias=True)
        s = tf.matmul(hw_flatten(f), hw_flatten(g), transpose_b=True)
        beta = tf.nn.softmax(s)
        o = tf.matmul(beta, hw_flatten(h))
        gamma = tf.get_variable("gamma", [], x.dtype, initializer=tf.constant_initializer(0.0))
        return gamma * tf.reshape(o, [-1, height, width, filters]) + x


def channel_attention(x, name):
    _, height, width, filters = x.shape.as_list()
    with tf.variable_scope(name):
        flat = hw_flatten(x)
        s = tf.matmul(flat, flat, transpose_a=True)
        s = tf.reduce_max(s, axis=-1, keepdims=True) - s
        beta = tf.nn.softmax(s)
        o = tf.matmul(flat, beta, transpose_b=True)
        gamma = tf.get_variable("gamma", [], x.dtype, initializer=tf.constant_initializer(0.0))
        return gamma * tf.reshape(o, [-1, height, width, filters]) + x


def interpolation(size, new_size):
    """The matrix [new_size, size] of linear interpolation with aligned corners."""
    at = np.arange(new_size) * (size - 1) / (new_size - 1)
    return np.maximum(0.0, 1.0 - np.abs(at[:, None] - np.arange(size)[None, :]))


def upsample(x, size):
    """Bilinear, as two products of matrices: tf.image.resize_bilinear knows no other dtype than float32."""
    _, height, width, _ = x.shape.as_list()
    rows = tf.constant(interpolation(height, size[0]), x.dtype)
    columns = tf.constant(interpolation(width, size[1]), x.dtype)
    return tf.einsum("yh,nhwc,xw->nyxc", rows, x, columns)


def masked_cross_entropy(logits, labels):
    valid = tf.not_equal(labels, IGNORE_LABEL)
    safe = tf.where(valid, labels, tf.zeros_like(labels))
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=safe, logits=logits)
    weights = tf.cast(valid, logits.dtype)
    return tf.reduce_sum(losses * weights) / tf.reduce_sum(weights)


def tower(images, labels, training=True):
    size = images.shape.as_list()[1:3]
    with tf.variable_scope("backbone"):
        x = conv_bn_relu(images, 10, 3, "block1", training, stride=2)
        c3 = conv_bn_relu(x, 16, 3, "block2", training, stride=2)
        c4 = conv_bn_relu(c3, 18, 3, "block3", training, rate=2)
    with tf.variable_scope("head"):
        pam = conv_bn_relu(c4, 24, 3, "pam_in", training)
        pam = position_attention(pam, "pam")
        cam = conv_bn_relu(c4, 24, 3, "cam_in", training)
        cam = channel_attention(cam, "cam")
        logits = conv(pam + cam, NUM_CLASSES, 1, "logits", use_bias=True)
    with tf.variable_scope("aux"):
        aux_logits = conv(c3, NUM_CLASSES, 1, "logits", use_bias=True)
    logits = upsample(logits, size)
    aux_logits = upsample(aux_logits, size)
    seg_loss = masked_cross_entropy(logits, labels)
    aux_loss = masked_cross_entropy(aux_logits, labels)
    l2 = tf.add_n([tf.nn.l2_loss(v) for v in tf.trainable_variables() if "kernel" in v.name])
    loss = seg_loss + AUX_WEIGHT * aux_loss + WEIGHT_DECAY * l2
    return loss, {"c4": c4, "pam": pam, "cam": cam, "logits": logits, "seg_loss": seg_loss, "aux_loss": aux_loss}
