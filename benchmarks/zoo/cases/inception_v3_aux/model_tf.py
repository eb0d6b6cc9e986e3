"""Inception v3 with its auxiliary head, in the manner of the multi-GPU code of TensorFlow's research models: variables by hand,
batch norm without gamma, l2 of weights, label smoothing, the auxiliary loss at 0.4."""
import tensorflow.compat.v1 as tf

NUM_CLASSES = 6
BATCHNORM_MOVING_AVERAGE_DECAY = 0.97
WEIGHT_DECAY = 0.0004


def _weights(shape, stddev, dtype):
    return tf.get_variable("weights", shape, dtype, initializer=tf.truncated_normal_initializer(stddev=stddev, dtype=dtype))


def _batch_norm(inputs, training, epsilon=0.001):
    with tf.variable_scope("BatchNorm"):
        shape, dtype = [int(inputs.shape[-1])], inputs.dtype
        beta = tf.get_variable("beta", shape, dtype, initializer=tf.zeros_initializer())
        moving_mean = tf.get_variable("moving_mean", shape, dtype, initializer=tf.zeros_initializer(), trainable=False)
        moving_variance = tf.get_variable("moving_variance", shape, dtype, initializer=tf.ones_initializer(), trainable=False)
        if training:
            mean, variance = tf.nn.moments(inputs, [0, 1, 2])
            for moving, value in ((moving_mean, mean), (moving_variance, variance)):
                update = tf.assign_sub(moving, (moving - value) * (1 - BATCHNORM_MOVING_AVERAGE_DECAY))
                tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, update)
        else:
            mean, variance = moving_mean, moving_variance
        return tf.nn.batch_normalization(inputs, mean, variance, beta, None, epsilon)


def conv2d(inputs, filters, kernel, training, stride=1, padding="SAME", stddev=0.1, scope=None):
    with tf.variable_scope(scope, "Conv"):
        weights = _weights(list(kernel) + [int(inputs.shape[-1]), filters], stddev, inputs.dtype)
        net = tf.nn.conv2d(inputs, weights, [1, stride, stride, 1], padding)
        return tf.nn.relu(_batch_norm(net, training))


def fc(inputs, units, stddev, scope):
    with tf.variable_scope(scope):
        weights = _weights([int(inputs.shape[-1]), units], stddev, inputs.dtype)
        biases = tf.get_variable("biases", [units], inputs.dtype, initializer=tf.zeros_initializer())
        return tf.nn.xw_plus_b(inputs, weights, biases)


def inception_v3(images, training):
    end_points = {}
    with tf.variable_scope("inception_v3"):
        net = conv2d(images, 8, [3, 3], training, stride=2, padding="VALID", scope="conv0")
        net = conv2d(net, 8, [3, 3], training, padding="VALID", scope="conv1")
        net = conv2d(net, 12, [3, 3], training, scope="conv2")
        net = tf.nn.max_pool(net, [1, 3, 3, 1], [1, 2, 2, 1], "VALID")
        # 10 x 10
        with tf.variable_scope("mixed_a"):
            with tf.variable_scope("branch1x1"):
                branch1x1 = conv2d(net, 8, [1, 1], training)
            with tf.variable_scope("branch5x5"):
                branch5x5 = conv2d(net, 6, [1, 1], training)
                branch5x5 = conv2d(branch5x5, 10, [5, 5], training)
            with tf.variable_scope("branch3x3dbl"):
                branch3x3dbl = conv2d(net, 6, [1, 1], training)
                branch3x3dbl = conv2d(branch3x3dbl, 9, [3, 3], training)
                branch3x3dbl = conv2d(branch3x3dbl, 9, [3, 3], training)
            with tf.variable_scope("branch_pool"):
                branch_pool = tf.nn.avg_pool(net, [1, 3, 3, 1], [1, 1, 1, 1], "SAME")
                branch_pool = conv2d(branch_pool, 5, [1, 1], training)
            net = tf.concat(axis=3, values=[branch1x1, branch5x5, branch3x3dbl, branch_pool])
            end_points["mixed_a"] = net
        with tf.variable_scope("mixed_b"):
            with tf.variable_scope("branch3x3"):
                branch3x3 = conv2d(net, 12, [3, 3], training, stride=2, padding="VALID")
            with tf.variable_scope("branch3x3dbl"):
                branch3x3dbl = conv2d(net, 8, [1, 1], training)
                branch3x3dbl = conv2d(branch3x3dbl, 10, [3, 3], training)
                branch3x3dbl = conv2d(branch3x3dbl, 12, [3, 3], training, stride=2, padding="VALID")
            with tf.variable_scope("branch_pool"):
                branch_pool = tf.nn.max_pool(net, [1, 3, 3, 1], [1, 2, 2, 1], "VALID")
            net = tf.concat(axis=3, values=[branch3x3, branch3x3dbl, branch_pool])
        # 4 x 4
        with tf.variable_scope("mixed_c"):
            with tf.variable_scope("branch1x1"):
                branch1x1 = conv2d(net, 12, [1, 1], training)
            with tf.variable_scope("branch7x7"):
                branch7x7 = conv2d(net, 8, [1, 1], training)
                branch7x7 = conv2d(branch7x7, 8, [1, 7], training)
                branch7x7 = conv2d(branch7x7, 12, [7, 1], training)
            with tf.variable_scope("branch_pool"):
                branch_pool = tf.nn.avg_pool(net, [1, 3, 3, 1], [1, 1, 1, 1], "SAME")
                branch_pool = conv2d(branch_pool, 12, [1, 1], training)
            net = tf.concat(axis=3, values=[branch1x1, branch7x7, branch_pool])
            end_points["mixed_c"] = net
        if training:
            aux_logits = tf.identity(net)
            with tf.variable_scope("aux_logits"):
                aux_logits = tf.nn.avg_pool(aux_logits, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
                aux_logits = conv2d(aux_logits, 10, [1, 1], training, scope="proj")
                aux_logits = conv2d(aux_logits, 16, [2, 2], training, stddev=0.01, padding="VALID", scope="conv")
                aux_logits = fc(tf.reshape(aux_logits, [-1, 16]), NUM_CLASSES, 0.001, "FC")
                end_points["aux_logits"] = aux_logits
        with tf.variable_scope("mixed_d"):
            with tf.variable_scope("branch1x1"):
                branch1x1 = conv2d(net, 14, [1, 1], training)
            with tf.variable_scope("branch3x3"):
                branch3x3 = conv2d(net, 10, [1, 1], training)
                branch3x3 = tf.concat(axis=3, values=[conv2d(branch3x3, 10, [1, 3], training),
                                                      conv2d(branch3x3, 10, [3, 1], training)])
            with tf.variable_scope("branch_pool"):
                branch_pool = tf.nn.avg_pool(net, [1, 3, 3, 1], [1, 1, 1, 1], "SAME")
                branch_pool = conv2d(branch_pool, 8, [1, 1], training)
            net = tf.concat(axis=3, values=[branch1x1, branch3x3, branch_pool])
        with tf.variable_scope("logits"):
            net = tf.nn.avg_pool(net, [1, 4, 4, 1], [1, 1, 1, 1], "VALID")
            end_points["pool"] = tf.squeeze(net, [1, 2])
            logits = fc(end_points["pool"], NUM_CLASSES, 0.05, "logits")
            end_points["logits"] = logits
    return logits, end_points


def cross_entropy_loss(logits, labels, label_smoothing, weight):
    one_hot_labels = tf.one_hot(labels, NUM_CLASSES, dtype=logits.dtype)
    smooth_positives = 1.0 - label_smoothing
    smooth_negatives = label_smoothing / NUM_CLASSES
    one_hot_labels = one_hot_labels * smooth_positives + smooth_negatives
    cross_entropy = tf.nn.softmax_cross_entropy_with_logits_v2(logits=logits, labels=one_hot_labels)
    return weight * tf.reduce_mean(cross_entropy)


def tower(images, labels, training=True):
    images = tf.multiply(tf.subtract(images, 0.5), 2.0)
    logits, end_points = inception_v3(images, training)
    losses = [cross_entropy_loss(logits, labels, 0.1, 1.0)]
    if training:
        losses.append(cross_entropy_loss(end_points["aux_logits"], labels, 0.1, 0.4))
    for variable in tf.trainable_variables():
        if variable.op.name.endswith("weights"):
            losses.append(WEIGHT_DECAY * tf.nn.l2_loss(variable))
    return tf.add_n(losses), end_points
