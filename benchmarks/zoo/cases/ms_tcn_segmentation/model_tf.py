"""Multi-stage temporal convolutions for action segmentation."""
import tensorflow.compat.v1 as tf

NUM_STAGES = 3
NUM_LAYERS = 3
NUM_F_MAPS = 12
NUM_CLASSES = 5
TAU = 1.5
LAMBDA = 0.15


class Conv1D(object):
    """A convolution over time; its variables are made where it is first called."""

    def __init__(self, filters, width, dilation=1, name="conv"):
        self.filters, self.width, self.dilation, self.name = filters, width, dilation, name

    def __call__(self, x):
        with tf.variable_scope(self.name):
            kernel = tf.get_variable("kernel", [self.width, x.shape.as_list()[-1], self.filters], x.dtype,
                                     initializer=tf.glorot_uniform_initializer())
            bias = tf.get_variable("bias", [self.filters], x.dtype, initializer=tf.zeros_initializer())
            return tf.nn.convolution(x, kernel, padding="SAME", dilation_rate=[self.dilation]) + bias


def dilated_residual_layer(x, mask, dilation, scope):
    with tf.variable_scope(scope):
        out = tf.nn.relu(Conv1D(NUM_F_MAPS, 3, dilation, "conv_dilated")(x))
        out = Conv1D(NUM_F_MAPS, 1, name="conv_1x1")(out)
        return (x + out) * mask


def single_stage(x, mask, scope):
    with tf.variable_scope(scope):
        out = Conv1D(NUM_F_MAPS, 1, name="conv_in")(x)
        for i in range(NUM_LAYERS):
            out = dilated_residual_layer(out, mask, 2 ** i, "layer_%d" % i)
        return Conv1D(NUM_CLASSES, 1, name="conv_out")(out) * mask


def tower(features, labels, mask):
    expanded = tf.expand_dims(mask, 2)
    outputs = [single_stage(features, expanded, "stage_0")]
    for s in range(1, NUM_STAGES):
        outputs.append(single_stage(tf.nn.softmax(outputs[-1]) * expanded, expanded, "stage_%d" % s))
    counted = tf.reduce_sum(mask)
    safe_labels = tf.where(labels < 0, tf.zeros_like(labels), labels)
    ce_losses, smoothing_losses = [], []
    for p in outputs:
        ce = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=safe_labels, logits=p)
        ce_losses.append(tf.reduce_sum(ce * mask) / counted)
        log_p = tf.nn.log_softmax(p)
        delta = tf.square(log_p[:, 1:] - tf.stop_gradient(log_p[:, :-1]))
        delta = tf.clip_by_value(delta, 0, TAU ** 2)
        smoothing_losses.append(tf.reduce_mean(delta * expanded[:, 1:]))
    classification, smoothing = tf.add_n(ce_losses), tf.add_n(smoothing_losses)
    loss = classification + LAMBDA * smoothing
    end_points = {"stage_%d" % s: p for s, p in enumerate(outputs)}
    end_points.update(classification=classification, smoothing=smoothing)
    return loss, end_points
