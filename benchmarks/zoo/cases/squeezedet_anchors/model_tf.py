"""SqueezeDet: fire modules, one convolution that predicts classes, confidence and box deltas of all anchors, and a loss whose
confidence follows the overlap with the box that an anchor is responsible for."""
import numpy as np
import tensorflow.compat.v1 as tf

from data import CLASSES, HEIGHT, SHAPES, WIDTH, anchors

ANCHOR_PER_GRID = len(SHAPES)
ANCHOR_BOX = anchors()
ANCHORS = len(ANCHOR_BOX)
WEIGHT_DECAY = 0.001
LOSS_COEF_BBOX = 5.0
LOSS_COEF_CONF_POS = 75.0
LOSS_COEF_CONF_NEG = 100.0
LOSS_COEF_CLASS = 1.0
EPSILON = 1e-16
EXP_THRESH = 1.0


def safe_exp(w, thresh):
    """exp, and its tangent behind thresh."""
    slope = np.exp(thresh)
    lin_bool = w > thresh
    lin_region = tf.cast(lin_bool, w.dtype)
    lin_out = slope * (w - thresh + 1.0)
    exp_out = tf.exp(tf.where(lin_bool, tf.zeros_like(w), w))
    return lin_region * lin_out + (1.0 - lin_region) * exp_out


def bbox_transform(bbox):
    cx, cy, w, h = bbox
    return [cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2]


def bbox_transform_inv(bbox):
    xmin, ymin, xmax, ymax = bbox
    width = xmax - xmin + 1.0
    height = ymax - ymin + 1.0
    return [xmin + 0.5 * width, ymin + 0.5 * height, width, height]


class SqueezeDet(object):
    def __init__(self, image_input, input_mask, box_delta_input, box_input, labels):
        self.image_input, self.input_mask = image_input, input_mask
        self.box_delta_input, self.box_input, self.labels = box_delta_input, box_input, labels
        self.losses = []
        self._add_forward_graph()
        self._add_interpretation_graph()
        self._add_loss_graph()

    def _variable_with_weight_decay(self, name, shape, wd, initializer):
        var = tf.get_variable(name, shape, self.image_input.dtype, initializer=initializer)
        if wd is not None:
            self.losses.append(tf.multiply(tf.nn.l2_loss(var), wd, name="weight_loss"))
        return var

    def _conv_layer(self, layer_name, inputs, filters, size, stride, padding="SAME", relu=True):
        with tf.variable_scope(layer_name):
            channels = inputs.get_shape()[3]
            kernel = self._variable_with_weight_decay("kernels", [size, size, int(channels), filters], WEIGHT_DECAY,
                                                      tf.glorot_uniform_initializer())
            biases = self._variable_with_weight_decay("biases", [filters], None, tf.constant_initializer(0.0))
            conv = tf.nn.conv2d(inputs, kernel, [1, stride, stride, 1], padding=padding, name="convolution")
            out = tf.nn.bias_add(conv, biases, name="bias_add")
            return tf.nn.relu(out, "relu") if relu else out

    def _pooling_layer(self, layer_name, inputs, size, stride, padding="SAME"):
        with tf.variable_scope(layer_name):
            return tf.nn.max_pool(inputs, ksize=[1, size, size, 1], strides=[1, stride, stride, 1], padding=padding)

    def _fire_layer(self, layer_name, inputs, s1x1, e1x1, e3x3):
        sq1x1 = self._conv_layer(layer_name + "/squeeze1x1", inputs, filters=s1x1, size=1, stride=1)
        ex1x1 = self._conv_layer(layer_name + "/expand1x1", sq1x1, filters=e1x1, size=1, stride=1)
        ex3x3 = self._conv_layer(layer_name + "/expand3x3", sq1x1, filters=e3x3, size=3, stride=1)
        return tf.concat([ex1x1, ex3x3], 3, name=layer_name + "/concat")

    def _add_forward_graph(self):
        conv1 = self._conv_layer("conv1", self.image_input, filters=12, size=3, stride=2)
        pool1 = self._pooling_layer("pool1", conv1, size=3, stride=2)
        fire2 = self._fire_layer("fire2", pool1, s1x1=6, e1x1=12, e3x3=12)
        self.fire3 = self._fire_layer("fire3", fire2, s1x1=6, e1x1=12, e3x3=12)
        pool3 = self._pooling_layer("pool3", self.fire3, size=3, stride=2)
        fire4 = self._fire_layer("fire4", pool3, s1x1=8, e1x1=16, e3x3=16)
        self.fire5 = self._fire_layer("fire5", fire4, s1x1=8, e1x1=16, e3x3=16)
        num_output = ANCHOR_PER_GRID * (CLASSES + 1 + 4)
        self.preds = self._conv_layer("conv6", self.fire5, filters=num_output, size=3, stride=1, relu=False)

    def _add_interpretation_graph(self):
        preds = self.preds
        num_class_probs = ANCHOR_PER_GRID * CLASSES
        self.pred_class_probs = tf.reshape(tf.nn.softmax(tf.reshape(preds[:, :, :, :num_class_probs], [-1, CLASSES])),
                                           [-1, ANCHORS, CLASSES], name="pred_class_probs")
        num_confidence_scores = ANCHOR_PER_GRID + num_class_probs
        self.pred_conf = tf.sigmoid(tf.reshape(preds[:, :, :, num_class_probs:num_confidence_scores], [-1, ANCHORS]))
        self.pred_box_delta = tf.reshape(preds[:, :, :, num_confidence_scores:], [-1, ANCHORS, 4], name="bbox_delta")
        self.num_objects = tf.reduce_sum(self.input_mask, name="num_objects")

        delta_x, delta_y, delta_w, delta_h = tf.unstack(self.pred_box_delta, axis=2)
        box_center_x = ANCHOR_BOX[:, 0] + delta_x * ANCHOR_BOX[:, 2]
        box_center_y = ANCHOR_BOX[:, 1] + delta_y * ANCHOR_BOX[:, 3]
        box_width = ANCHOR_BOX[:, 2] * safe_exp(delta_w, EXP_THRESH)
        box_height = ANCHOR_BOX[:, 3] * safe_exp(delta_h, EXP_THRESH)
        xmins, ymins, xmaxs, ymaxs = bbox_transform([box_center_x, box_center_y, box_width, box_height])
        xmins = tf.minimum(tf.maximum(tf.zeros_like(xmins), xmins), WIDTH - 1.0)
        ymins = tf.minimum(tf.maximum(tf.zeros_like(ymins), ymins), HEIGHT - 1.0)
        xmaxs = tf.maximum(tf.minimum(xmaxs, WIDTH - 1.0), 0.0)
        ymaxs = tf.maximum(tf.minimum(ymaxs, HEIGHT - 1.0), 0.0)
        self.det_boxes = tf.transpose(tf.stack(bbox_transform_inv([xmins, ymins, xmaxs, ymaxs])), (1, 2, 0), name="bbox")

        def _tensor_iou(box1, box2):
            w = tf.maximum(tf.minimum(box1[2], box2[2]) - tf.maximum(box1[0], box2[0]), 0.0)
            h = tf.maximum(tf.minimum(box1[3], box2[3]) - tf.maximum(box1[1], box2[1]), 0.0)
            intersection = w * h
            union = (box1[2] - box1[0]) * (box1[3] - box1[1]) + (box2[2] - box2[0]) * (box2[3] - box2[1]) - intersection
            return intersection / (union + EPSILON) * tf.squeeze(self.input_mask, 2)

        # a target, as it was when it was assigned to a variable that is not trained
        self.ious = tf.stop_gradient(_tensor_iou(bbox_transform(tf.unstack(self.det_boxes, axis=2)),
                                                 bbox_transform(tf.unstack(self.box_input, axis=2))))

    def _add_loss_graph(self):
        self.class_loss = tf.truediv(
            tf.reduce_sum((self.labels * (-tf.log(self.pred_class_probs + EPSILON))
                           + (1 - self.labels) * (-tf.log(1 - self.pred_class_probs + EPSILON)))
                          * self.input_mask * LOSS_COEF_CLASS),
            self.num_objects, name="class_loss")
        input_mask = tf.squeeze(self.input_mask, 2)
        self.conf_loss = tf.reduce_mean(
            tf.reduce_sum(tf.square(self.ious - self.pred_conf)
                          * (input_mask * LOSS_COEF_CONF_POS / self.num_objects
                             + (1 - input_mask) * LOSS_COEF_CONF_NEG / (ANCHORS - self.num_objects)), axis=[1]),
            name="confidence_loss")
        self.bbox_loss = tf.truediv(
            tf.reduce_sum(LOSS_COEF_BBOX * tf.square(self.input_mask * (self.pred_box_delta - self.box_delta_input))),
            self.num_objects, name="bbox_loss")
        self.losses += [self.class_loss, self.conf_loss, self.bbox_loss]
        self.loss = tf.add_n(self.losses, name="total_loss")


def tower(image_input, input_mask, box_delta_input, box_input, labels):
    model = SqueezeDet(image_input, input_mask, box_delta_input, box_input, labels)
    return model.loss, {"fire3": model.fire3, "fire5": model.fire5, "class_probs": model.pred_class_probs, "confidence": model.pred_conf,
                        "boxes": model.det_boxes, "class_loss": model.class_loss, "confidence_loss": model.conf_loss,
                        "bbox_loss": model.bbox_loss}
