"""Single-shot detector on a grid with anchors: darknet layers, squared errors, square roots of widths and heights."""
import numpy as np
import tensorflow.compat.v1 as tf

GRID = 4
CLASSES = 3
ANCHORS = np.array([[0.875, 1.625], [1.75, 1.125]])  # width, height in cells
COORD_SCALE = 5.0
OBJECT_SCALE = 1.0
NOOBJECT_SCALE = 0.5
CLASS_SCALE = 1.0
WEIGHT_DECAY = 5e-4
ALPHA = 0.1


def conv_layer(x, filters, size, name, training):
    with tf.variable_scope(name):
        x = tf.layers.conv2d(x, filters, size, padding="same", use_bias=False, name="conv")
        x = tf.layers.batch_normalization(x, momentum=0.9, epsilon=1e-5, training=training, fused=False, name="bn")
        return tf.maximum(ALPHA * x, x)


def pool_layer(x):
    return tf.layers.max_pooling2d(x, 2, 2, padding="same")


def backbone(x, training):
    x = pool_layer(conv_layer(x, 8, 3, "conv_1", training))
    x = pool_layer(conv_layer(x, 16, 3, "conv_2", training))
    x = pool_layer(conv_layer(x, 32, 3, "conv_3", training))
    x = conv_layer(x, 16, 1, "conv_4", training)
    return conv_layer(x, 32, 3, "conv_5", training)


def decode(net):
    """Returns boxes as fractions of the image, confidences and class logits of every anchor."""
    dtype = net.dtype
    n = len(ANCHORS)
    net = tf.reshape(net, [-1, GRID, GRID, n, 5 + CLASSES])
    offset = np.tile(np.arange(GRID)[None, :, None], [GRID, 1, n])
    x_offset = tf.constant(offset, dtype)
    y_offset = tf.constant(offset.transpose(1, 0, 2), dtype)
    anchors = tf.constant(ANCHORS.reshape(1, 1, 1, n, 2), dtype)
    x = (tf.sigmoid(net[..., 0]) + x_offset) / GRID
    y = (tf.sigmoid(net[..., 1]) + y_offset) / GRID
    size = tf.exp(net[..., 2:4]) * anchors / GRID
    boxes = tf.concat([x[..., None], y[..., None], size], axis=-1)
    return boxes, tf.sigmoid(net[..., 4]), net[..., 5:]


def calc_iou(a, b):
    upper_left = tf.maximum(a[..., :2] - a[..., 2:] / 2, b[..., :2] - b[..., 2:] / 2)
    lower_right = tf.minimum(a[..., :2] + a[..., 2:] / 2, b[..., :2] + b[..., 2:] / 2)
    wh = tf.maximum(lower_right - upper_left, 0)
    inter = wh[..., 0] * wh[..., 1]
    union = a[..., 2] * a[..., 3] + b[..., 2] * b[..., 3] - inter
    return inter / tf.maximum(union, 1e-10)


def tower(images, truth, responsible, classes, training=True):
    features = backbone(images, training)
    net = tf.layers.conv2d(features, len(ANCHORS) * (5 + CLASSES), 1, name="detection")
    boxes, confidence, class_logits = decode(net)
    target = tf.tile(truth[:, :, :, None, :], [1, 1, 1, len(ANCHORS), 1])
    iou = calc_iou(boxes, target)

    xy_delta = (boxes[..., :2] - target[..., :2]) * GRID
    wh_delta = tf.sqrt(boxes[..., 2:]) - tf.sqrt(target[..., 2:])
    coord = tf.reduce_sum(tf.square(xy_delta) + tf.square(wh_delta), axis=-1) * responsible
    objects = tf.square(tf.stop_gradient(iou) - confidence) * responsible
    noobjects = tf.square(confidence) * (1 - responsible)
    labels = tf.tile(classes[..., None], [1, 1, 1, len(ANCHORS)])
    kinds = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=class_logits) * responsible

    coord_loss = COORD_SCALE * tf.reduce_mean(tf.reduce_sum(coord, axis=[1, 2, 3]))
    object_loss = OBJECT_SCALE * tf.reduce_mean(tf.reduce_sum(objects, axis=[1, 2, 3]))
    noobject_loss = NOOBJECT_SCALE * tf.reduce_mean(tf.reduce_sum(noobjects, axis=[1, 2, 3]))
    class_loss = CLASS_SCALE * tf.reduce_mean(tf.reduce_sum(kinds, axis=[1, 2, 3]))
    decay = tf.add_n([tf.nn.l2_loss(v) for v in tf.trainable_variables() if "kernel" in v.op.name])
    loss = coord_loss + object_loss + noobject_loss + class_loss + WEIGHT_DECAY * decay
    return loss, {"features": features, "boxes": boxes, "confidence": confidence, "class_logits": class_logits,
                  "iou": iou, "coord_loss": coord_loss, "object_loss": object_loss,
                  "noobject_loss": noobject_loss, "class_loss": class_loss}
