"""A small EfficientNet: MBConv blocks with squeeze and excitation, swish, drop connect.

Written after the kind of code in tensorflow/tpu's models/official/efficientnet: block arguments as tuples, SAME padding,
batch norm by plain moments, the l2 term over all that is not batch norm, label smoothing in the cross entropy.
"""
import tensorflow.compat.v1 as tf

NUM_CLASSES = 11
BATCH_NORM_MOMENTUM = 0.99
BATCH_NORM_EPSILON = 1e-3
LABEL_SMOOTHING = 0.1
WEIGHT_DECAY = 1e-4
KEEP_PROB = 0.8
SE_RATIO = 0.5

# kernel size, stride, expand ratio, output filters
BLOCKS = [(3, 1, 1, 10), (5, 2, 4, 16), (3, 1, 4, 16), (5, 2, 3, 22), (3, 1, 3, 22)]


def conv_kernel_initializer(shape, dtype=None, partition_info=None):
    kernel_height, kernel_width, _, out_filters = shape
    fan_out = int(kernel_height * kernel_width * out_filters)
    return tf.random_normal(shape, mean=0.0, stddev=(2.0 / fan_out) ** 0.5, dtype=dtype)


def conv2d(x, filters, kernel_size, strides=1, use_bias=False, name=None):
    return tf.layers.conv2d(x, filters, kernel_size, strides=strides, padding="same", use_bias=use_bias,
                            kernel_initializer=conv_kernel_initializer, name=name)


def depthwise_conv2d(x, kernel_size, strides, name):
    with tf.variable_scope(name):
        channels = x.shape.as_list()[-1]
        kernel = tf.get_variable("depthwise_kernel", [kernel_size, kernel_size, channels, 1], x.dtype,
                                 initializer=tf.random_normal_initializer(stddev=(2.0 / kernel_size ** 2) ** 0.5))
        return tf.nn.depthwise_conv2d(x, kernel, [1, strides, strides, 1], padding="SAME")


def batch_norm(x, training, name):
    return tf.layers.batch_normalization(x, momentum=BATCH_NORM_MOMENTUM, epsilon=BATCH_NORM_EPSILON, training=training,
                                         fused=False, name=name)


def swish(x):
    return x * tf.nn.sigmoid(x)


def se_block(x, input_filters):
    num_reduced_filters = max(1, int(input_filters * SE_RATIO))
    filters = x.shape.as_list()[-1]
    with tf.variable_scope("se"):
        squeezed = tf.reduce_mean(x, [1, 2], keepdims=True)
        squeezed = conv2d(swish(conv2d(squeezed, num_reduced_filters, 1, use_bias=True, name="conv2d")), filters, 1,
                          use_bias=True, name="conv2d_1")
        return tf.sigmoid(squeezed) * x


def drop_connect(x, survive, training):
    if not training:
        return x
    return tf.div(x, KEEP_PROB) * survive[:, None, None, None]


def mb_conv_block(x, args, survive, training):
    kernel_size, strides, expand_ratio, output_filters = args
    inputs = x
    input_filters = x.shape.as_list()[-1]
    if expand_ratio != 1:
        x = conv2d(x, input_filters * expand_ratio, 1, name="conv2d")
        x = swish(batch_norm(x, training, "tpu_batch_normalization"))
    x = depthwise_conv2d(x, kernel_size, strides, "depthwise_conv2d")
    x = swish(batch_norm(x, training, "tpu_batch_normalization_1"))
    x = se_block(x, input_filters)
    x = conv2d(x, output_filters, 1, name="conv2d_1")
    x = batch_norm(x, training, "tpu_batch_normalization_2")
    if strides == 1 and input_filters == output_filters:
        x = tf.add(drop_connect(x, survive, training), inputs)
    return x


def tower(images, labels, survive, training=True):
    endpoints = {}
    with tf.variable_scope("efficientnet"):
        with tf.variable_scope("stem"):
            x = swish(batch_norm(conv2d(images, 12, 3, 2, name="conv2d"), training, "tpu_batch_normalization"))
        endpoints["stem"] = x
        residuals = 0
        for idx, args in enumerate(BLOCKS):
            keep = survive[:, min(residuals, 1)]
            with tf.variable_scope("blocks_%d" % idx):
                before = x.shape.as_list()[-1]
                x = mb_conv_block(x, args, keep, training)
                residuals += int(args[1] == 1 and before == args[3])
            endpoints["block_%d" % idx] = x
        with tf.variable_scope("head"):
            x = swish(batch_norm(conv2d(x, 36, 1, name="conv2d"), training, "tpu_batch_normalization"))
            x = tf.reduce_mean(x, [1, 2])
            endpoints["pooled_features"] = x
            logits = tf.layers.dense(x, NUM_CLASSES, name="dense",
                                     kernel_initializer=tf.variance_scaling_initializer(1.0 / 3.0, "fan_out", "uniform"))
    endpoints["logits"] = logits
    one_hot_labels = tf.one_hot(labels, NUM_CLASSES, dtype=logits.dtype)
    smooth_labels = one_hot_labels * (1.0 - LABEL_SMOOTHING) + LABEL_SMOOTHING / NUM_CLASSES
    cross_entropy = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=smooth_labels, logits=logits))
    endpoints["cross_entropy"] = cross_entropy
    loss = cross_entropy + WEIGHT_DECAY * tf.add_n(
        [tf.nn.l2_loss(v) for v in tf.trainable_variables() if "batch_normalization" not in v.name])
    return loss, endpoints
