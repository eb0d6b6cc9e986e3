"""Region proposal network of Faster R-CNN on a small VGG whose first block is fixed."""
import numpy as np
import tensorflow.compat.v1 as tf

PIXEL_MEANS = np.array([0.406, 0.456, 0.485])  # blue, green, red
NUM_ANCHORS = 3
WEIGHT_DECAY = 0.0005


def conv2d(x, num_outputs, kernel_size, scope, activation_fn=tf.nn.relu, trainable=True, stddev=0.1):
    with tf.variable_scope(scope):
        channels = x.get_shape().as_list()[-1]
        weights = tf.get_variable("weights", [kernel_size, kernel_size, channels, num_outputs], x.dtype,
                                  initializer=tf.truncated_normal_initializer(0.0, stddev), trainable=trainable)
        biases = tf.get_variable("biases", [num_outputs], x.dtype, initializer=tf.zeros_initializer(),
                                 trainable=trainable)
        net = tf.nn.bias_add(tf.nn.conv2d(x, weights, [1, 1, 1, 1], padding="SAME"), biases)
        return net if activation_fn is None else activation_fn(net)


def max_pool(x, scope):
    return tf.nn.max_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], padding="VALID", name=scope)


def _reshape_layer(bottom, num_dim, name):
    shape = tf.shape(bottom)
    with tf.variable_scope(name):
        # to caffe's order, and back
        to_caffe = tf.transpose(bottom, [0, 3, 1, 2])
        reshaped = tf.reshape(to_caffe, [shape[0], num_dim, -1, shape[2]])
        return tf.transpose(reshaped, [0, 2, 3, 1])


def _smooth_l1_loss(bbox_pred, bbox_targets, bbox_inside_weights, bbox_outside_weights, sigma=1.0, dim=(1,)):
    sigma_2 = sigma ** 2
    in_box_diff = bbox_inside_weights * (bbox_pred - bbox_targets)
    abs_in_box_diff = tf.abs(in_box_diff)
    sign = tf.stop_gradient(tf.cast(tf.less(abs_in_box_diff, 1.0 / sigma_2), bbox_pred.dtype))
    in_loss_box = tf.pow(in_box_diff, 2) * (sigma_2 / 2.0) * sign + (abs_in_box_diff - (0.5 / sigma_2)) * (1.0 - sign)
    out_loss_box = bbox_outside_weights * in_loss_box
    return tf.reduce_mean(tf.reduce_sum(out_loss_box, axis=list(dim)))


def tower(images, rpn_labels, rpn_bbox_targets, rpn_bbox_inside_weights, rpn_bbox_outside_weights):
    with tf.variable_scope("vgg_16"):
        net = tf.reverse(images, [3]) - tf.constant(PIXEL_MEANS, images.dtype)
        net = conv2d(net, 8, 3, "conv1", trainable=False, stddev=0.3)
        net = max_pool(net, "pool1")
        net = conv2d(net, 16, 3, "conv2")
        net = max_pool(net, "pool2")
        net_conv = conv2d(net, 24, 3, "conv3")
        rpn = conv2d(net_conv, 32, 3, "rpn_conv")
        rpn_cls_score = conv2d(rpn, NUM_ANCHORS * 2, 1, "rpn_cls_score", activation_fn=None)
        rpn_cls_score_reshape = _reshape_layer(rpn_cls_score, 2, "rpn_cls_score_reshape")
        rpn_bbox_pred = conv2d(rpn, NUM_ANCHORS * 4, 1, "rpn_bbox_pred", activation_fn=None)

    with tf.variable_scope("loss"):
        score = tf.reshape(rpn_cls_score_reshape, [-1, 2])
        label = tf.reshape(rpn_labels, [-1])
        rpn_select = tf.where(tf.not_equal(label, -1))
        score = tf.reshape(tf.gather(score, rpn_select), [-1, 2])
        label = tf.reshape(tf.gather(label, rpn_select), [-1])
        rpn_cross_entropy = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(logits=score, labels=label))
        rpn_loss_box = _smooth_l1_loss(rpn_bbox_pred, rpn_bbox_targets, rpn_bbox_inside_weights,
                                       rpn_bbox_outside_weights, sigma=3.0, dim=[1, 2, 3])
        decay = tf.add_n([tf.nn.l2_loss(v) for v in tf.trainable_variables() if v.op.name.endswith("weights")])
        loss = rpn_cross_entropy + rpn_loss_box + WEIGHT_DECAY * decay
    return loss, {"net_conv": net_conv, "rpn": rpn, "rpn_cls_score": rpn_cls_score_reshape,
                  "rpn_bbox_pred": rpn_bbox_pred, "rpn_cross_entropy": rpn_cross_entropy,
                  "rpn_loss_box": rpn_loss_box}
