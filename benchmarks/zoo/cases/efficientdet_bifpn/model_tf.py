"""EfficientDet in small: three levels, BiFPN layers with fast attention, heads whose convolutions are shared by the levels while
each level has batch norms of its own."""
import numpy as np
import tensorflow.compat.v1 as tf

NUM_CLASSES = 3
NUM_ANCHORS = 2
FPN_FILTERS = 14
FPN_REPEATS = 2
HEAD_REPEATS = 2
LEVELS = (3, 4, 5)
ALPHA, GAMMA = 0.25, 1.5
DELTA = 0.1
BOX_LOSS_WEIGHT = 50.0


def swish(x):
    return x * tf.sigmoid(x)


def batch_norm_act(x, training, act=True, name=None):
    x = tf.layers.batch_normalization(x, momentum=0.99, epsilon=1e-3, training=training, fused=False, name=name)
    return swish(x) if act else x


def separable_conv(x, filters, name, use_bias=False, bias_initializer=None):
    return tf.layers.separable_conv2d(x, filters, 3, padding="same", use_bias=use_bias,
                                      bias_initializer=bias_initializer or tf.zeros_initializer(), name=name)


def backbone(images, training):
    features = {}
    with tf.variable_scope("backbone"):
        x = tf.layers.conv2d(images, 8, 3, strides=2, padding="same", use_bias=False, name="stem_conv")
        x = batch_norm_act(x, training, name="stem_bn")
        for level, filters in ((3, 12), (4, 18)):
            with tf.variable_scope("stage_%d" % level):
                x = tf.layers.separable_conv2d(x, filters, 3, strides=2, padding="same", use_bias=False, name="down")
                x = batch_norm_act(x, training, name="down_bn")
                y = separable_conv(x, filters, "conv")
                x = x + batch_norm_act(y, training, name="bn")
                features[level] = x
    return features


def resample(x, target_width, name, training):
    """to the number of filters and the size of the target"""
    with tf.variable_scope("resample_" + name):
        width = x.shape.as_list()[2]
        if x.shape.as_list()[3] != FPN_FILTERS:
            x = tf.layers.conv2d(x, FPN_FILTERS, 1, padding="same", use_bias=False, name="conv2d")
            x = batch_norm_act(x, training, act=False, name="bn")
        if width > target_width:
            x = tf.layers.max_pooling2d(x, 3, width // target_width, padding="same")
        elif width < target_width:
            x = tf.image.resize_nearest_neighbor(x, [target_width, target_width])
        return x


def fuse(nodes, name):
    with tf.variable_scope(name):
        weights = tf.get_variable("WSM", [len(nodes)], dtype=nodes[0].dtype, initializer=tf.ones_initializer())
        weights = tf.nn.relu(weights)
        total = tf.reduce_sum(weights) + 0.0001
        return tf.add_n([nodes[i] * weights[i] / total for i in range(len(nodes))])


def node(inputs, width, name, training):
    with tf.variable_scope(name):
        inputs = [resample(x, width, "%d" % i, training) for i, x in enumerate(inputs)]
        x = swish(fuse(inputs, "fuse"))
        x = separable_conv(x, FPN_FILTERS, "conv")
        return batch_norm_act(x, training, act=False, name="bn")


def bifpn_layer(p3, p4, p5, training):
    w3, w4, w5 = [p.shape.as_list()[2] for p in (p3, p4, p5)]
    p4_td = node([p4, p5], w4, "p4_td", training)
    p3_out = node([p3, p4_td], w3, "p3_out", training)
    p4_out = node([p4, p4_td, p3_out], w4, "p4_out", training)
    p5_out = node([p5, p4_out], w5, "p5_out", training)
    return p3_out, p4_out, p5_out


def head(features, outputs, prefix, training, bias=0.0):
    per_level = []
    with tf.variable_scope(prefix + "_net"):
        for level, x in zip(LEVELS, features):
            for i in range(HEAD_REPEATS):
                with tf.variable_scope(tf.get_variable_scope(), reuse=tf.AUTO_REUSE):
                    x = separable_conv(x, FPN_FILTERS, "%s-%d" % (prefix, i))
                x = batch_norm_act(x, training, name="%s-%d-bn-%d" % (prefix, i, level))
            with tf.variable_scope(tf.get_variable_scope(), reuse=tf.AUTO_REUSE):
                x = separable_conv(x, NUM_ANCHORS * outputs, prefix + "-predict", True, tf.constant_initializer(bias))
            per_level.append(tf.reshape(x, [tf.shape(x)[0], -1, outputs]))
    return tf.concat(per_level, axis=1)


def focal_loss(logits, targets, normalizer):
    one_hot = tf.one_hot(targets, NUM_CLASSES, dtype=logits.dtype)
    prob = tf.sigmoid(logits)
    p_t = one_hot * prob + (1 - one_hot) * (1 - prob)
    alpha = one_hot * ALPHA + (1 - one_hot) * (1 - ALPHA)
    ce = tf.nn.sigmoid_cross_entropy_with_logits(labels=one_hot, logits=logits)
    loss = alpha * tf.pow(1 - p_t, GAMMA) * ce / normalizer
    keep = tf.cast(tf.not_equal(targets, -2), logits.dtype)
    return tf.reduce_sum(loss * tf.expand_dims(keep, -1))


def box_loss(boxes, targets, num_positives):
    mask = tf.cast(tf.not_equal(targets, 0.0), targets.dtype)
    error = tf.abs(boxes - targets)
    quadratic = tf.minimum(error, DELTA)
    huber = 0.5 * tf.square(quadratic) + DELTA * (error - quadratic)
    return tf.reduce_sum(huber * mask) / (num_positives * 4.0)


def tower(images, cls_targets, box_targets, num_positives, training=True):
    mean = np.array([0.485, 0.456, 0.406])
    stddev = np.array([0.229, 0.224, 0.225])
    images = (images - tf.constant(mean, images.dtype)) / tf.constant(stddev, images.dtype)
    c = backbone(images, training)
    with tf.variable_scope("fpn_inputs"):
        p3, p4 = [resample(c[k], c[k].shape.as_list()[2], "p%d" % k, training) for k in (3, 4)]
        p5 = resample(c[4], c[4].shape.as_list()[2] // 2, "p5", training)
    feats = (p3, p4, p5)
    for i in range(FPN_REPEATS):
        with tf.variable_scope("fpn_cell_%d" % i):
            feats = bifpn_layer(*feats, training=training)
    cls_outputs = head(feats, NUM_CLASSES, "class", training, bias=-np.log((1 - 0.1) / 0.1))
    box_outputs = head(feats, 4, "box", training)

    positives = tf.reduce_sum(num_positives) + 1.0
    cls = focal_loss(cls_outputs, cls_targets, positives)
    box = box_loss(box_outputs, box_targets, positives)
    return cls + BOX_LOSS_WEIGHT * box, {"cls_outputs": cls_outputs, "box_outputs": box_outputs, "cls_loss": cls, "box_loss": box}
