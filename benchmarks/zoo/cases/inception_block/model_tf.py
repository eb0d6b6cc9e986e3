"""A stem and one mixed block of Inception, in the manner of slim's inception: no gamma, batch norm everywhere."""
import tensorflow.compat.v1 as tf

BATCHNORM_MOVING_AVERAGE_DECAY = 0.99
BN_EPSILON = 0.001


def batch_norm(inputs, is_training, scope='BatchNorm'):
    with tf.variable_scope(scope):
        dtype, shape = inputs.dtype, [int(inputs.get_shape()[-1])]
        beta = tf.get_variable('beta', shape, dtype, tf.zeros_initializer())
        moving_mean = tf.get_variable('moving_mean', shape, dtype, tf.zeros_initializer(), trainable=False)
        moving_variance = tf.get_variable('moving_variance', shape, dtype, tf.ones_initializer(), trainable=False)
        if not is_training:
            return tf.nn.batch_normalization(inputs, moving_mean, moving_variance, beta, None, BN_EPSILON)
        mean, variance = tf.nn.moments(inputs, [0, 1, 2])
        for var, value in [(moving_mean, mean), (moving_variance, variance)]:
            update = tf.assign(var, var * BATCHNORM_MOVING_AVERAGE_DECAY + value * (1 - BATCHNORM_MOVING_AVERAGE_DECAY))
            tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, update)
        return tf.nn.batch_normalization(inputs, mean, variance, beta, None, BN_EPSILON)


def conv2d(net, depth, kernel, is_training, scope, stride=1, padding='SAME'):
    with tf.variable_scope(scope):
        weights = tf.get_variable('weights', kernel + [int(net.get_shape()[-1]), depth], net.dtype,
                                  initializer=tf.truncated_normal_initializer(stddev=0.1))
        net = tf.nn.conv2d(net, weights, [1, stride, stride, 1], padding)
        return tf.nn.relu(batch_norm(net, is_training))


def tower(images, labels, training=True):
    end_points = {}
    with tf.variable_scope('InceptionV3'):
        net = conv2d(images, 8, [3, 3], training, 'Conv2d_1a_3x3', stride=2)
        net = conv2d(net, 12, [3, 3], training, 'Conv2d_2a_3x3')
        end_points['stem'] = net
        with tf.variable_scope('Mixed_5b'):
            with tf.variable_scope('Branch_0'):
                branch_0 = conv2d(net, 8, [1, 1], training, 'Conv2d_0a_1x1')
            with tf.variable_scope('Branch_1'):
                branch_1 = conv2d(net, 6, [1, 1], training, 'Conv2d_0a_1x1')
                branch_1 = conv2d(branch_1, 8, [5, 5], training, 'Conv2d_0b_5x5')
            with tf.variable_scope('Branch_2'):
                branch_2 = conv2d(net, 6, [1, 1], training, 'Conv2d_0a_1x1')
                branch_2 = conv2d(branch_2, 8, [1, 7], training, 'Conv2d_0b_1x7')
                branch_2 = conv2d(branch_2, 8, [7, 1], training, 'Conv2d_0c_7x1')
            with tf.variable_scope('Branch_3'):
                branch_3 = tf.nn.avg_pool(net, [1, 3, 3, 1], [1, 1, 1, 1], 'SAME', name='AvgPool_0a_3x3')
                branch_3 = conv2d(branch_3, 8, [1, 1], training, 'Conv2d_0b_1x1')
            end_points['branch_3'] = branch_3
            net = tf.concat(axis=3, values=[branch_0, branch_1, branch_2, branch_3])
            end_points['Mixed_5b'] = net
        with tf.variable_scope('Mixed_6a'):
            with tf.variable_scope('Branch_0'):
                branch_0 = conv2d(net, 16, [3, 3], training, 'Conv2d_1a_1x1', stride=2, padding='VALID')
            with tf.variable_scope('Branch_1'):
                branch_1 = tf.nn.max_pool(net, [1, 3, 3, 1], [1, 2, 2, 1], 'VALID', name='MaxPool_1a_3x3')
            net = tf.concat(axis=3, values=[branch_0, branch_1])
            end_points['Mixed_6a'] = net
        with tf.variable_scope('Logits'):
            net = tf.reduce_mean(net, [1, 2], name='AvgPool')
            weights = tf.get_variable('weights', [int(net.get_shape()[-1]), 8], net.dtype,
                                      initializer=tf.truncated_normal_initializer(stddev=0.1))
            biases = tf.get_variable('biases', [8], net.dtype, tf.zeros_initializer())
            logits = tf.nn.xw_plus_b(net, weights, biases)
    end_points['Logits'] = logits
    onehot = tf.one_hot(labels, 8, dtype=logits.dtype)
    label_smoothing = 0.1
    smooth = onehot * (1 - label_smoothing) + label_smoothing / 8
    loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=smooth, logits=logits))
    return loss, end_points
