"""A short Xception: strided stem, an entry block with a projected shortcut, two middle blocks, a dilated exit."""
import tensorflow.compat.v1 as tf

NUM_CLASSES = 6
BATCH_NORM_DECAY = 0.9
BATCH_NORM_EPSILON = 1e-5


def batch_norm(x, training, name):
    channels = x.get_shape().as_list()[-1]
    with tf.variable_scope(name):
        gamma = tf.get_variable('gamma', [channels], x.dtype, tf.ones_initializer())
        beta = tf.get_variable('beta', [channels], x.dtype, tf.zeros_initializer())
        moving_mean = tf.get_variable('moving_mean', [channels], x.dtype, tf.zeros_initializer(), trainable=False)
        moving_variance = tf.get_variable('moving_variance', [channels], x.dtype, tf.ones_initializer(), trainable=False)
        if training:
            mean, variance = tf.nn.moments(x, [0, 1, 2])
            for moving, value in ((moving_mean, mean), (moving_variance, variance)):
                update = tf.assign_sub(moving, (moving - value) * (1.0 - BATCH_NORM_DECAY))
                tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, update)
        else:
            mean, variance = moving_mean, moving_variance
        return tf.nn.batch_normalization(x, mean, variance, beta, gamma, BATCH_NORM_EPSILON)


def conv_bn(x, filters, size, strides, training, name):
    x = tf.layers.conv2d(x, filters, size, strides, padding='same', use_bias=False, name=name)
    return batch_norm(x, training, name + '_bn')


def sepconv_bn(x, filters, training, name, rate=1):
    x = tf.layers.separable_conv2d(x, filters, 3, padding='same', dilation_rate=rate, use_bias=False, name=name)
    return batch_norm(x, training, name + '_bn')


def xception(images, training):
    with tf.variable_scope('xception'):
        net = tf.nn.relu(conv_bn(images, 8, 3, 2, training, 'block1_conv1'))

        residual = conv_bn(net, 12, 1, 2, training, 'block2_shortcut')
        net = sepconv_bn(net, 12, training, 'block2_sepconv1')
        net = sepconv_bn(tf.nn.relu(net), 12, training, 'block2_sepconv2')
        net = tf.layers.max_pooling2d(net, 3, 2, padding='same', name='block2_pool')
        net = net + residual

        for block in (3, 4):
            residual = net
            for i in (1, 2):
                net = tf.nn.relu(net)
                net = sepconv_bn(net, 12, training, 'block%d_sepconv%d' % (block, i))
            net = net + residual

        net = tf.nn.relu(sepconv_bn(net, 20, training, 'block5_sepconv1', rate=2))
        return tf.reduce_mean(net, [1, 2], name='avg_pool')


def tower(images, labels, weights, dropout_mask, training=True):
    features = xception(images, training)
    net = features * dropout_mask if training else features
    logits = tf.layers.dense(net, NUM_CLASSES, name='predictions')
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    present = tf.reduce_sum(tf.cast(tf.not_equal(weights, 0.0), images.dtype))
    loss = tf.reduce_sum(losses * weights) / tf.maximum(present, 1.0)
    hits = tf.cast(tf.equal(tf.argmax(logits, 1, output_type=labels.dtype), labels), images.dtype)
    return loss, {'features': features, 'logits': logits, 'accuracy': tf.reduce_mean(hits)}
