"""A residual network whose blocks end in channel and spatial attention (CBAM)."""
import tensorflow.compat.v1 as tf

_BATCH_NORM_DECAY = 0.997
_BATCH_NORM_EPSILON = 1e-5
_WEIGHT_DECAY = 2e-4
N_CLASSES = 6


def batch_norm_relu(x, training, relu=True):
    with tf.variable_scope(None, default_name="batch_normalization"):
        shape = [x.shape.as_list()[-1]]
        beta = tf.get_variable("beta", shape, x.dtype, tf.zeros_initializer())
        gamma = tf.get_variable("gamma", shape, x.dtype, tf.ones_initializer())
        moving_mean = tf.get_variable("moving_mean", shape, x.dtype, tf.zeros_initializer(), trainable=False)
        moving_variance = tf.get_variable("moving_variance", shape, x.dtype, tf.ones_initializer(), trainable=False)
        if training:
            mean, variance = tf.nn.moments(x, [0, 1, 2])
            for moving, value in ((moving_mean, mean), (moving_variance, variance)):
                tf.add_to_collection(tf.GraphKeys.UPDATE_OPS,
                                     tf.assign_sub(moving, (moving - value) * (1.0 - _BATCH_NORM_DECAY)))
        else:
            mean, variance = moving_mean, moving_variance
        x = tf.nn.batch_normalization(x, mean, variance, beta, gamma, _BATCH_NORM_EPSILON)
        return tf.nn.relu(x) if relu else x


def fixed_padding(inputs, kernel_size):
    pad_total = kernel_size - 1
    pad_beg = pad_total // 2
    pad_end = pad_total - pad_beg
    return tf.pad(inputs, [[0, 0], [pad_beg, pad_end], [pad_beg, pad_end], [0, 0]])


def conv2d_fixed_padding(inputs, filters, kernel_size, strides):
    if strides > 1:
        inputs = fixed_padding(inputs, kernel_size)
    return tf.layers.conv2d(inputs, filters, kernel_size, strides, padding="SAME" if strides == 1 else "VALID",
                            use_bias=False, kernel_initializer=tf.variance_scaling_initializer())


def channel_attention(input_feature, name, ratio=4):
    kernel_initializer = tf.variance_scaling_initializer()
    bias_initializer = tf.constant_initializer(0.0)
    with tf.variable_scope(name):
        channel = input_feature.get_shape()[-1].value
        avg_pool = tf.reduce_mean(input_feature, axis=[1, 2], keepdims=True)
        avg_pool = tf.layers.dense(avg_pool, channel // ratio, activation=tf.nn.relu, name="mlp_0", reuse=None,
                                   kernel_initializer=kernel_initializer, bias_initializer=bias_initializer)
        avg_pool = tf.layers.dense(avg_pool, channel, name="mlp_1", reuse=None,
                                   kernel_initializer=kernel_initializer, bias_initializer=bias_initializer)
        max_pool = tf.reduce_max(input_feature, axis=[1, 2], keepdims=True)
        max_pool = tf.layers.dense(max_pool, channel // ratio, activation=tf.nn.relu, name="mlp_0", reuse=True)
        max_pool = tf.layers.dense(max_pool, channel, name="mlp_1", reuse=True)
        scale = tf.sigmoid(avg_pool + max_pool, "sigmoid")
    return input_feature * scale


def spatial_attention(input_feature, name):
    kernel_size = 7
    with tf.variable_scope(name):
        avg_pool = tf.reduce_mean(input_feature, axis=[3], keepdims=True)
        max_pool = tf.reduce_max(input_feature, axis=[3], keepdims=True)
        concat = tf.concat([avg_pool, max_pool], 3)
        concat = tf.layers.conv2d(concat, filters=1, kernel_size=[kernel_size, kernel_size], strides=[1, 1],
                                  padding="same", activation=None, use_bias=False, name="conv",
                                  kernel_initializer=tf.variance_scaling_initializer())
        concat = tf.sigmoid(concat, "sigmoid")
    return input_feature * concat


def cbam_block(input_feature, name):
    with tf.variable_scope(name):
        attention_feature = channel_attention(input_feature, "ch_at")
        return spatial_attention(attention_feature, "sp_at")


def building_block(inputs, filters, training, strides, name):
    with tf.variable_scope(name):
        shortcut = inputs
        if strides > 1 or inputs.get_shape()[-1].value != filters:
            shortcut = conv2d_fixed_padding(inputs, filters, 1, strides)
            shortcut = batch_norm_relu(shortcut, training, relu=False)
        inputs = batch_norm_relu(conv2d_fixed_padding(inputs, filters, 3, strides), training)
        inputs = batch_norm_relu(conv2d_fixed_padding(inputs, filters, 3, 1), training, relu=False)
        inputs = cbam_block(inputs, "cbam")
        return tf.nn.relu(inputs + shortcut)


def tower(images, labels, training=True):
    with tf.variable_scope("resnet"):
        inputs = conv2d_fixed_padding(images, 8, 7, 2)
        inputs = batch_norm_relu(inputs, training)
        inputs = tf.layers.max_pooling2d(inputs, 3, 2, padding="SAME")
        stem = inputs
        block1 = building_block(inputs, 8, training, 1, "block1")
        block2 = building_block(block1, 16, training, 2, "block2")
        block3 = building_block(block2, 24, training, 2, "block3")
        inputs = tf.reduce_mean(block3, [1, 2])
        logits = tf.layers.dense(inputs, N_CLASSES, name="final_dense")
    cross_entropy = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    loss = cross_entropy + _WEIGHT_DECAY * tf.add_n(
        [tf.nn.l2_loss(v) for v in tf.trainable_variables() if "batch_normalization" not in v.name])
    return loss, {"stem": stem, "block1": block1, "block2": block2, "block3": block3, "logits": logits,
                  "cross_entropy": cross_entropy}
