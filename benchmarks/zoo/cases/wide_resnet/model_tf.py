"""Wide residual net with pre-activation, after the TF1 ports of WRN for CIFAR: tf.layers, l2 of the kernels in the loss, and
cutout, whose masks come with the data."""
import tensorflow.compat.v1 as tf

NUM_CLASSES = 7
WEIGHT_DECAY = 5e-4
BN_MOMENTUM = 0.9
BN_EPSILON = 1e-5


def conv(x, filters, size, strides, name):
    return tf.layers.conv2d(x, filters, size, strides, padding="SAME", use_bias=False,
                            kernel_initializer=tf.variance_scaling_initializer(2.0, mode="fan_out"), name=name)


def bn_relu(x, training, name):
    x = tf.layers.batch_normalization(x, momentum=BN_MOMENTUM, epsilon=BN_EPSILON, training=training, fused=False, name=name)
    return tf.nn.relu(x)


def wide_block(x, filters, strides, training):
    pre = bn_relu(x, training, "bn_0")
    if x.shape.as_list()[-1] != filters:
        shortcut = conv(pre, filters, 1, strides, "projection")
    else:
        shortcut = x
    y = conv(pre, filters, 3, strides, "conv_0")
    y = bn_relu(y, training, "bn_1")
    y = conv(y, filters, 3, 1, "conv_1")
    return y + shortcut


def wide_group(x, filters, blocks, strides, training, name):
    with tf.variable_scope(name):
        for i in range(blocks):
            with tf.variable_scope("block_%d" % i):
                x = wide_block(x, filters, strides if i == 0 else 1, training)
    return x


def tower(images, cutout, labels, training=True):
    x = images
    if training:
        x = x * cutout[:, :, :, tf.newaxis]
    end_points = {}
    x = conv(x, 6, 3, 1, "init_conv")
    for i, (filters, blocks, strides) in enumerate([(10, 2, 1), (14, 1, 2), (22, 1, 2)]):
        name = "group_%d" % i
        x = end_points[name] = wide_group(x, filters, blocks, strides, training, name)
    x = bn_relu(x, training, "final_bn")
    x = tf.reduce_mean(x, [1, 2])
    logits = tf.layers.dense(x, NUM_CLASSES, name="fc")
    xent = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    l2 = tf.add_n([tf.nn.l2_loss(v) for v in tf.trainable_variables() if v.op.name.endswith("kernel")])
    end_points["logits"] = logits
    end_points["cross_entropy"] = xent
    return xent + WEIGHT_DECAY * l2, end_points
