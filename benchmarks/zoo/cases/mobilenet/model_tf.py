"""MobileNet v1, thin, with the variable names of the slim model."""
import tensorflow.compat.v1 as tf

NUM_CLASSES = 8
CONV_DEFS = [("sep", 1, 16), ("sep", 2, 24), ("sep", 1, 24), ("sep", 2, 48)]


def normalise(net, is_training):
    # fused=False: the moving variance is then the batch's own, without Bessel's correction
    return tf.layers.batch_normalization(
        net, momentum=0.95, epsilon=0.001, training=is_training, fused=False, name="BatchNorm")


def conv2d(net, filters, size, stride, scope, is_training):
    with tf.variable_scope(scope):
        weights = tf.get_variable("weights", [size, size, int(net.shape[-1]), filters], net.dtype,
                                  tf.truncated_normal_initializer(stddev=0.09))
        net = tf.nn.conv2d(net, weights, strides=[1, stride, stride, 1], padding="SAME")
        return tf.nn.relu6(normalise(net, is_training))


def depthwise_conv2d(net, size, stride, scope, is_training):
    with tf.variable_scope(scope):
        weights = tf.get_variable("depthwise_weights", [size, size, int(net.shape[-1]), 1], net.dtype,
                                  tf.truncated_normal_initializer(stddev=0.09))
        net = tf.nn.depthwise_conv2d(net, weights, [1, stride, stride, 1], padding="SAME")
        return tf.nn.relu6(normalise(net, is_training))


def mobilenet_v1(images, is_training):
    end_points = {}
    with tf.variable_scope("MobilenetV1"):
        net = conv2d(images, 8, 3, 2, "Conv2d_0", is_training)
        end_points["Conv2d_0"] = net
        for i, (_, stride, depth) in enumerate(CONV_DEFS, 1):
            net = depthwise_conv2d(net, 3, stride, "Conv2d_%d_depthwise" % i, is_training)
            net = conv2d(net, depth, 1, 1, "Conv2d_%d_pointwise" % i, is_training)
            end_points["Conv2d_%d" % i] = net
        with tf.variable_scope("Logits"):
            net = tf.reduce_mean(net, [1, 2], keep_dims=True, name="global_pool")
            with tf.variable_scope("Conv2d_1c_1x1"):
                weights = tf.get_variable("weights", [1, 1, int(net.shape[-1]), NUM_CLASSES], net.dtype,
                                          tf.truncated_normal_initializer(stddev=0.09))
                biases = tf.get_variable("biases", [NUM_CLASSES], net.dtype, tf.zeros_initializer())
                logits = tf.nn.bias_add(tf.nn.conv2d(net, weights, [1, 1, 1, 1], padding="SAME"), biases)
            logits = tf.squeeze(logits, [1, 2], name="SpatialSqueeze")
    return logits, end_points


def tower(images, labels, training=True):
    logits, end_points = mobilenet_v1(images, training)
    onehot = tf.one_hot(labels, NUM_CLASSES, dtype=logits.dtype)
    smooth = onehot * (1.0 - 0.1) + 0.1 / NUM_CLASSES
    loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=smooth, logits=logits))
    end_points["logits"] = logits
    return loss, end_points
