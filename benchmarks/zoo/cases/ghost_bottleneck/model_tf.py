"""A small GhostNet: ghost modules, squeeze and excitation with a hard sigmoid, label smoothing."""
import tensorflow.compat.v1 as tf

N_CLASSES = 8
WEIGHT_DECAY = 1e-4
LABEL_SMOOTHING = 0.1
BN_DECAY = 0.9
kernel_initializer = tf.variance_scaling_initializer(scale=2.0, mode="fan_out")


def bn(x, name, training):
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
        return tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-3)


def conv(x, filters, k, stride, name, use_bias=False):
    return tf.layers.conv2d(x, filters, k, strides=stride, padding="same", use_bias=use_bias,
                            kernel_initializer=kernel_initializer, name=name)


def depthwise(x, k, stride, name):
    with tf.variable_scope(name):
        w = tf.get_variable("depthwise_weights", [k, k, x.shape.as_list()[-1], 1], x.dtype,
                            initializer=kernel_initializer)
        return tf.nn.depthwise_conv2d(x, w, [1, stride, stride, 1], padding="SAME")


def hard_sigmoid(x):
    return tf.nn.relu6(x + 3.0) / 6.0


def ghost_module(x, filters, name, training, relu=True):
    """Half of the channels by a pointwise convolution, the other half from these by a cheap operation."""
    with tf.variable_scope(name):
        primary = bn(conv(x, filters // 2, 1, 1, "primary"), "primary_bn", training)
        primary = tf.nn.relu(primary) if relu else primary
        cheap = bn(depthwise(primary, 3, 1, "cheap"), "cheap_bn", training)
        cheap = tf.nn.relu(cheap) if relu else cheap
        return tf.concat([primary, cheap], axis=3)


def se(x, name, reduction=4):
    with tf.variable_scope(name):
        channels = x.shape.as_list()[-1]
        y = tf.reduce_mean(x, [1, 2], keepdims=True)
        y = tf.nn.relu(conv(y, channels // reduction, 1, 1, "squeeze", use_bias=True))
        y = hard_sigmoid(conv(y, channels, 1, 1, "excite", use_bias=True))
        return x * y


def bottleneck(x, hidden, filters, k, stride, use_se, name, training):
    with tf.variable_scope(name):
        y = ghost_module(x, hidden, "ghost1", training)
        if stride > 1:
            y = bn(depthwise(y, k, stride, "dw"), "dw_bn", training)
        if use_se:
            y = se(y, "se")
        y = ghost_module(y, filters, "ghost2", training, relu=False)
        if stride == 1 and x.shape.as_list()[-1] == filters:
            shortcut = x
        else:
            shortcut = bn(depthwise(x, k, stride, "shortcut_dw"), "shortcut_dw_bn", training)
            shortcut = bn(conv(shortcut, filters, 1, 1, "shortcut_conv"), "shortcut_bn", training)
        return y + shortcut


def tower(images, labels, training=True):
    x = tf.nn.relu(bn(conv(images, 8, 3, 1, "stem"), "stem_bn", training))
    end_points = {"stem": x}
    x = bottleneck(x, 16, 8, 3, 1, False, "block1", training)
    end_points["block1"] = x
    x = bottleneck(x, 24, 12, 3, 2, True, "block2", training)
    end_points["block2"] = x
    x = bottleneck(x, 36, 16, 5, 2, True, "block3", training)
    end_points["block3"] = x
    x = tf.nn.relu(bn(conv(x, 32, 1, 1, "head"), "head_bn", training))
    x = tf.reduce_mean(x, [1, 2], keepdims=True)
    x = tf.nn.relu(conv(x, 40, 1, 1, "feature", use_bias=True))
    logits = tf.layers.dense(tf.layers.flatten(x), N_CLASSES, name="classifier",
                             kernel_initializer=tf.random_normal_initializer(stddev=0.01))
    end_points["logits"] = logits
    onehot = tf.one_hot(labels, N_CLASSES, dtype=logits.dtype)
    onehot = onehot * (1.0 - LABEL_SMOOTHING) + LABEL_SMOOTHING / N_CLASSES
    xent = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=onehot, logits=logits))
    decayed = [v for v in tf.trainable_variables() if "bn" not in v.op.name and "bias" not in v.op.name]
    loss = xent + WEIGHT_DECAY * tf.add_n([tf.nn.l2_loss(v) for v in decayed])
    end_points["xent"] = xent
    return loss, end_points
