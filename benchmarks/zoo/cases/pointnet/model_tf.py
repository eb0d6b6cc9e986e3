"""PointNet classification: a small input transform, a shared MLP by 1x1 convolutions, the maximum over the points."""
import tensorflow.compat.v1 as tf

NUM_POINT = 32
BN_DECAY = 0.5
WEIGHT_DECAY = 0.001


def batch_norm(inputs, is_training, moment_dims, scope='bn'):
    with tf.variable_scope(scope):
        shape = [inputs.get_shape()[-1]]
        beta = tf.get_variable('beta', shape, inputs.dtype, tf.constant_initializer(0.0))
        gamma = tf.get_variable('gamma', shape, inputs.dtype, tf.constant_initializer(1.0))
        pop_mean = tf.get_variable('moving_mean', shape, inputs.dtype, tf.zeros_initializer(), trainable=False)
        pop_var = tf.get_variable('moving_variance', shape, inputs.dtype, tf.ones_initializer(), trainable=False)
        if not is_training:
            return tf.nn.batch_normalization(inputs, pop_mean, pop_var, beta, gamma, 1e-3)
        batch_mean, batch_var = tf.nn.moments(inputs, moment_dims)
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign_sub(pop_mean, (1 - BN_DECAY) * (pop_mean - batch_mean)))
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign_sub(pop_var, (1 - BN_DECAY) * (pop_var - batch_var)))
        return tf.nn.batch_normalization(inputs, batch_mean, batch_var, beta, gamma, 1e-3)


def conv2d(inputs, num_output_channels, kernel_size, scope, losses, is_training):
    with tf.variable_scope(scope):
        kernel = tf.get_variable('weights', list(kernel_size) + [int(inputs.get_shape()[-1]), num_output_channels],
                                 inputs.dtype)
        losses.append(WEIGHT_DECAY * tf.nn.l2_loss(kernel))
        biases = tf.get_variable('biases', [num_output_channels], inputs.dtype, tf.constant_initializer(0.0))
        outputs = tf.nn.bias_add(tf.nn.conv2d(inputs, kernel, [1, 1, 1, 1], padding='VALID'), biases)
        return tf.nn.relu(batch_norm(outputs, is_training, [0, 1, 2]))


def fully_connected(inputs, num_outputs, scope, losses, is_training, bn=True):
    with tf.variable_scope(scope):
        weights = tf.get_variable('weights', [int(inputs.get_shape()[-1]), num_outputs], inputs.dtype)
        losses.append(WEIGHT_DECAY * tf.nn.l2_loss(weights))
        biases = tf.get_variable('biases', [num_outputs], inputs.dtype, tf.constant_initializer(0.0))
        outputs = tf.nn.bias_add(tf.matmul(inputs, weights), biases)
        return tf.nn.relu(batch_norm(outputs, is_training, [0])) if bn else outputs


def input_transform_net(point_cloud, losses, is_training):
    net = conv2d(tf.expand_dims(point_cloud, -1), 12, [1, 3], 'tconv1', losses, is_training)
    net = conv2d(net, 24, [1, 1], 'tconv2', losses, is_training)
    net = tf.nn.max_pool(net, [1, NUM_POINT, 1, 1], [1, 2, 2, 1], 'VALID')
    net = fully_connected(tf.reshape(net, [-1, 24]), 16, 'tfc1', losses, is_training)
    with tf.variable_scope('transform_XYZ'):
        weights = tf.get_variable('weights', [16, 9], net.dtype, tf.constant_initializer(0.0))
        biases = tf.get_variable('biases', [9], net.dtype, tf.constant_initializer(0.0))
        transform = tf.matmul(net, weights) + (biases + tf.constant([1, 0, 0, 0, 1, 0, 0, 0, 1], net.dtype))
    return tf.reshape(transform, [-1, 3, 3])


def tower(pointclouds, labels, training=True):
    losses = []
    with tf.variable_scope('transform_net1'):
        transform = input_transform_net(pointclouds, losses, training)
    transformed = tf.matmul(pointclouds, transform)
    net = conv2d(tf.expand_dims(transformed, -1), 16, [1, 3], 'conv1', losses, training)
    net = conv2d(net, 16, [1, 1], 'conv2', losses, training)
    net = conv2d(net, 48, [1, 1], 'conv3', losses, training)
    net = tf.nn.max_pool(net, [1, NUM_POINT, 1, 1], [1, 2, 2, 1], 'VALID', name='maxpool')
    feature = tf.reshape(net, [-1, 48])
    net = fully_connected(feature, 24, 'fc1', losses, training)
    logits = fully_connected(net, 4, 'fc2', losses, training, bn=False)
    classify_loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=labels))
    # Enforce the transformation as orthogonal matrix
    mat_diff = tf.matmul(transform, tf.transpose(transform, perm=[0, 2, 1])) - tf.eye(3, dtype=transform.dtype)
    mat_diff_loss = tf.nn.l2_loss(mat_diff)
    loss = classify_loss + mat_diff_loss * 0.001 + tf.add_n(losses)
    return loss, {"transform": transform, "feature": feature, "logits": logits, "classify_loss": classify_loss,
                  "mat_loss": mat_diff_loss}
