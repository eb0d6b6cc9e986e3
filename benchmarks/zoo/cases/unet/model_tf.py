"""U-Net with one bilinear and one transposed upsampling, weighted cross entropy and soft dice."""
import numpy as np
import tensorflow.compat.v1 as tf

NUM_CLASSES = 3
IGNORE = 255
CLASS_WEIGHTS = [0.5, 1.0, 2.0]


def conv_bn_relu(x, filters, training):
    x = tf.layers.conv2d(x, filters, 3, padding="same", use_bias=False)
    x = tf.layers.batch_normalization(x, training=training, fused=False)
    return tf.nn.relu(x)


def upsample_bilinear(x):
    """Twice the size with align_corners=True, as two matrix products: tf.image's own op is float32 only."""
    size = int(x.shape[1])
    at = np.arange(2 * size) * (size - 1) / (2 * size - 1)
    weights = np.maximum(0, 1 - np.abs(at[:, None] - np.arange(size)[None, :]))
    weights = tf.constant(weights, x.dtype)
    x = tf.einsum("ph,nhwc->npwc", weights, x)
    return tf.einsum("qw,npwc->npqc", weights, x)


def unet(images, training):
    down1 = conv_bn_relu(images, 8, training)
    down2 = conv_bn_relu(tf.layers.max_pooling2d(down1, 2, 2), 16, training)
    center = conv_bn_relu(tf.layers.average_pooling2d(down2, 3, 2, padding="same"), 24, training)
    up2 = tf.concat([down2, upsample_bilinear(center)], axis=3)
    up2 = conv_bn_relu(up2, 16, training)
    up1 = tf.layers.conv2d_transpose(up2, 8, 3, strides=2, padding="same")
    up1 = tf.concat([down1, up1], axis=3)
    up1 = conv_bn_relu(up1, 8, training)
    logits = tf.layers.conv2d(up1, NUM_CLASSES, 1)
    return logits, {"down2": down2, "center": center, "up2": up2, "up1": up1, "logits": logits}


def tower(images, labels, training=True):
    with tf.variable_scope("unet"):
        logits, end_points = unet(images, training)
    flat_logits = tf.reshape(logits, [-1, NUM_CLASSES])
    flat_labels = tf.reshape(labels, [-1])
    keep = tf.where(tf.not_equal(flat_labels, IGNORE))[:, 0]
    flat_logits = tf.gather(flat_logits, keep)
    flat_labels = tf.gather(flat_labels, keep)
    weights = tf.gather(tf.constant(CLASS_WEIGHTS, logits.dtype), flat_labels)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=flat_labels, logits=flat_logits)
    cross_entropy = tf.reduce_sum(losses * weights) / tf.reduce_sum(weights)
    probs = tf.nn.softmax(flat_logits)[:, 1:]
    truth = tf.one_hot(flat_labels, NUM_CLASSES, dtype=logits.dtype)[:, 1:]
    intersection = tf.reduce_sum(probs * truth, axis=0)
    union = tf.reduce_sum(probs, axis=0) + tf.reduce_sum(truth, axis=0)
    dice = tf.reduce_mean((2.0 * intersection + 1.0) / (union + 1.0))
    end_points["cross_entropy"] = cross_entropy
    end_points["dice"] = dice
    return cross_entropy + (1.0 - dice), end_points
