"""Res2Net for small images: hierarchical 3x3 convolutions within each residual block, after the model zoo's ResNet code."""
import tensorflow.compat.v1 as tf

NUM_CLASSES = 10
NUM_TOWERS = 4
GLOBAL_BATCH = 16
SCALE = 4
WEIGHT_DECAY = 2e-4
LABEL_SMOOTHING = 0.1
_BATCH_NORM_DECAY = 0.9
_BATCH_NORM_EPSILON = 1e-5


def batch_norm(inputs, training, name):
    # not fused: float64 has to work as well
    return tf.layers.batch_normalization(inputs=inputs, axis=3, momentum=_BATCH_NORM_DECAY, epsilon=_BATCH_NORM_EPSILON,
                                         center=True, scale=True, training=training, fused=False, name=name)


def fixed_padding(inputs, kernel_size):
    pad_total = kernel_size - 1
    pad_beg = pad_total // 2
    pad_end = pad_total - pad_beg
    return tf.pad(inputs, [[0, 0], [pad_beg, pad_end], [pad_beg, pad_end], [0, 0]])


def conv2d_fixed_padding(inputs, filters, kernel_size, strides, name):
    if strides > 1:
        inputs = fixed_padding(inputs, kernel_size)
    return tf.layers.conv2d(inputs=inputs, filters=filters, kernel_size=kernel_size, strides=strides,
                            padding=("SAME" if strides == 1 else "VALID"), use_bias=False,
                            kernel_initializer=tf.variance_scaling_initializer(), name=name)


def bottle2neck(inputs, filters, width, strides, first, training):
    shortcut = inputs
    if first:
        if strides > 1:
            shortcut = tf.layers.average_pooling2d(shortcut, strides, strides, padding="SAME")
        shortcut = conv2d_fixed_padding(shortcut, filters, 1, 1, "conv2d_shortcut")
        shortcut = batch_norm(shortcut, training, "bn_shortcut")

    x = conv2d_fixed_padding(inputs, width * SCALE, 1, 1, "conv2d_in")
    x = tf.nn.relu(batch_norm(x, training, "bn_in"))

    subsets = tf.split(x, SCALE, axis=3)
    outputs = []
    y = None
    for i in range(SCALE - 1):
        y = subsets[i] if i == 0 or first else y + subsets[i]
        y = conv2d_fixed_padding(y, width, 3, strides, "conv2d_scale_%d" % i)
        y = tf.nn.relu(batch_norm(y, training, "bn_scale_%d" % i))
        outputs.append(y)
    if first:
        outputs.append(tf.layers.average_pooling2d(subsets[-1], 3, strides, padding="SAME"))
    else:
        outputs.append(subsets[-1])
    x = tf.concat(outputs, axis=3)

    x = conv2d_fixed_padding(x, filters, 1, 1, "conv2d_out")
    x = batch_norm(x, training, "bn_out")
    return tf.nn.relu(x + shortcut)


def tower(features, label, training=True):
    end_points = {}
    with tf.variable_scope("res2net"):
        x = conv2d_fixed_padding(features, 16, 3, 1, "initial_conv")
        x = tf.nn.relu(batch_norm(x, training, "initial_bn"))
        for stage, (filters, width, strides) in enumerate([(32, 4, 1), (48, 8, 2)]):
            for block in range(2):
                with tf.variable_scope("block_layer%d_%d" % (stage + 1, block)):
                    x = bottle2neck(x, filters, width, strides if block == 0 else 1, block == 0, training)
            end_points["block_layer%d" % (stage + 1)] = x
        x = tf.reduce_mean(x, axis=[1, 2])
        end_points["final_reduce_mean"] = x
        logits = tf.layers.dense(x, NUM_CLASSES, name="readout_layer")
        end_points["logits"] = logits

    onehot = tf.one_hot(label, NUM_CLASSES, dtype=logits.dtype)
    onehot = onehot * (1.0 - LABEL_SMOOTHING) + LABEL_SMOOTHING / NUM_CLASSES
    cross_entropy = tf.nn.softmax_cross_entropy_with_logits_v2(labels=onehot, logits=logits)
    # gradients of towers are added up, so every tower carries its share only
    loss = tf.reduce_sum(cross_entropy) / GLOBAL_BATCH
    l2 = tf.add_n([tf.nn.l2_loss(v) for v in tf.trainable_variables() if "/bn_" not in v.op.name and "_bn/" not in v.op.name])
    return loss + WEIGHT_DECAY / NUM_TOWERS * l2, end_points
