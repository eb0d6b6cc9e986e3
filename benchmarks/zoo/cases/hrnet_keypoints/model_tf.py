"""Two branches of a high-resolution net, after HRNet's ports to TensorFlow 1 with the fixed padding of the official ResNet.

Basic blocks at both resolutions, exchanges by strided convolutions downwards and nearest neighbours upwards, heatmaps from the
high branch; the loss multiplies prediction and target by the visibility of each joint.
"""
import tensorflow.compat.v1 as tf

JOINTS = 7
HIGH = 12
LOW = 20


def conv2d_fixed_padding(inputs, filters, kernel_size, strides, name):
    if strides > 1:
        pad = (kernel_size - 1) // 2
        inputs = tf.pad(inputs, [[0, 0], [pad, pad], [pad, pad], [0, 0]])
    return tf.layers.conv2d(inputs, filters, kernel_size, strides=strides, padding="SAME" if strides == 1 else "VALID",
                            use_bias=False, kernel_initializer=tf.variance_scaling_initializer(), name=name)


def batch_norm(inputs, training, name):
    return tf.layers.batch_normalization(inputs, momentum=0.9, epsilon=1e-5, training=training, fused=False, name=name)


def basic_block(x, filters, training, name):
    with tf.variable_scope(name):
        residual = x
        x = conv2d_fixed_padding(x, filters, 3, 1, "conv1")
        x = tf.nn.relu(batch_norm(x, training, "bn1"))
        x = conv2d_fixed_padding(x, filters, 3, 1, "conv2")
        x = batch_norm(x, training, "bn2")
        return tf.nn.relu(x + residual)


def exchange(high, low, training, name):
    with tf.variable_scope(name):
        up = batch_norm(conv2d_fixed_padding(low, HIGH, 1, 1, "up_conv"), training, "up_bn")
        up = tf.image.resize_nearest_neighbor(up, high.shape.as_list()[1:3])
        down = batch_norm(conv2d_fixed_padding(high, LOW, 3, 2, "down_conv"), training, "down_bn")
        return tf.nn.relu(high + up), tf.nn.relu(low + down)


def tower(images, heatmaps, visibility, training=True):
    with tf.variable_scope("stem"):
        x = conv2d_fixed_padding(images, 16, 3, 2, "conv1")
        x = tf.nn.relu(batch_norm(x, training, "bn1"))
    with tf.variable_scope("transition"):
        high = conv2d_fixed_padding(x, HIGH, 3, 1, "high_conv")
        high = tf.nn.relu(batch_norm(high, training, "high_bn"))
        low = conv2d_fixed_padding(x, LOW, 3, 2, "low_conv")
        low = tf.nn.relu(batch_norm(low, training, "low_bn"))
    for i in range(2):
        with tf.variable_scope("stage%d" % (i + 1)):
            high = basic_block(high, HIGH, training, "branch0")
            low = basic_block(low, LOW, training, "branch1")
            high, low = exchange(high, low, training, "fuse")
    with tf.variable_scope("fuse_out"):
        up = tf.image.resize_nearest_neighbor(low, high.shape.as_list()[1:3])
        features = tf.concat([high, up], axis=-1)
    pred = tf.layers.conv2d(features, JOINTS, 1, kernel_initializer=tf.random_normal_initializer(stddev=0.05),
                            name="final_layer")

    with tf.variable_scope("joints_mse"):
        weight = visibility[:, None, None, :]
        per_joint = tf.reduce_mean(tf.square(pred * weight - heatmaps * weight), axis=[0, 1, 2])
        loss = tf.reduce_mean(0.5 * per_joint)
    return loss, {"high": high, "low": low, "pred": pred}
