"""Convolutions with kernels in four orientations, pooled over orientations, so that maps turn with the image."""
import tensorflow.compat.v1 as tf

NUM_CLASSES = 6
BN_DECAY, BN_EPSILON = 0.9, 1e-3


def rotations(kernel):
    """The kernel [h, w, in, out] and its quarter turns against the clock."""
    transposed = tf.transpose(kernel, [1, 0, 2, 3])
    return [kernel, tf.reverse(transposed, [0]), tf.reverse(kernel, [0, 1]), tf.reverse(transposed, [1])]


def oriented_conv(x, filters, stride, scope):
    with tf.variable_scope(scope):
        kernel = tf.get_variable("kernel", [3, 3, x.shape.as_list()[-1], filters], x.dtype,
                                 initializer=tf.variance_scaling_initializer(2.0))
        bias = tf.get_variable("bias", [filters], x.dtype, initializer=tf.zeros_initializer())
        stacked = tf.concat(rotations(kernel), axis=3)
        y = tf.nn.conv2d(x, stacked, [1, stride, stride, 1], padding="SAME")
        _, h, w, _ = y.shape.as_list()
        y = tf.reshape(y, [-1, h, w, 4, filters])
        return tf.reduce_max(y, axis=3) + bias


def group_norm(x, groups, scope, eps=1e-5):
    with tf.variable_scope(scope):
        _, h, w, c = x.shape.as_list()
        gamma = tf.get_variable("gamma", [c], x.dtype, initializer=tf.ones_initializer())
        beta = tf.get_variable("beta", [c], x.dtype, initializer=tf.zeros_initializer())
        x = tf.reshape(x, [-1, h, w, groups, c // groups])
        mean, var = tf.nn.moments(x, [1, 2, 4], keep_dims=True)
        x = (x - mean) / tf.sqrt(var + eps)
        return tf.reshape(x, [-1, h, w, c]) * gamma + beta


def batch_norm(x, training, scope):
    with tf.variable_scope(scope):
        shape = x.shape.as_list()[1:]
        gamma = tf.get_variable("gamma", shape, x.dtype, initializer=tf.ones_initializer())
        beta = tf.get_variable("beta", shape, x.dtype, initializer=tf.zeros_initializer())
        moving_mean = tf.get_variable("moving_mean", shape, x.dtype, tf.zeros_initializer(), trainable=False)
        moving_var = tf.get_variable("moving_variance", shape, x.dtype, tf.ones_initializer(), trainable=False)
        mean, var = moving_mean, moving_var
        if training:
            mean, var = tf.nn.moments(x, [0])
            for moving, value in ((moving_mean, mean), (moving_var, var)):
                update = tf.assign(moving, moving * BN_DECAY + value * (1 - BN_DECAY))
                tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, update)
        return tf.nn.batch_normalization(x, mean, var, beta, gamma, BN_EPSILON)


def tower(images, labels, training=True):
    end_points = {}
    net = images
    for i, (filters, stride) in enumerate([(8, 1), (12, 2), (16, 2)]):
        net = oriented_conv(net, filters, stride, "gconv%d" % i)
        net = tf.nn.relu(group_norm(net, 4, "gn%d" % i))
        end_points["block%d" % i] = net
    pooled = tf.reduce_mean(net, [1, 2])
    pooled = batch_norm(pooled, training, "bn")
    with tf.variable_scope("logits"):
        kernel = tf.get_variable("kernel", [16, NUM_CLASSES], images.dtype,
                                 initializer=tf.glorot_uniform_initializer())
        bias = tf.get_variable("bias", [NUM_CLASSES], images.dtype, initializer=tf.zeros_initializer())
        logits = tf.matmul(pooled, kernel) + bias
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    end_points.update(pooled=pooled, logits=logits, cross_entropy=loss)
    return loss, end_points
