"""ResNet-D with selective kernels and anti-aliased downsampling, trained on mixed pictures with smoothed labels, after a public
code that assembles such techniques in one network."""
import numpy as np
import tensorflow.compat.v1 as tf

NUM_CLASSES = 9
BATCH_NORM_DECAY = 0.9
BATCH_NORM_EPSILON = 1e-5
WEIGHT_DECAY = 1e-4


def batch_norm(inputs, training, zero_gamma=False):
    gamma = tf.zeros_initializer() if zero_gamma else tf.ones_initializer()
    return tf.layers.batch_normalization(inputs=inputs, axis=3, momentum=BATCH_NORM_DECAY, epsilon=BATCH_NORM_EPSILON, center=True,
                                         scale=True, training=training, fused=False, gamma_initializer=gamma)


def conv2d_fixed_padding(inputs, filters, kernel_size, strides):
    if strides > 1:
        total = kernel_size - 1
        begin = total // 2
        inputs = tf.pad(inputs, [[0, 0], [begin, total - begin], [begin, total - begin], [0, 0]])
    return tf.layers.conv2d(inputs=inputs, filters=filters, kernel_size=kernel_size, strides=strides, use_bias=False,
                            padding=("SAME" if strides == 1 else "VALID"), kernel_initializer=tf.variance_scaling_initializer())


def anti_aliased_downsample(inputs, stride=2):
    a = np.array([1.0, 2.0, 1.0])
    filt = a[:, None] * a[None, :] / 16.0
    filt = tf.tile(tf.constant(filt[:, :, None, None], inputs.dtype), [1, 1, int(inputs.shape[3]), 1])
    inputs = tf.pad(inputs, [[0, 0], [1, 1], [1, 1], [0, 0]], "REFLECT")
    return tf.nn.depthwise_conv2d(inputs, filt, [1, stride, stride, 1], "VALID")


def sk_conv2d(inputs, filters, training, r=2, L=6):
    inputs = conv2d_fixed_padding(inputs, filters * 2, 3, 1)
    inputs = tf.nn.relu(batch_norm(inputs, training))
    feas = tf.stack(tf.split(inputs, num_or_size_splits=2, axis=3))
    fea_u = tf.reduce_sum(feas, axis=0)
    fea_s = tf.reduce_mean(fea_u, [1, 2], keepdims=True)
    d = max(filters // r, L)
    with tf.variable_scope(None, "sk_block"):
        fea_z = tf.layers.conv2d(fea_s, d, 1, kernel_initializer=tf.variance_scaling_initializer(), use_bias=False, name="sk_fc_1")
        fea_z = tf.nn.relu(batch_norm(fea_z, training))
        attention = tf.layers.conv2d(fea_z, filters * 2, 1, kernel_initializer=tf.variance_scaling_initializer(), use_bias=False,
                                     name="sk_fc_2")
        attention = tf.nn.softmax(tf.stack(tf.split(attention, num_or_size_splits=2, axis=3)), axis=0)
        return tf.reduce_sum(feas * attention, axis=0)


def projection(inputs, filters, strides, training):
    if strides > 1:
        inputs = tf.layers.average_pooling2d(inputs, pool_size=2, strides=strides, padding="same")
    return batch_norm(conv2d_fixed_padding(inputs, filters, 1, 1), training)


def bottleneck_block(inputs, filters, training, project, strides):
    shortcut = inputs
    if project:
        shortcut = projection(inputs, 4 * filters, strides, training)
    inputs = conv2d_fixed_padding(inputs, filters, 1, 1)
    inputs = tf.nn.relu(batch_norm(inputs, training))
    inputs = sk_conv2d(inputs, filters, training)
    if strides > 1:
        inputs = anti_aliased_downsample(inputs, strides)
    inputs = conv2d_fixed_padding(inputs, 4 * filters, 1, 1)
    inputs = batch_norm(inputs, training, zero_gamma=True)
    return tf.nn.relu(inputs + shortcut)


def block_layer(inputs, filters, blocks, strides, training):
    inputs = bottleneck_block(inputs, filters, training, True, strides)
    for _ in range(1, blocks):
        inputs = bottleneck_block(inputs, filters, training, False, 1)
    return inputs


def tower(images, labels_a, labels_b, lam, training=True):
    end_points = {}
    with tf.variable_scope("resnet_model"):
        inputs = images
        for filters, strides in ((6, 2), (6, 1), (12, 1)):
            inputs = conv2d_fixed_padding(inputs, filters, 3, strides)
            inputs = tf.nn.relu(batch_norm(inputs, training))
        inputs = tf.layers.max_pooling2d(inputs=inputs, pool_size=3, strides=2, padding="SAME")
        end_points["stem"] = inputs
        inputs = end_points["block_layer1"] = block_layer(inputs, 6, 1, 1, training)
        inputs = end_points["block_layer2"] = block_layer(inputs, 10, 2, 2, training)
        inputs = tf.reduce_mean(inputs, [1, 2])
        logits = tf.layers.dense(inputs=inputs, units=NUM_CLASSES, kernel_initializer=tf.random_normal_initializer(stddev=0.05))
    end_points["logits"] = logits
    first = tf.one_hot(labels_a, NUM_CLASSES, dtype=logits.dtype)
    second = tf.one_hot(labels_b, NUM_CLASSES, dtype=logits.dtype)
    share = tf.expand_dims(lam, 1)
    targets = share * first + (1 - share) * second
    targets = targets * (1 - 0.1) + 0.1 / NUM_CLASSES
    cross_entropy = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=tf.stop_gradient(targets), logits=logits))
    end_points["cross_entropy"] = cross_entropy
    l2_loss = WEIGHT_DECAY * tf.add_n(
        [tf.nn.l2_loss(v) for v in tf.trainable_variables() if "batch_normalization" not in v.name])
    return cross_entropy + l2_loss, end_points
