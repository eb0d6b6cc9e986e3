"""SqueezeNet for small pictures, with the simple bypass around every second fire module."""
import tensorflow.compat.v1 as tf

NUM_CLASSES = 7
CHANNEL_MEAN = [128.5, 116.75, 103.25]
WEIGHT_DECAY = 5e-4
LABEL_SMOOTHING = 0.1


class SqueezeNet(object):

    def __init__(self, dtype):
        self.dtype = dtype
        self.decays = []

    def conv(self, x, size, filters, name, stride=1, padding='SAME', init=None):
        with tf.variable_scope(name):
            channels = x.get_shape().as_list()[-1]
            weights = tf.get_variable('weights', [size, size, channels, filters], self.dtype,
                                      init or tf.glorot_uniform_initializer(dtype=self.dtype))
            biases = tf.get_variable('biases', [filters], self.dtype, tf.constant_initializer(0.3))
            self.decays.append(tf.nn.l2_loss(weights))
            x = tf.nn.conv2d(x, weights, [1, stride, stride, 1], padding=padding)
            return tf.nn.relu(tf.nn.bias_add(x, biases))

    def fire(self, x, squeeze, expand, name):
        with tf.variable_scope(name):
            x = self.conv(x, 1, squeeze, 'squeeze')
            with tf.variable_scope('expand'):
                e1x1 = self.conv(x, 1, expand, '1x1')
                e3x3 = self.conv(x, 3, expand, '3x3')
            return tf.concat([e1x1, e3x3], 3)

    def pool(self, x, name):
        return tf.nn.max_pool(x, [1, 3, 3, 1], [1, 2, 2, 1], padding='SAME', name=name)

    def logits(self, images):
        mean = tf.constant(CHANNEL_MEAN, dtype=self.dtype, shape=[1, 1, 1, 3])
        with tf.variable_scope('squeezenet'):
            net = self.conv((images - mean) / 64.0, 3, 12, 'conv1', stride=2, padding='VALID')
            net = self.pool(net, 'maxpool1')
            net = self.fire(net, 4, 8, 'fire2')
            net = net + self.fire(net, 4, 8, 'fire3')
            net = self.pool(net, 'maxpool3')
            net = self.fire(net, 6, 12, 'fire4')
            net = net + self.fire(net, 6, 12, 'fire5')
            net = self.conv(net, 1, NUM_CLASSES, 'conv10', init=tf.random_normal_initializer(stddev=0.01))
            return tf.reduce_mean(net, [1, 2], name='avgpool10')


def tower(images, labels):
    net = SqueezeNet(images.dtype)
    logits = net.logits(images)
    one_hot = tf.one_hot(labels, NUM_CLASSES, dtype=images.dtype)
    smooth = one_hot * (1.0 - LABEL_SMOOTHING) + LABEL_SMOOTHING / NUM_CLASSES
    cross_entropy = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=smooth, logits=logits))
    total = cross_entropy + WEIGHT_DECAY * tf.add_n(net.decays)
    return total, {'logits': logits, 'cross_entropy': cross_entropy}
