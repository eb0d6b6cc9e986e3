"""MobileNetV3, a small one, in the manner of the slim code: expansion, depthwise convolution, squeeze and excitation behind the
activation, linear projection; a head that convolves once more behind the pooling, without batch norm."""
import tensorflow.compat.v1 as tf

NUM_CLASSES = 7
BN_MOMENTUM = 0.95
BN_EPSILON = 1e-3
WEIGHT_DECAY = 4e-5
LABEL_SMOOTHING = 0.1

# kernel, expanded channels, channels, squeeze and excitation, activation, stride
BOTTLENECKS = [
    (3, 8, 8, True, "RE", 1),
    (3, 24, 12, False, "RE", 2),
    (3, 32, 12, False, "RE", 1),
    (5, 40, 16, True, "HS", 2),
    (5, 48, 16, True, "HS", 1),
]


def hard_swish(x):
    with tf.name_scope("hard_swish"):
        return x * tf.nn.relu6(x + 3) * (1.0 / 6.0)


def activate(x, kind):
    if kind is None:
        return x
    return {"RE": tf.nn.relu, "HS": hard_swish}[kind](x)


def batch_norm(x, training):
    return tf.layers.batch_normalization(x, axis=-1, momentum=BN_MOMENTUM, epsilon=BN_EPSILON, training=training, fused=False,
                                         name="BatchNorm")


def conv2d(x, filters, kernel, stride, kind, training, scope):
    with tf.variable_scope(scope):
        x = tf.layers.conv2d(x, filters, kernel, strides=stride, padding="same", use_bias=False,
                             kernel_initializer=tf.variance_scaling_initializer(mode="fan_out"), name="conv")
        return activate(batch_norm(x, training), kind)


def depthwise(x, kernel, stride, kind, training, scope="depthwise"):
    with tf.variable_scope(scope):
        weights = tf.get_variable("depthwise_weights", [kernel, kernel, int(x.shape[-1]), 1],
                                  dtype=x.dtype, initializer=tf.truncated_normal_initializer(stddev=0.09, dtype=x.dtype))
        x = tf.nn.depthwise_conv2d(x, weights, [1, stride, stride, 1], "SAME")
        return activate(batch_norm(x, training), kind)


def squeeze_excite(x, scope="squeeze_excite"):
    channels = int(x.shape[-1])
    with tf.variable_scope(scope):
        pooled = tf.reduce_mean(x, [1, 2], keepdims=True)
        squeezed = tf.layers.conv2d(pooled, max(4, channels // 4), 1, activation=tf.nn.relu, name="Conv")
        gate = tf.layers.conv2d(squeezed, channels, 1, name="Conv_1")
        return x * (tf.nn.relu6(gate + 3) * 0.16667)


def bottleneck(x, kernel, expanded, filters, with_se, kind, stride, training, scope):
    with tf.variable_scope(scope):
        net = x
        if expanded != int(x.shape[-1]):
            net = conv2d(net, expanded, 1, 1, kind, training, "expand")
        net = depthwise(net, kernel, stride, kind, training)
        if with_se:
            net = squeeze_excite(net)
        net = conv2d(net, filters, 1, 1, None, training, "project")
        if stride == 1 and filters == int(x.shape[-1]):
            net = net + x
        return net


def tower(images, labels, training=True):
    end_points = {}
    with tf.variable_scope("MobilenetV3"):
        net = conv2d(images, 8, 3, 2, "HS", training, "Conv")
        end_points["stem"] = net
        for i, (kernel, expanded, filters, with_se, kind, stride) in enumerate(BOTTLENECKS):
            net = bottleneck(net, kernel, expanded, filters, with_se, kind, stride, training, "expanded_conv_%d" % i)
        end_points["features"] = net
        net = conv2d(net, 48, 1, 1, "HS", training, "Conv_1")
        net = tf.reduce_mean(net, [1, 2], keepdims=True)
        net = tf.layers.conv2d(net, 64, 1, activation=hard_swish, name="Conv_2")
        logits = tf.squeeze(tf.layers.conv2d(net, NUM_CLASSES, 1, name="Logits"), [1, 2])
    end_points["logits"] = logits
    one_hot = tf.one_hot(labels, NUM_CLASSES, dtype=logits.dtype)
    smoothed = one_hot * (1.0 - LABEL_SMOOTHING) + LABEL_SMOOTHING / NUM_CLASSES
    cross_entropy = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=smoothed, logits=logits))
    decayed = [v for v in tf.trainable_variables() if "kernel" in v.op.name]
    end_points["cross_entropy"] = cross_entropy
    return cross_entropy + WEIGHT_DECAY * tf.add_n([tf.nn.l2_loss(v) for v in decayed]), end_points
