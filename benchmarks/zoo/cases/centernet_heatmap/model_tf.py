"""Objects as points, after the kind of TensorFlow code that followed CenterNet: a small strided backbone, a transposed convolution
back up to a quarter of the size, three heads; a focal loss on the heatmap and L1 on what is gathered at the centres."""
import numpy as np
import tensorflow.compat.v1 as tf

NUM_CLASS = 3
HM_WEIGHT, WH_WEIGHT, REG_WEIGHT = 1.0, 0.1, 1.0
MEAN = [104.0, 114.0, 120.0]
STD = [73.0, 69.0, 70.0]


def _bn(inputs, is_training):
    return tf.layers.batch_normalization(inputs, momentum=0.9, epsilon=1e-5, training=is_training, fused=False)


def _conv(inputs, filters, kernel_size, strides=1, is_training=False):
    inputs = tf.layers.conv2d(inputs, filters, kernel_size, strides, padding="same", use_bias=False,
                              kernel_initializer=tf.variance_scaling_initializer())
    return tf.nn.relu(_bn(inputs, is_training))


def _deconv(inputs, filters, is_training):
    inputs = tf.layers.conv2d_transpose(inputs, filters, 4, 2, padding="same", use_bias=False,
                                        kernel_initializer=tf.variance_scaling_initializer())
    return tf.nn.relu(_bn(inputs, is_training))


def _head(inputs, channels, name, bias=0.0):
    with tf.variable_scope(name):
        hidden = tf.layers.conv2d(inputs, 12, 3, padding="same", activation=tf.nn.relu)
        return tf.layers.conv2d(hidden, channels, 1, bias_initializer=tf.constant_initializer(bias))


def build_model(images, is_training):
    with tf.variable_scope("backbone"):
        images = (images - tf.constant(np.reshape(MEAN, [1, 1, 1, 3]), images.dtype)) / tf.constant(np.reshape(STD, [1, 1, 1, 3]), images.dtype)
        c2 = _conv(images, 8, 3, 2, is_training)
        c4 = _conv(c2, 14, 3, 2, is_training)
        c8 = _conv(c4, 24, 3, 2, is_training)
    with tf.variable_scope("upsampling"):
        lateral = tf.layers.conv2d(c4, 16, 1, name="lateral")
        features = _deconv(c8, 16, is_training) + lateral
    with tf.variable_scope("detector"):
        hm = _head(features, NUM_CLASS, "hm", bias=-2.19)
        wh = _head(features, 2, "wh")
        reg = _head(features, 2, "reg")
    return features, hm, wh, reg


def focal_loss(hm_pred, hm_true):
    pos_mask = tf.cast(tf.equal(hm_true, 1.0), hm_pred.dtype)
    neg_mask = tf.cast(tf.less(hm_true, 1.0), hm_pred.dtype)
    neg_weights = tf.pow(1.0 - hm_true, 4)
    pos_loss = -tf.log(tf.clip_by_value(hm_pred, 1e-5, 1.0 - 1e-5)) * tf.pow(1.0 - hm_pred, 2.0) * pos_mask
    neg_loss = -tf.log(tf.clip_by_value(1.0 - hm_pred, 1e-5, 1.0 - 1e-5)) * tf.pow(hm_pred, 2.0) * neg_weights * neg_mask
    num_pos = tf.reduce_sum(pos_mask)
    pos_loss = tf.reduce_sum(pos_loss)
    neg_loss = tf.reduce_sum(neg_loss)
    return tf.cond(tf.greater(num_pos, 0), lambda: (pos_loss + neg_loss) / num_pos, lambda: neg_loss)


def reg_l1_loss(y_pred, y_true, indices, mask):
    b = tf.shape(y_pred)[0]
    k = tf.shape(indices)[1]
    c = y_pred.shape.as_list()[-1]
    y_pred = tf.reshape(y_pred, [b, -1, c])
    y_pred = tf.gather(y_pred, indices, batch_dims=1)
    mask = tf.tile(tf.expand_dims(mask, axis=-1), [1, 1, c])
    total_loss = tf.reduce_sum(tf.abs(y_true * mask - y_pred * mask))
    return total_loss / (tf.reduce_sum(mask) + 1e-4)


def tower(images, heatmaps, indices, offsets, sizes, present, training=True):
    features, hm, wh, reg = build_model(images, training)
    hm_loss = focal_loss(tf.sigmoid(hm), heatmaps)
    wh_loss = reg_l1_loss(wh, sizes, indices, present)
    reg_loss = reg_l1_loss(reg, offsets, indices, present)
    total = HM_WEIGHT * hm_loss + WH_WEIGHT * wh_loss + REG_WEIGHT * reg_loss
    outputs = {"features": features, "hm": hm, "wh": wh, "reg": reg}
    outputs.update({"hm_loss": hm_loss, "wh_loss": wh_loss, "reg_loss": reg_loss})
    return total, outputs
