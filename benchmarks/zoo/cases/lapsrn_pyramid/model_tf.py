"""Multi-scale LapSRN: one embedding block, recursive and shared by the levels of the pyramid, which predicts the residual of an
image that a transposed convolution doubles."""
import numpy as np
import tensorflow.compat.v1 as tf

CHANNELS = 18
DEPTH = 2
RECURSIONS = 2
LEVELS = 2
EPSILON = 1e-3
WEIGHT_DECAY = 1e-4


def lrelu(x, alpha=0.2):
    return tf.maximum(x, alpha * x)


def weight_variable(name, shape, dtype, initializer=None):
    if initializer is None:
        fan_in = shape[0] * shape[1] * shape[2]
        initializer = tf.truncated_normal_initializer(stddev=np.sqrt(1.4 / fan_in), dtype=dtype)
    return tf.get_variable(name, shape, dtype=dtype, initializer=initializer)


def bilinear_kernel(size, channels):
    center = size / 2 - 0.5
    og = np.ogrid[:size, :size]
    filt = (1 - abs(og[0] - center) / (size // 2)) * (1 - abs(og[1] - center) / (size // 2))
    kernel = np.zeros((size, size, channels, channels))
    for i in range(channels):
        kernel[:, :, i, i] = filt
    return kernel


def conv(x, k, out, name):
    with tf.variable_scope(name):
        w = weight_variable("weights", [k, k, x.shape.as_list()[-1], out], x.dtype)
        b = tf.get_variable("biases", [out], dtype=x.dtype, initializer=tf.zeros_initializer())
        return tf.nn.bias_add(tf.nn.conv2d(x, w, strides=[1, 1, 1, 1], padding="SAME"), b)


def deconv(x, out, name, bias=True):
    with tf.variable_scope(name):
        c = x.shape.as_list()[-1]
        initializer = tf.constant_initializer(bilinear_kernel(4, c), dtype=x.dtype) if c == out else None
        w = weight_variable("weights", [4, 4, out, c], x.dtype, initializer)
        shape = tf.shape(x)
        y = tf.nn.conv2d_transpose(x, w, [shape[0], shape[1] * 2, shape[2] * 2, out], [1, 2, 2, 1], padding="SAME")
        y.set_shape([x.shape[0], x.shape[1] * 2, x.shape[2] * 2, out])
        if bias:
            y = tf.nn.bias_add(y, tf.get_variable("biases", [out], dtype=x.dtype, initializer=tf.zeros_initializer()))
        return y


def feature_embedding(x):
    """recursions of one block of DEPTH convolutions, all of them with the level's input as skip connection"""
    h = x
    for r in range(RECURSIONS):
        with tf.variable_scope("recursive_block", reuse=tf.AUTO_REUSE):
            for d in range(DEPTH):
                h = conv(lrelu(h), 3, CHANNELS, "conv%d" % d)
        h = h + x
    return h


def lapsrn(lr):
    pyramid = []
    with tf.variable_scope("lapsrn"):
        features = lrelu(conv(lr, 3, CHANNELS, "conv_in"))
        image = lr
        for s in range(LEVELS):
            with tf.variable_scope("level", reuse=tf.AUTO_REUSE):
                features = lrelu(deconv(feature_embedding(features), CHANNELS, "feature_upsample"))
                residual = conv(features, 3, 1, "residual")
                image = deconv(image, 1, "image_upsample", bias=False) + residual
            pyramid.append(image)
    return pyramid


def charbonnier(sr, hr):
    return tf.reduce_mean(tf.reduce_sum(tf.sqrt(tf.square(sr - hr) + EPSILON ** 2), [1, 2, 3]))


def tower(lr, hr):
    targets = [hr]
    for _ in range(LEVELS - 1):
        targets.insert(0, tf.nn.avg_pool(targets[0], [1, 2, 2, 1], [1, 2, 2, 1], padding="VALID"))
    pyramid = lapsrn(lr)
    loss = tf.add_n([charbonnier(sr, gt) for sr, gt in zip(pyramid, targets)])
    decay = tf.add_n([tf.nn.l2_loss(v) for v in tf.trainable_variables() if "weights" in v.name])
    mse = tf.reduce_mean(tf.square(tf.clip_by_value(pyramid[-1], 0.0, 1.0) - hr))
    psnr = -10 * tf.log(mse) / np.log(10.0)
    return loss + WEIGHT_DECAY * decay, {"sr_2x": pyramid[0], "sr_4x": pyramid[1], "psnr": psnr}
