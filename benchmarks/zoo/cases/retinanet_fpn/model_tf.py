"""RetinaNet with a small residual backbone: a feature pyramid and heads that all levels share, each level with its own batch norm."""
import numpy as np
import tensorflow.compat.v1 as tf

NUM_CLASSES = 3
NUM_ANCHORS = 2
FPN_WIDTH = 10
HEAD_REPEATS = 2
MIN_LEVEL, MAX_LEVEL = 3, 5
ALPHA, GAMMA = 0.25, 2.0
SIGMA = 3.0
BOX_LOSS_WEIGHT = 2.0


def conv2d_fixed_padding(inputs, filters, kernel_size, strides, name):
    if strides > 1:
        pad = kernel_size - 1
        before = pad // 2
        inputs = tf.pad(inputs, [[0, 0], [before, pad - before], [before, pad - before], [0, 0]])
    return tf.layers.conv2d(inputs, filters, kernel_size, strides=strides,
                            padding='SAME' if strides == 1 else 'VALID',
                            kernel_initializer=tf.variance_scaling_initializer(), name=name)


def residual_block(inputs, filters, name):
    with tf.variable_scope(name):
        shortcut = conv2d_fixed_padding(inputs, filters, 1, 2, 'shortcut')
        net = tf.nn.relu(conv2d_fixed_padding(inputs, filters, 3, 2, 'conv_a'))
        net = conv2d_fixed_padding(net, filters, 3, 1, 'conv_b')
        return tf.nn.relu(net + shortcut)


def backbone(images):
    with tf.variable_scope('backbone'):
        c2 = tf.nn.relu(conv2d_fixed_padding(images, 8, 3, 2, 'stem'))
        c3 = residual_block(c2, 12, 'block_group1')
        c4 = residual_block(c3, 16, 'block_group2')
    return {3: c3, 4: c4}


def nearest_upsampling(data, scale):
    _, h, w, c = data.get_shape().as_list()
    data = tf.reshape(data, [-1, h, 1, w, 1, c]) * tf.ones([1, 1, scale, 1, scale, 1], dtype=data.dtype)
    return tf.reshape(data, [-1, h * scale, w * scale, c])


def fpn(feats):
    with tf.variable_scope('fpn'):
        lateral = {level: tf.layers.conv2d(feat, FPN_WIDTH, 1, padding='same', name='l%d' % level)
                   for level, feat in feats.items()}
        pyramid = {4: lateral[4]}
        pyramid[3] = nearest_upsampling(pyramid[4], 2) + lateral[3]
        for level in (3, 4):
            pyramid[level] = tf.layers.conv2d(pyramid[level], FPN_WIDTH, 3, padding='same', name='post_hoc_d%d' % level)
        pyramid[5] = tf.layers.conv2d(feats[4], FPN_WIDTH, 3, strides=2, padding='same', name='p5')
    return pyramid


def head(features, level, outputs, bias, name, training):
    """Convolutions are shared over the levels, batch norm is not."""
    net = features
    for i in range(HEAD_REPEATS):
        net = tf.layers.conv2d(net, FPN_WIDTH, 3, padding='same', use_bias=False, name='%s-%d' % (name, i),
                               kernel_initializer=tf.random_normal_initializer(stddev=0.1))
        net = tf.layers.batch_normalization(net, momentum=0.9, epsilon=1e-3, training=training, fused=False,
                                            name='%s-%d-bn-%d' % (name, i, level))
        net = tf.nn.relu(net)
    net = tf.layers.conv2d(net, NUM_ANCHORS * outputs, 3, padding='same', name='%s-predict' % name,
                           bias_initializer=tf.constant_initializer(bias),
                           kernel_initializer=tf.random_normal_initializer(stddev=0.1))
    h, w = features.get_shape().as_list()[1:3]
    return tf.reshape(net, [-1, h * w * NUM_ANCHORS, outputs])


def focal_loss(logits, targets, mask, normalizer):
    with tf.name_scope('focal_loss'):
        positive = tf.equal(targets, 1.0)
        cross_entropy = tf.nn.sigmoid_cross_entropy_with_logits(labels=targets, logits=logits)
        probs = tf.sigmoid(logits)
        probs_gt = tf.where(positive, probs, 1.0 - probs)
        loss = tf.pow(1.0 - probs_gt, GAMMA) * cross_entropy
        weighted = tf.where(positive, ALPHA * loss, (1.0 - ALPHA) * loss)
        return tf.reduce_sum(weighted * mask) / normalizer


def smooth_l1(outputs, targets, mask, normalizer):
    with tf.name_scope('smooth_l1'):
        sigma2 = SIGMA ** 2
        diff = tf.abs(outputs - targets)
        loss = tf.where(tf.less(diff, 1.0 / sigma2), 0.5 * sigma2 * tf.square(diff), diff - 0.5 / sigma2)
        return tf.reduce_sum(loss * mask) / normalizer


def tower(images, cls_targets, box_targets, training=True):
    pyramid = fpn(backbone(images))
    levels = range(MIN_LEVEL, MAX_LEVEL + 1)
    with tf.variable_scope('retinanet', reuse=tf.AUTO_REUSE):
        with tf.variable_scope('class_net'):
            cls = [head(pyramid[l], l, NUM_CLASSES, -np.log((1 - 0.1) / 0.1), 'class', training) for l in levels]
        with tf.variable_scope('box_net'):
            box = [head(pyramid[l], l, 4, 0.0, 'box', training) for l in levels]
    cls_outputs, box_outputs = tf.concat(cls, 1), tf.concat(box, 1)

    dtype = images.dtype
    positives = tf.cast(tf.greater(cls_targets, 0), dtype)
    not_ignored = tf.cast(tf.greater_equal(cls_targets, 0), dtype)
    normalizer = tf.maximum(tf.reduce_sum(positives), 1.0)
    one_hot = tf.one_hot(cls_targets - 1, NUM_CLASSES, dtype=dtype)
    cls_loss = focal_loss(cls_outputs, one_hot, tf.expand_dims(not_ignored, 2), normalizer)
    box_loss = smooth_l1(box_outputs, box_targets, tf.expand_dims(positives, 2), 4.0 * normalizer)
    return cls_loss + BOX_LOSS_WEIGHT * box_loss, {
        'cls_outputs': cls_outputs, 'box_outputs': box_outputs, 'cls_loss': cls_loss, 'box_loss': box_loss}
