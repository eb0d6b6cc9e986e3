"""A small EfficientNet: inverted bottlenecks with swish and squeeze and excitation."""
import tensorflow.compat.v1 as tf

NUM_CLASSES = 8
BN_MOMENTUM = 0.99
BN_EPSILON = 1e-3
SE_RATIO = 0.25
LABEL_SMOOTHING = 0.1
WEIGHT_DECAY = 1e-3

# kernel size, stride, expand ratio, output filters
BLOCKS = [(3, 1, 1, 8), (3, 2, 4, 12), (5, 1, 4, 12), (5, 2, 4, 16)]


def kernel_initializer(shape, dtype=None, partition_info=None):
    fan_out = shape[0] * shape[1] * shape[3]
    return tf.random_normal(shape, stddev=(2.0 / fan_out) ** 0.5, dtype=dtype)


def swish(x):
    return x * tf.nn.sigmoid(x)


def conv2d(x, filters, kernel_size, stride, name, use_bias=False):
    return tf.layers.conv2d(x, filters, kernel_size, stride, padding="same", use_bias=use_bias,
                            kernel_initializer=kernel_initializer, name=name)


def depthwise_conv2d(x, kernel_size, stride, name):
    with tf.variable_scope(name):
        kernel = tf.get_variable("depthwise_kernel", [kernel_size, kernel_size, x.shape.as_list()[-1], 1], x.dtype,
                                 initializer=tf.random_normal_initializer(stddev=(2.0 / kernel_size ** 2) ** 0.5))
        return tf.nn.depthwise_conv2d(x, kernel, [1, stride, stride, 1], padding="SAME")


def batch_norm(x, training, name):
    return tf.layers.batch_normalization(x, momentum=BN_MOMENTUM, epsilon=BN_EPSILON, training=training, fused=False,
                                         name=name)


def squeeze_excite(x, reduced, name):
    with tf.variable_scope(name):
        filters = x.shape.as_list()[-1]
        s = tf.reduce_mean(x, [1, 2], keepdims=True)
        s = swish(conv2d(s, reduced, 1, 1, "reduce", use_bias=True))
        s = conv2d(s, filters, 1, 1, "expand", use_bias=True)
        return tf.nn.sigmoid(s) * x


def mbconv_block(inputs, kernel_size, stride, expand_ratio, filters, training, name):
    with tf.variable_scope(name):
        input_filters = inputs.shape.as_list()[-1]
        x = inputs
        if expand_ratio != 1:
            x = conv2d(x, input_filters * expand_ratio, 1, 1, "expand_conv")
            x = swish(batch_norm(x, training, "expand_bn"))
        x = depthwise_conv2d(x, kernel_size, stride, "depthwise")
        x = swish(batch_norm(x, training, "depthwise_bn"))
        # by the filters that go into the block, not by the expanded ones
        x = squeeze_excite(x, max(1, int(input_filters * SE_RATIO)), "se")
        x = conv2d(x, filters, 1, 1, "project_conv")
        x = batch_norm(x, training, "project_bn")
        if stride == 1 and input_filters == filters:
            x = x + inputs
        return x


def tower(images, labels, training=True):
    end_points = {}
    with tf.variable_scope("efficientnet"):
        with tf.variable_scope("stem"):
            x = swish(batch_norm(conv2d(images, 8, 3, 2, "conv2d"), training, "bn"))
        end_points["stem"] = x
        for i, (kernel_size, stride, expand_ratio, filters) in enumerate(BLOCKS):
            x = mbconv_block(x, kernel_size, stride, expand_ratio, filters, training, "blocks_%d" % i)
            end_points["block_%d" % i] = x
        with tf.variable_scope("head"):
            x = swish(batch_norm(conv2d(x, 24, 1, 1, "conv2d"), training, "bn"))
            x = tf.reduce_mean(x, [1, 2])
            logits = tf.layers.dense(x, NUM_CLASSES, name="dense")
    soft_labels = tf.one_hot(labels, NUM_CLASSES, dtype=images.dtype) * (1 - LABEL_SMOOTHING) + LABEL_SMOOTHING / NUM_CLASSES
    cross_entropy = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=soft_labels, logits=logits))
    decay = [tf.nn.l2_loss(v) for v in tf.trainable_variables() if "bn" not in v.name]
    end_points["logits"] = logits
    end_points["cross_entropy"] = cross_entropy
    return cross_entropy + WEIGHT_DECAY * tf.add_n(decay), end_points
