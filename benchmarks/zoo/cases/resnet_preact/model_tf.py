"""Pre-activation ResNet (v2) for small images, after the official model garden's resnet_model of TensorFlow 1: fixed padding in
front of strided convolutions, projections of the activated input, l2 of all but batch norm's variables in the loss."""
import tensorflow.compat.v1 as tf

_BATCH_NORM_DECAY = 0.9
_BATCH_NORM_EPSILON = 1e-5
WEIGHT_DECAY = 2e-4
NUM_CLASSES = 9
NUM_FILTERS = 6
BLOCK_FILTERS = [10, 14, 22]
BLOCK_SIZES = [1, 2, 1]
BLOCK_STRIDES = [1, 2, 2]


def batch_norm(inputs, training):
    return tf.layers.batch_normalization(inputs=inputs, axis=3, momentum=_BATCH_NORM_DECAY, epsilon=_BATCH_NORM_EPSILON,
                                         center=True, scale=True, training=training, fused=False)


def fixed_padding(inputs, kernel_size):
    """Pads independently of the size of the input."""
    pad_total = kernel_size - 1
    pad_beg = pad_total // 2
    pad_end = pad_total - pad_beg
    return tf.pad(inputs, [[0, 0], [pad_beg, pad_end], [pad_beg, pad_end], [0, 0]])


def conv2d_fixed_padding(inputs, filters, kernel_size, strides):
    if strides > 1:
        inputs = fixed_padding(inputs, kernel_size)
    return tf.layers.conv2d(inputs=inputs, filters=filters, kernel_size=kernel_size, strides=strides,
                            padding=("SAME" if strides == 1 else "VALID"), use_bias=False,
                            kernel_initializer=tf.variance_scaling_initializer())


def building_block_v2(inputs, filters, training, projection_shortcut, strides):
    shortcut = inputs
    inputs = batch_norm(inputs, training)
    inputs = tf.nn.relu(inputs)
    # the projection comes after batch norm and ReLU: it is a 1x1 convolution
    if projection_shortcut is not None:
        shortcut = projection_shortcut(inputs)
    inputs = conv2d_fixed_padding(inputs, filters, 3, strides)
    inputs = batch_norm(inputs, training)
    inputs = tf.nn.relu(inputs)
    inputs = conv2d_fixed_padding(inputs, filters, 3, 1)
    return inputs + shortcut


def block_layer(inputs, filters, blocks, strides, training, name):
    def projection_shortcut(inputs):
        return conv2d_fixed_padding(inputs, filters, 1, strides)

    inputs = building_block_v2(inputs, filters, training, projection_shortcut, strides)
    for _ in range(1, blocks):
        inputs = building_block_v2(inputs, filters, training, None, 1)
    return tf.identity(inputs, name)


def tower(images, labels, training=True):
    end_points = {}
    with tf.variable_scope("resnet_model"):
        inputs = conv2d_fixed_padding(images, NUM_FILTERS, 3, 1)
        inputs = tf.identity(inputs, "initial_conv")
        end_points["initial_conv"] = inputs
        for i, num_blocks in enumerate(BLOCK_SIZES):
            name = "block_layer{}".format(i + 1)
            inputs = block_layer(inputs, BLOCK_FILTERS[i], num_blocks, BLOCK_STRIDES[i], training, name)
            end_points[name] = inputs
        # version 2 normalises once more behind the last block
        inputs = batch_norm(inputs, training)
        inputs = tf.nn.relu(inputs)
        inputs = tf.reduce_mean(inputs, [1, 2], keepdims=True)
        inputs = tf.squeeze(tf.identity(inputs, "final_reduce_mean"), [1, 2])
        logits = tf.layers.dense(inputs=inputs, units=NUM_CLASSES)
    end_points["logits"] = logits
    cross_entropy = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=labels))
    end_points["cross_entropy"] = cross_entropy
    l2_loss = WEIGHT_DECAY * tf.add_n(
        [tf.nn.l2_loss(v) for v in tf.trainable_variables() if "batch_normalization" not in v.name])
    end_points["l2_loss"] = l2_loss
    return cross_entropy + l2_loss, end_points
