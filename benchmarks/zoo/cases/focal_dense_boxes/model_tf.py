"""One-stage detector without anchors: per-location classes, four distances and a centre-ness."""
import math

import tensorflow.compat.v1 as tf

NUM_CLASSES = 3
CHANNELS = 16
GROUPS = 4
ALPHA = 0.25
GAMMA = 2.0
WEIGHT_DECAY = 1e-3
EPSILON = 1e-7


def conv(scope, x, filters, size=3, stride=1, stddev=0.1, bias=None):
    with tf.variable_scope(scope):
        w = tf.get_variable("weights", [size, size, x.shape.as_list()[-1], filters], x.dtype,
                            initializer=tf.random_normal_initializer(stddev=stddev))
        y = tf.nn.conv2d(x, w, [1, stride, stride, 1], "SAME")
        if bias is not None:
            b = tf.get_variable("biases", [filters], x.dtype, initializer=tf.constant_initializer(bias))
            y = tf.nn.bias_add(y, b)
        return y


def group_norm(scope, x, eps=1e-5):
    with tf.variable_scope(scope):
        n, h, w, c = x.shape.as_list()
        y = tf.reshape(x, [-1, h, w, GROUPS, c // GROUPS])
        mean, variance = tf.nn.moments(y, [1, 2, 4], keep_dims=True)
        y = tf.reshape((y - mean) * tf.rsqrt(variance + eps), [-1, h, w, c])
        gamma = tf.get_variable("gamma", [c], x.dtype, initializer=tf.ones_initializer())
        beta = tf.get_variable("beta", [c], x.dtype, initializer=tf.zeros_initializer())
        return y * gamma + beta


def conv_gn_relu(scope, x, stride=1):
    with tf.variable_scope(scope):
        return tf.nn.relu(group_norm("gn", conv("conv", x, CHANNELS, stride=stride)))


def backbone(images):
    with tf.variable_scope("backbone"):
        c1 = tf.nn.relu(conv("conv1", images, 8, stride=2, bias=0.0))
        c2 = conv_gn_relu("conv2", c1, stride=2)
        c3 = conv_gn_relu("conv3", c2, stride=2)
    with tf.variable_scope("fpn"):
        p3 = conv("lateral3", c3, CHANNELS, 1, bias=0.0)
        p2 = conv("lateral2", c2, CHANNELS, 1, bias=0.0)
        up = tf.image.resize_nearest_neighbor(p3, p2.shape.as_list()[1:3])
        p2 = conv("smooth2", p2 + tf.cast(up, p2.dtype), CHANNELS, bias=0.0)
    return [p2, p3]


def head(feature, level):
    """Shared by the levels, but for one factor each."""
    with tf.variable_scope("head", reuse=tf.AUTO_REUSE):
        classes = conv_gn_relu("class_tower", feature)
        boxes = conv_gn_relu("box_tower", feature)
        logits = conv("class_out", classes, NUM_CLASSES, bias=-math.log((1 - 0.1) / 0.1))
        regression = conv("box_out", boxes, 4, bias=0.0)
        centreness = conv("centre_out", boxes, 1, bias=0.0)
    with tf.variable_scope("level%d" % level):
        scale = tf.get_variable("scale", [], feature.dtype, initializer=tf.ones_initializer())
    h, w = feature.shape.as_list()[1:3]
    return (tf.reshape(logits, [-1, h * w, NUM_CLASSES]), tf.reshape(tf.exp(scale * regression), [-1, h * w, 4]),
            tf.reshape(centreness, [-1, h * w]))


def focal_loss(logits, labels):
    one_hot = tf.one_hot(labels - 1, NUM_CLASSES, dtype=logits.dtype)
    p = tf.nn.sigmoid(logits)
    ce = tf.nn.sigmoid_cross_entropy_with_logits(labels=one_hot, logits=logits)
    p_t = one_hot * p + (1 - one_hot) * (1 - p)
    alpha_t = one_hot * ALPHA + (1 - one_hot) * (1 - ALPHA)
    return alpha_t * tf.pow(1 - p_t, GAMMA) * ce


def giou_loss(pred, target):
    pl, pt, pr, pb = tf.unstack(pred, axis=-1)
    tl, tt, tr, tb = tf.unstack(target, axis=-1)
    intersection = (tf.minimum(pl, tl) + tf.minimum(pr, tr)) * (tf.minimum(pt, tt) + tf.minimum(pb, tb))
    union = (pl + pr) * (pt + pb) + (tl + tr) * (tt + tb) - intersection
    enclosing = (tf.maximum(pl, tl) + tf.maximum(pr, tr)) * (tf.maximum(pt, tt) + tf.maximum(pb, tb))
    iou = intersection / (union + EPSILON)
    return 1 - (iou - (enclosing - union) / (enclosing + EPSILON))


def centreness_target(sides):
    l, t, r, b = tf.unstack(sides, axis=-1)
    return tf.sqrt((tf.minimum(l, r) / tf.maximum(l, r)) * (tf.minimum(t, b) / tf.maximum(t, b)))


def tower(images, labels, sides):
    features = backbone(images)
    outputs = [head(f, i + 1) for i, f in enumerate(features)]
    logits, boxes, centreness = [tf.concat(part, 1) for part in zip(*outputs)]

    positive = tf.cast(labels > 0, images.dtype)
    counted = tf.cast(labels >= 0, images.dtype)
    num_positive = tf.maximum(tf.reduce_sum(positive), 1.0)
    class_loss = tf.reduce_sum(focal_loss(logits, labels) * counted[:, :, None]) / num_positive

    quality = centreness_target(sides)
    box_loss = tf.reduce_sum(giou_loss(boxes, sides) * quality * positive) / tf.reduce_sum(quality * positive)
    centre_loss = tf.reduce_sum(
        tf.nn.sigmoid_cross_entropy_with_logits(labels=quality, logits=centreness) * positive) / num_positive
    decay = tf.add_n([tf.nn.l2_loss(v) for v in tf.trainable_variables() if v.op.name.endswith("weights")])
    loss = class_loss + box_loss + centre_loss + WEIGHT_DECAY * decay
    return loss, {"p2": features[0], "p3": features[1], "logits": logits, "boxes": boxes, "centreness": centreness,
                  "class_loss": class_loss, "box_loss": box_loss, "centre_loss": centre_loss}
