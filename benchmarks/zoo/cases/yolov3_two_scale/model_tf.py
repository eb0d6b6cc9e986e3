"""YOLOv3 with two scales: a small darknet, a feature pyramid, and the loss in its parts."""
import tensorflow.compat.v1 as tf

ANCHORS = [(5, 7), (9, 6), (8, 12), (16, 10), (12, 18), (26, 20)]
CLASS_NUM = 4
IMG_SIZE = (32, 48)
BN_DECAY = 0.99
BN_EPSILON = 1e-5


def batch_norm(x, training, name):
    with tf.variable_scope(name):
        shape = [x.shape.as_list()[-1]]
        beta = tf.get_variable("beta", shape, x.dtype, tf.zeros_initializer())
        gamma = tf.get_variable("gamma", shape, x.dtype, tf.ones_initializer())
        moving_mean = tf.get_variable("moving_mean", shape, x.dtype, tf.zeros_initializer(), trainable=False)
        moving_variance = tf.get_variable("moving_variance", shape, x.dtype, tf.ones_initializer(), trainable=False)
        if training:
            mean, variance = tf.nn.moments(x, [0, 1, 2])
            for moving, value in ((moving_mean, mean), (moving_variance, variance)):
                tf.add_to_collection(tf.GraphKeys.UPDATE_OPS,
                                     tf.assign_sub(moving, (moving - value) * (1.0 - BN_DECAY)))
        else:
            mean, variance = moving_mean, moving_variance
        return tf.nn.batch_normalization(x, mean, variance, beta, gamma, BN_EPSILON)


def conv2d(inputs, filters, kernel_size, training, strides=1):
    if strides > 1:
        pad = kernel_size - 1
        inputs = tf.pad(inputs, [[0, 0], [pad // 2, pad - pad // 2], [pad // 2, pad - pad // 2], [0, 0]])
    with tf.variable_scope(None, default_name="Conv"):
        kernel = tf.get_variable("weights", [kernel_size, kernel_size, inputs.shape.as_list()[-1], filters],
                                 inputs.dtype, initializer=tf.glorot_uniform_initializer())
        x = tf.nn.conv2d(inputs, kernel, [1, strides, strides, 1], padding="SAME" if strides == 1 else "VALID")
        x = batch_norm(x, training, "BatchNorm")
        return tf.maximum(0.1 * x, x)


def res_block(inputs, filters, training):
    net = conv2d(inputs, filters, 1, training)
    net = conv2d(net, filters * 2, 3, training)
    return net + inputs


def detection(net, training, name):
    with tf.variable_scope(name):
        kernel = tf.get_variable("weights", [1, 1, net.shape.as_list()[-1], 3 * (5 + CLASS_NUM)], net.dtype,
                                 initializer=tf.truncated_normal_initializer(stddev=0.05))
        bias = tf.get_variable("biases", [3 * (5 + CLASS_NUM)], net.dtype, initializer=tf.zeros_initializer())
        return tf.nn.bias_add(tf.nn.conv2d(net, kernel, [1, 1, 1, 1], padding="SAME"), bias)


def yolo_v3(inputs, training):
    with tf.variable_scope("darknet"):
        net = conv2d(inputs, 8, 3, training)
        net = conv2d(net, 16, 3, training, strides=2)
        net = res_block(net, 8, training)
        net = conv2d(net, 24, 3, training, strides=2)
        route = net = res_block(net, 12, training)
        net = conv2d(net, 40, 3, training, strides=2)
        net = res_block(net, 20, training)
    with tf.variable_scope("yolov3_head"):
        inter = conv2d(net, 24, 1, training)
        net = conv2d(inter, 40, 3, training)
        feature_map_1 = detection(net, training, "feature_map_1")
        inter = conv2d(inter, 12, 1, training)
        new_height, new_width = route.shape.as_list()[1:3]
        inter = tf.image.resize_nearest_neighbor(inter, (new_height, new_width))
        concat = tf.concat([inter, route], axis=3)
        net = conv2d(concat, 20, 1, training)
        net = conv2d(net, 32, 3, training)
        feature_map_2 = detection(net, training, "feature_map_2")
    return route, feature_map_1, feature_map_2


def reorg_layer(feature_map, anchors):
    grid_size = feature_map.shape.as_list()[1:3]
    ratio = tf.cast([IMG_SIZE[0] / grid_size[0], IMG_SIZE[1] / grid_size[1]], feature_map.dtype)
    rescaled_anchors = tf.stack([(a[0] / ratio[1], a[1] / ratio[0]) for a in anchors])
    feature_map = tf.reshape(feature_map, [-1, grid_size[0], grid_size[1], 3, 5 + CLASS_NUM])
    box_centers, box_sizes, conf_logits, prob_logits = tf.split(feature_map, [2, 2, 1, CLASS_NUM], axis=-1)
    box_centers = tf.nn.sigmoid(box_centers)
    grid_x, grid_y = tf.meshgrid(tf.range(grid_size[1]), tf.range(grid_size[0]))
    x_y_offset = tf.concat([tf.reshape(grid_x, (-1, 1)), tf.reshape(grid_y, (-1, 1))], axis=-1)
    x_y_offset = tf.cast(tf.reshape(x_y_offset, [grid_size[0], grid_size[1], 1, 2]), feature_map.dtype)
    box_centers = (box_centers + x_y_offset) * ratio[::-1]
    box_sizes = tf.exp(box_sizes) * rescaled_anchors * ratio[::-1]
    return x_y_offset, tf.concat([box_centers, box_sizes], axis=-1), conf_logits, prob_logits, ratio


def box_iou(pred, true):
    """pred [N, P, 1, 4], true [N, 1, T, 4], in centres and sizes; gives [N, P, T]."""
    mins = tf.maximum(pred[..., 0:2] - pred[..., 2:4] / 2.0, true[..., 0:2] - true[..., 2:4] / 2.0)
    maxs = tf.minimum(pred[..., 0:2] + pred[..., 2:4] / 2.0, true[..., 0:2] + true[..., 2:4] / 2.0)
    wh = tf.maximum(maxs - mins, 0.0)
    inter = wh[..., 0] * wh[..., 1]
    return inter / (pred[..., 2] * pred[..., 3] + true[..., 2] * true[..., 3] - inter + 1e-10)


def loss_layer(feature_map_i, y_true, anchors):
    dtype = feature_map_i.dtype
    n = tf.cast(tf.shape(feature_map_i)[0], dtype)
    x_y_offset, pred_boxes, pred_conf_logits, pred_prob_logits, ratio = reorg_layer(feature_map_i, anchors)
    cells = pred_boxes.shape.as_list()[1] * pred_boxes.shape.as_list()[2] * 3
    anchors = tf.constant(anchors, dtype)

    object_mask = y_true[..., 4:5]
    iou = box_iou(tf.reshape(pred_boxes, [-1, cells, 1, 4]), tf.reshape(y_true[..., 0:4], [-1, 1, cells, 4]))
    best_iou = tf.reduce_max(iou * tf.reshape(object_mask, [-1, 1, cells]), axis=-1)
    ignore_mask = tf.cast(tf.reshape(best_iou, tf.shape(object_mask)) < 0.5, dtype)

    true_xy = y_true[..., 0:2] / ratio[::-1] - x_y_offset
    pred_xy = pred_boxes[..., 0:2] / ratio[::-1] - x_y_offset
    true_tw_th = y_true[..., 2:4] / anchors
    pred_tw_th = pred_boxes[..., 2:4] / anchors
    true_tw_th = tf.where(tf.equal(true_tw_th, 0), tf.ones_like(true_tw_th), true_tw_th)
    pred_tw_th = tf.where(tf.equal(pred_tw_th, 0), tf.ones_like(pred_tw_th), pred_tw_th)
    true_tw_th = tf.log(tf.clip_by_value(true_tw_th, 1e-9, 1e9))
    pred_tw_th = tf.log(tf.clip_by_value(pred_tw_th, 1e-9, 1e9))

    # small boxes count more
    box_loss_scale = 2.0 - (y_true[..., 2:3] / IMG_SIZE[1]) * (y_true[..., 3:4] / IMG_SIZE[0])
    xy_loss = tf.reduce_sum(tf.square(true_xy - pred_xy) * object_mask * box_loss_scale) / n
    wh_loss = tf.reduce_sum(tf.square(true_tw_th - pred_tw_th) * object_mask * box_loss_scale) / n

    conf_pos_mask = object_mask
    conf_neg_mask = (1 - object_mask) * ignore_mask
    conf_xent = tf.nn.sigmoid_cross_entropy_with_logits(labels=object_mask, logits=pred_conf_logits)
    conf_loss = tf.reduce_sum(conf_pos_mask * conf_xent + conf_neg_mask * conf_xent) / n

    delta = 0.01
    label_target = (1 - delta) * y_true[..., 5:] + delta * 1.0 / CLASS_NUM
    class_loss = object_mask * tf.nn.sigmoid_cross_entropy_with_logits(labels=label_target, logits=pred_prob_logits)
    class_loss = tf.reduce_sum(class_loss) / n
    return xy_loss, wh_loss, conf_loss, class_loss


def tower(images, labels_large, labels_small, training=True):
    route, feature_map_1, feature_map_2 = yolo_v3(images, training)
    parts = [0.0, 0.0, 0.0, 0.0]
    for feature_map, y_true, anchors in ((feature_map_1, labels_large, ANCHORS[3:]),
                                         (feature_map_2, labels_small, ANCHORS[:3])):
        parts = [a + b for a, b in zip(parts, loss_layer(feature_map, y_true, anchors))]
    total = parts[0] + parts[1] + parts[2] + parts[3]
    return total, {"route": route, "feature_map_1": feature_map_1, "feature_map_2": feature_map_2,
                   "xy_loss": parts[0], "wh_loss": parts[1], "conf_loss": parts[2], "class_loss": parts[3]}
