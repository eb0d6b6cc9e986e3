"""Dual path network: a residual path that is added to and a dense path that grows, from one and the same block."""
import tensorflow.compat.v1 as tf

CARDINALITY = 4
WEIGHT_DECAY = 1e-3
BN_KWARGS = dict(momentum=0.9, epsilon=1e-3, fused=False)


def conv2d(inputs, filters, size, strides=1, name=None):
    return tf.layers.conv2d(inputs, filters, size, strides=strides, padding="same", use_bias=False,
                            kernel_initializer=tf.variance_scaling_initializer(), name=name)


def grouped_conv(inputs, filters, groups, strides, name):
    # split both the maps and the kernel, convolve each part by itself
    with tf.variable_scope(name):
        channels = inputs.shape.as_list()[-1]
        kernel = tf.get_variable("kernel", [3, 3, channels // groups, filters], inputs.dtype,
                                 initializer=tf.variance_scaling_initializer())
        parts = zip(tf.split(inputs, groups, axis=3), tf.split(kernel, groups, axis=3))
        outputs = [tf.nn.conv2d(i, k, [1, strides, strides, 1], padding="SAME") for i, k in parts]
        return tf.concat(outputs, axis=3)


def bn_relu_conv(inputs, filters, size, strides, training, name, groups=1):
    with tf.variable_scope(name):
        x = tf.nn.relu(tf.layers.batch_normalization(inputs, training=training, name="bn", **BN_KWARGS))
        if groups > 1:
            return grouped_conv(x, filters, groups, strides, "conv")
        return conv2d(x, filters, size, strides, name="conv")


def dual_path_block(paths, filters_r, filters_g, filter_inc, block_type, training, name):
    with tf.variable_scope(name):
        inputs = tf.concat(paths, axis=3) if isinstance(paths, list) else paths
        strides = 2 if block_type == "downsample" else 1
        if block_type in ("projection", "downsample"):
            projected = bn_relu_conv(inputs, filters_r + 2 * filter_inc, 1, strides, training, "projection")
            residual, dense = tf.split(projected, [filters_r, 2 * filter_inc], axis=3)
        else:
            residual, dense = paths
        x = bn_relu_conv(inputs, filters_g, 1, 1, training, "conv_a")
        x = bn_relu_conv(x, filters_g, 3, strides, training, "conv_b", groups=CARDINALITY)
        x = bn_relu_conv(x, filters_r + filter_inc, 1, 1, training, "conv_c")
        out_residual = x[:, :, :, :filters_r]
        out_dense = x[:, :, :, filters_r:]
        return [residual + out_residual, tf.concat([dense, out_dense], axis=3)]


def tower(images, labels, training=True):
    x = conv2d(images, 8, 3, name="stem_conv")
    x = tf.nn.relu(tf.layers.batch_normalization(x, training=training, name="stem_bn", **BN_KWARGS))
    x = tf.layers.max_pooling2d(x, 3, 2, padding="same", name="stem_pool")
    end_points = {"stem": x}
    x = dual_path_block(x, 8, 8, 2, "projection", training, "conv2_1")
    x = dual_path_block(x, 8, 8, 2, "normal", training, "conv2_2")
    x = dual_path_block(x, 16, 16, 4, "downsample", training, "conv3_1")
    x = dual_path_block(x, 16, 16, 4, "normal", training, "conv3_2")
    end_points["residual"], end_points["dense"] = x
    x = tf.concat(x, axis=3)
    x = tf.nn.relu(tf.layers.batch_normalization(x, training=training, name="final_bn", **BN_KWARGS))
    x = tf.reduce_mean(x, [1, 2], name="global_pool")
    logits = tf.layers.dense(x, 6, name="classifier")
    cross_entropy = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    l2 = tf.add_n([tf.nn.l2_loss(v) for v in tf.trainable_variables() if "kernel" in v.name])
    end_points["logits"] = logits
    return cross_entropy + WEIGHT_DECAY * l2, end_points
