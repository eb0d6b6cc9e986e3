"""ResNet for small images, with the l2 decay in the loss."""
import tensorflow.compat.v1 as tf

WEIGHT_DECAY = 0.0005
BN_DECAY = 0.9
BN_EPSILON = 0.001


def _conv(name, x, filter_size, out_filters, stride):
    with tf.variable_scope(name):
        n = filter_size * filter_size * out_filters
        kernel = tf.get_variable("DW", [filter_size, filter_size, x.shape.as_list()[-1], out_filters], x.dtype,
                                 initializer=tf.random_normal_initializer(stddev=(2.0 / n) ** 0.5))
        return tf.nn.conv2d(x, kernel, [1, stride, stride, 1], padding="SAME")


def _batch_norm(name, x, is_training):
    with tf.variable_scope(name):
        shape = [x.shape.as_list()[-1]]
        beta = tf.get_variable("beta", shape, x.dtype, tf.zeros_initializer())
        gamma = tf.get_variable("gamma", shape, x.dtype, tf.ones_initializer())
        moving_mean = tf.get_variable("moving_mean", shape, x.dtype, tf.zeros_initializer(), trainable=False)
        moving_variance = tf.get_variable("moving_variance", shape, x.dtype, tf.ones_initializer(), trainable=False)
        if is_training:
            mean, variance = tf.nn.moments(x, [0, 1, 2])
            for moving, value in ((moving_mean, mean), (moving_variance, variance)):
                update = tf.assign_sub(moving, (moving - value) * (1 - BN_DECAY))
                tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, update)
        else:
            mean, variance = moving_mean, moving_variance
        return tf.nn.batch_normalization(x, mean, variance, beta, gamma, BN_EPSILON)


def _residual(x, out_filters, stride, is_training):
    shortcut = x
    with tf.variable_scope("sub1"):
        y = _conv("conv1", x, 3, out_filters, stride)
        y = tf.nn.relu(_batch_norm("bn1", y, is_training))
    with tf.variable_scope("sub2"):
        y = _conv("conv2", y, 3, out_filters, 1)
        y = _batch_norm("bn2", y, is_training)
    if stride != 1:
        with tf.variable_scope("shortcut"):
            shortcut = _batch_norm("bn", _conv("conv", x, 1, out_filters, stride), is_training)
    return tf.nn.relu(y + shortcut)


def tower(images, labels, training=True):
    with tf.variable_scope("init"):
        x = _conv("init_conv", images, 3, 8, 1)
        x = tf.nn.relu(_batch_norm("init_bn", x, training))
        x = tf.nn.max_pool(x, [1, 3, 3, 1], [1, 2, 2, 1], padding="SAME")
    end_points = {"stem": x}
    for i, (filters, stride) in enumerate([(8, 1), (16, 2), (32, 2)]):
        with tf.variable_scope("unit_%d_0" % (i + 1)):
            x = _residual(x, filters, stride, training)
        end_points["unit_%d" % (i + 1)] = x
    with tf.variable_scope("logit"):
        x = tf.reduce_mean(x, [1, 2])
        w = tf.get_variable("DW", [32, 10], x.dtype, initializer=tf.uniform_unit_scaling_initializer(factor=1.0))
        b = tf.get_variable("biases", [10], x.dtype, initializer=tf.constant_initializer())
        logits = tf.nn.xw_plus_b(x, w, b)
    with tf.variable_scope("costs"):
        xent = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=labels))
        decay = [tf.nn.l2_loss(v) for v in tf.trainable_variables() if v.op.name.find("DW") > 0]
        cost = xent + WEIGHT_DECAY * tf.add_n(decay)
    end_points["logits"] = logits
    end_points["cross_entropy"] = xent
    return cost, end_points
