"""A Shake-Shake network for small pictures. The random numbers of the branches come with the batch: one pair for the
forward pass and one for the backward pass, of every picture and block."""
import tensorflow.compat.v1 as tf

NUM_CLASSES = 6
WEIGHT_DECAY = 1e-3
BN_DECAY = 0.9
BN_EPSILON = 1e-3
STAGES = [(8, 1), (16, 2), (24, 2)]
BRANCHES = 2


def conv(x, filters, size, stride, name):
    channels = x.get_shape().as_list()[3]
    with tf.variable_scope(name):
        stddev = (2.0 / (size * size * channels)) ** 0.5
        kernel = tf.get_variable('weights', [size, size, channels, filters], x.dtype,
                                 tf.random_normal_initializer(stddev=stddev, dtype=x.dtype))
        return tf.nn.conv2d(x, kernel, [1, stride, stride, 1], 'SAME')


def batch_norm(x, training, name='bn'):
    channels = [x.get_shape().as_list()[3]]
    with tf.variable_scope(name):
        beta = tf.get_variable('beta', channels, x.dtype, tf.zeros_initializer())
        gamma = tf.get_variable('gamma', channels, x.dtype, tf.ones_initializer())
        moving_mean = tf.get_variable('moving_mean', channels, x.dtype, tf.zeros_initializer(), trainable=False)
        moving_variance = tf.get_variable('moving_variance', channels, x.dtype, tf.ones_initializer(), trainable=False)
        if training:
            mean, variance = tf.nn.moments(x, [0, 1, 2])
            for moving, value in [(moving_mean, mean), (moving_variance, variance)]:
                update = tf.assign_sub(moving, (moving - value) * (1.0 - BN_DECAY))
                tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, update)
        else:
            mean, variance = moving_mean, moving_variance
        return tf.nn.batch_normalization(x, mean, variance, beta, gamma, BN_EPSILON)


def branch(x, filters, stride, forward, backward, training):
    x = tf.nn.relu(x)
    x = batch_norm(conv(x, filters, 3, stride, 'conv1'), training, 'bn1')
    x = tf.nn.relu(x)
    x = batch_norm(conv(x, filters, 3, 1, 'conv2'), training, 'bn2')
    if not training:
        return x / BRANCHES
    return x * backward + tf.stop_gradient(x * forward - x * backward)


def skip_connection(x, filters, stride, training):
    """Two subsampled paths, the second one pixel further down and to the right."""
    if x.get_shape().as_list()[3] == filters:
        return x
    with tf.variable_scope('skip'):
        path1 = tf.nn.avg_pool(x, [1, 1, 1, 1], [1, stride, stride, 1], 'VALID')
        path1 = conv(path1, filters // 2, 1, 1, 'path1')
        path2 = tf.pad(x, [[0, 0], [0, 1], [0, 1], [0, 0]])[:, 1:, 1:, :]
        path2 = tf.nn.avg_pool(path2, [1, 1, 1, 1], [1, stride, stride, 1], 'VALID')
        path2 = conv(path2, filters // 2, 1, 1, 'path2')
        return batch_norm(tf.concat([path1, path2], 3), training)


def block(x, filters, stride, rand_forward, rand_backward, training):
    forward = rand_forward / tf.reduce_sum(rand_forward, 1, keepdims=True)
    backward = rand_backward / tf.reduce_sum(rand_backward, 1, keepdims=True)
    branches = []
    for i in range(BRANCHES):
        with tf.variable_scope('branch_%d' % i):
            branches.append(branch(x, filters, stride, tf.reshape(forward[:, i], [-1, 1, 1, 1]),
                                   tf.reshape(backward[:, i], [-1, 1, 1, 1]), training))
    return skip_connection(x, filters, stride, training) + tf.add_n(branches)


def tower(images, labels, rand_forward, rand_backward, training=True):
    with tf.variable_scope('shake'):
        with tf.variable_scope('init'):
            x = batch_norm(conv(images, 8, 3, 1, 'conv'), training)
        for i, (filters, stride) in enumerate(STAGES):
            with tf.variable_scope('block_%d' % i):
                x = block(x, filters, stride, rand_forward[:, i], rand_backward[:, i], training)
        x = tf.reduce_mean(tf.nn.relu(x), [1, 2])
        with tf.variable_scope('logits'):
            weights = tf.get_variable('weights', [x.get_shape().as_list()[1], NUM_CLASSES], x.dtype,
                                      tf.glorot_uniform_initializer(dtype=x.dtype))
            biases = tf.get_variable('biases', [NUM_CLASSES], x.dtype, tf.zeros_initializer())
            logits = tf.nn.bias_add(tf.matmul(x, weights), biases)
        kernels = [v for v in tf.trainable_variables() if v.op.name.endswith('/weights')]
    cross_entropy = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    loss = cross_entropy + WEIGHT_DECAY * tf.add_n([tf.nn.l2_loss(v) for v in kernels])
    return loss, {'logits': logits, 'cross_entropy': cross_entropy}
