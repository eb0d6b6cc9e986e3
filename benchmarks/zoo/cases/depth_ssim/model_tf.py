"""Disparity from one picture: an encoder, a decoder that upsamples bilinearly, outputs at two scales.

The loss of each scale is a masked l1, a structural dissimilarity and a smoothness that edges of the picture switch off.
"""
import numpy as np
import tensorflow.compat.v1 as tf

MAX_DISPARITY = 0.3
ALPHA_SSIM = 0.85
SMOOTHNESS_WEIGHT = 0.1
NUM_SCALES = 2


def _conv(x, filters, stride, name, activation=tf.nn.elu):
    return tf.layers.conv2d(x, filters, 3, strides=stride, padding="same", activation=activation, name=name)


def _interpolate(x, axis, size):
    """Linear interpolation along one axis, so that the first and the last samples stay where they are."""
    last = x.shape.as_list()[axis] - 1
    position = np.linspace(0.0, last, size)
    low = np.minimum(np.floor(position).astype("int32"), last)
    high = np.minimum(low + 1, last)
    weight = (position - low).reshape([-1 if i == axis else 1 for i in range(4)])
    weight = tf.constant(weight, x.dtype)
    return tf.gather(x, low, axis=axis) * (1.0 - weight) + tf.gather(x, high, axis=axis) * weight


def upsample(x, ratio=2):
    height, width = x.shape.as_list()[1:3]
    return _interpolate(_interpolate(x, 1, ratio * height), 2, ratio * width)


def get_disparity(x, name):
    return MAX_DISPARITY * _conv(x, 1, 1, name, tf.nn.sigmoid)


def build_model(images):
    with tf.variable_scope("encoder"):
        conv1 = _conv(images, 8, 2, "conv1")
        conv2 = _conv(conv1, 16, 2, "conv2")
        conv3 = _conv(conv2, 32, 2, "conv3")
        conv3 = _conv(conv3, 32, 1, "conv3b")
    with tf.variable_scope("decoder"):
        upconv3 = _conv(upsample(conv3), 16, 1, "upconv3")
        iconv3 = _conv(tf.concat([upconv3, conv2], 3), 16, 1, "iconv3")
        upconv2 = _conv(upsample(iconv3), 8, 1, "upconv2")
        iconv2 = _conv(tf.concat([upconv2, conv1], 3), 8, 1, "iconv2")
        disp2 = get_disparity(iconv2, "disp2")
        upconv1 = _conv(upsample(iconv2), 8, 1, "upconv1")
        iconv1 = _conv(tf.concat([upconv1, upsample(disp2)], 3), 8, 1, "iconv1")
        disp1 = get_disparity(iconv1, "disp1")
    return [disp1, disp2], {"conv3": conv3, "iconv3": iconv3, "iconv2": iconv2, "disp1": disp1, "disp2": disp2}


def half(x):
    return tf.nn.avg_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")


def ssim(x, y):
    c1 = 0.01 ** 2
    c2 = 0.03 ** 2

    def pool(z):
        return tf.nn.avg_pool(z, [1, 3, 3, 1], [1, 1, 1, 1], "VALID")

    mu_x, mu_y = pool(x), pool(y)
    sigma_x = pool(x ** 2) - mu_x ** 2
    sigma_y = pool(y ** 2) - mu_y ** 2
    sigma_xy = pool(x * y) - mu_x * mu_y
    n = (2 * mu_x * mu_y + c1) * (2 * sigma_xy + c2)
    d = (mu_x ** 2 + mu_y ** 2 + c1) * (sigma_x + sigma_y + c2)
    return tf.clip_by_value((1 - n / d) / 2, 0.0, 1.0)


def gradient_x(x):
    return x[:, :, :-1, :] - x[:, :, 1:, :]


def gradient_y(x):
    return x[:, :-1, :, :] - x[:, 1:, :, :]


def smoothness(disp, image):
    disp = disp / (tf.reduce_mean(disp, [1, 2], keepdims=True) + 1e-7)
    weight_x = tf.exp(-tf.reduce_mean(tf.abs(gradient_x(image)), 3, keepdims=True))
    weight_y = tf.exp(-tf.reduce_mean(tf.abs(gradient_y(image)), 3, keepdims=True))
    return tf.reduce_mean(tf.abs(gradient_x(disp)) * weight_x) + tf.reduce_mean(tf.abs(gradient_y(disp)) * weight_y)


def tower(images, disparity, valid):
    disps, end_points = build_model(images)
    total = 0.0
    image, target, mask = images, disparity, valid
    for scale in range(NUM_SCALES):
        if scale > 0:
            image, target, mask = half(image), half(target), half(mask)
        l1 = tf.reduce_sum(tf.abs(disps[scale] - target) * mask) / tf.reduce_sum(mask)
        dissimilarity = tf.reduce_mean(ssim(disps[scale], target))
        smooth = smoothness(disps[scale], image)
        total += ALPHA_SSIM * dissimilarity + (1 - ALPHA_SSIM) * l1 + SMOOTHNESS_WEIGHT * smooth / 2 ** scale
        end_points["l1_%d" % (scale + 1)] = l1
        end_points["ssim_%d" % (scale + 1)] = dissimilarity
        end_points["smooth_%d" % (scale + 1)] = smooth
    return total, end_points
