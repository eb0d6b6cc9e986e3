"""MobileNet v2 in the manner of slim's nets/mobilenet: scopes Conv, expanded_conv, expanded_conv_1, ..., an expansion, a depthwise
convolution and a linear projection in each; l2 on everything but depthwise kernels and batch norm; label smoothing."""
import tensorflow.compat.v1 as tf

NUM_CLASSES = 6
WEIGHT_DECAY = 4e-4
LABEL_SMOOTHING = 0.1
BN_DECAY, BN_EPSILON = 0.9, 1e-3
# (expansion, output channels, repetitions, stride)
SPEC = [(1, 6, 1, 1), (4, 8, 2, 2), (4, 12, 2, 2)]


def l2(value):
    return WEIGHT_DECAY * tf.nn.l2_loss(value)


def weights(shape, dtype, stddev=0.09, regularize=True, name="weights"):
    init = tf.truncated_normal_initializer(stddev=stddev, dtype=dtype)
    value = tf.get_variable(name, shape, dtype, initializer=init)
    if regularize:
        tf.add_to_collection("tower_l2", l2(value))
    return value


def batch_norm(net, training):
    """slim.batch_norm, fused: the moving variance is of the unbiased variances. Written out, for the kernel knows no float64."""
    depth = net.shape[-1].value if hasattr(net.shape[-1], "value") else net.shape[-1]
    with tf.variable_scope("BatchNorm"):
        gamma = tf.get_variable("gamma", [depth], net.dtype, initializer=tf.ones_initializer())
        beta = tf.get_variable("beta", [depth], net.dtype, initializer=tf.zeros_initializer())
        moving_mean = tf.get_variable("moving_mean", [depth], net.dtype, initializer=tf.zeros_initializer(), trainable=False)
        moving_variance = tf.get_variable("moving_variance", [depth], net.dtype, initializer=tf.ones_initializer(), trainable=False)
        if training:
            mean, variance = tf.nn.moments(net, [0, 1, 2])
            count = tf.cast(tf.size(net) // depth, net.dtype)
            unbiased = variance * (count / (count - 1))
            tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign_sub(moving_mean, (moving_mean - mean) * (1 - BN_DECAY)))
            tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign_sub(moving_variance, (moving_variance - unbiased) * (1 - BN_DECAY)))
        else:
            mean, variance = moving_mean, moving_variance
        return tf.nn.batch_normalization(net, mean, variance, beta, gamma, BN_EPSILON)


def conv(net, depth, kernel, stride, training, scope, activation=tf.nn.relu6):
    with tf.variable_scope(scope):
        net = tf.nn.conv2d(net, weights([kernel, kernel, int(net.shape[-1]), depth], net.dtype), [1, stride, stride, 1], "SAME")
        net = batch_norm(net, training)
        return activation(net) if activation is not None else net


def depthwise(net, stride, training, scope):
    with tf.variable_scope(scope):
        kernel = weights([3, 3, int(net.shape[-1]), 1], net.dtype, regularize=False, name="depthwise_weights")
        net = tf.nn.depthwise_conv2d(net, kernel, [1, stride, stride, 1], "SAME")
        return tf.nn.relu6(batch_norm(net, training))


def expanded_conv(net, expansion, depth, stride, training, scope):
    residual = net
    with tf.variable_scope(scope):
        if expansion > 1:
            net = conv(net, expansion * int(net.shape[-1]), 1, 1, training, "expand")
        net = depthwise(net, stride, training, "depthwise")
        net = conv(net, depth, 1, 1, training, "project", activation=None)
        if stride == 1 and int(residual.shape[-1]) == depth:
            net = net + residual
        return tf.identity(net, "output")


def tower(images, labels, training=True):
    end_points = {}
    already = len(tf.get_collection("tower_l2"))
    with tf.variable_scope("MobilenetV2"):
        net = conv(images, 8, 3, 2, training, "Conv")
        end_points["stem"] = net
        number = 0
        for expansion, depth, repetitions, stride in SPEC:
            for i in range(repetitions):
                scope = "expanded_conv" if number == 0 else "expanded_conv_%d" % number
                net = expanded_conv(net, expansion, depth, stride if i == 0 else 1, training, scope)
                end_points["block_%d" % number] = net
                number += 1
        net = conv(net, 24, 1, 1, training, "Conv_1")
        with tf.variable_scope("Logits"):
            net = tf.reduce_mean(net, [1, 2], keepdims=True, name="global_pool")
            with tf.variable_scope("Conv2d_1c_1x1"):
                kernel = weights([1, 1, 24, NUM_CLASSES], net.dtype)
                biases = tf.get_variable("biases", [NUM_CLASSES], net.dtype, initializer=tf.zeros_initializer())
                net = tf.nn.bias_add(tf.nn.conv2d(net, kernel, [1, 1, 1, 1], "SAME"), biases)
            logits = tf.squeeze(net, [1, 2])
    end_points["logits"] = logits
    onehot = tf.one_hot(labels, NUM_CLASSES, dtype=logits.dtype)
    onehot = onehot * (1 - LABEL_SMOOTHING) + LABEL_SMOOTHING / NUM_CLASSES
    cross_entropy = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=onehot, logits=logits))
    end_points["cross_entropy"] = cross_entropy
    return cross_entropy + tf.add_n(tf.get_collection("tower_l2")[already:]), end_points
