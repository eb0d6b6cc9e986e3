"""YOLO v2 cut small, in raw variables: convolutions with batch norm and leaky ReLU, the passthrough of a finer map by space_to_depth,
and the loss over anchors with confidences that aim at the IoU."""
import tensorflow.compat.v1 as tf

ANCHORS = [[0.7, 0.8], [1.6, 1.0], [1.2, 2.2]]
CLASSES, GRID = 3, 4
COORD, NO_OBJECT, OBJECT, CLASS = 1.0, 0.5, 5.0, 1.0


def conv_bn(x, size, filters, name, training):
    with tf.variable_scope(name):
        w = tf.get_variable("w", [size, size, int(x.shape[-1]), filters], x.dtype, initializer=tf.glorot_normal_initializer())
        x = tf.nn.conv2d(x, w, [1, 1, 1, 1], "SAME")
        x = tf.layers.batch_normalization(x, momentum=0.9, epsilon=1e-3, training=training, fused=False, name="bn")
        return tf.maximum(0.1 * x, x)


def network(x, training):
    with tf.variable_scope("yolo"):
        x = conv_bn(x, 3, 6, "conv1", training)
        x = tf.nn.max_pool2d(x, 2, 2, "VALID")
        x = conv_bn(x, 3, 8, "conv2", training)
        x = tf.nn.max_pool2d(x, 2, 2, "VALID")
        x = fine = conv_bn(x, 3, 10, "conv3", training)
        x = tf.nn.max_pool2d(x, 2, 2, "VALID")
        x = conv_bn(x, 3, 16, "conv4", training)
        x = conv_bn(x, 3, 18, "conv5", training)
        skip = tf.space_to_depth(conv_bn(fine, 1, 4, "conv_skip", training), 2)
        x = conv_bn(tf.concat([skip, x], 3), 3, 20, "conv6", training)
        n = len(ANCHORS) * (5 + CLASSES)
        w = tf.get_variable("w_out", [1, 1, 20, n], x.dtype, initializer=tf.glorot_normal_initializer())
        b = tf.get_variable("b_out", [n], x.dtype, initializer=tf.zeros_initializer())
        return fine, tf.nn.conv2d(x, w, [1, 1, 1, 1], "SAME") + b


def tower(images, truth, training=True):
    fine, out = network(images, training)
    pred = tf.reshape(out, [-1, GRID, GRID, len(ANCHORS), 5 + CLASSES])
    column, row = tf.meshgrid(tf.range(GRID), tf.range(GRID))
    cells = tf.cast(tf.stack([column, row], 2)[None, :, :, None], out.dtype)
    xy = tf.sigmoid(pred[..., 0:2]) + cells
    wh = tf.exp(pred[..., 2:4]) * tf.constant(ANCHORS, out.dtype)
    confidence = tf.sigmoid(pred[..., 4])
    low = tf.maximum(xy - wh / 2, truth[..., 0:2] - truth[..., 2:4] / 2)
    high = tf.minimum(xy + wh / 2, truth[..., 0:2] + truth[..., 2:4] / 2)
    shared = tf.reduce_prod(tf.maximum(high - low, 0), -1)
    iou = shared / (tf.reduce_prod(wh, -1) + tf.reduce_prod(truth[..., 2:4], -1) - shared)
    here = truth[..., 4]
    aim = tf.stop_gradient(iou * here)
    count = tf.reduce_sum(here) + 1e-6
    loss_xy = tf.reduce_sum(tf.square(xy - truth[..., 0:2]) * here[..., None]) / count / 2 * COORD
    loss_wh = tf.reduce_sum(tf.square(tf.sqrt(wh) - tf.sqrt(truth[..., 2:4])) * here[..., None]) / count / 2 * COORD
    weight = OBJECT * here + NO_OBJECT * (1 - here)
    loss_conf = tf.reduce_sum(weight * tf.square(confidence - aim)) / tf.cast(tf.size(here), out.dtype) / 2
    entropy = tf.nn.softmax_cross_entropy_with_logits_v2(labels=truth[..., 5:], logits=pred[..., 5:])
    loss_class = CLASS * tf.reduce_sum(entropy * here) / count
    loss = loss_xy + loss_wh + loss_conf + loss_class
    return loss, {"fine": fine, "out": out, "loss_xy": loss_xy, "loss_wh": loss_wh, "loss_conf": loss_conf, "loss_class": loss_class}
