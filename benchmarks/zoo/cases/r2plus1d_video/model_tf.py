"""R(2+1)D: every 3-D convolution is a spatial one, batch norm, ReLU, and a temporal one."""
import tensorflow.compat.v1 as tf

NUM_CLASSES = 6
BN_DECAY = 0.9
BN_EPSILON = 1e-3
WEIGHT_DECAY = 1e-3
LABEL_SMOOTHING = 0.1


def variable_with_weight_decay(name, shape, dtype):
    fan_in = 1
    for n in shape[:-1]:
        fan_in *= n
    w = tf.get_variable(name, shape, dtype, initializer=tf.truncated_normal_initializer(stddev=(2.0 / fan_in) ** 0.5))
    return w, WEIGHT_DECAY * tf.nn.l2_loss(w)


class Net(object):
    def __init__(self, is_training):
        self.is_training = is_training
        self.losses = []

    def conv3d(self, x, filters, kernel, stride, name):
        """Pads explicitly, so that strides see the same places at any size."""
        with tf.variable_scope(name):
            pads = [[0, 0]] + [[k // 2, k // 2] for k in kernel] + [[0, 0]]
            w, decay = variable_with_weight_decay("weights", list(kernel) + [x.shape.as_list()[-1], filters], x.dtype)
            self.losses.append(decay)
            return tf.nn.conv3d(tf.pad(x, pads), w, [1] + list(stride) + [1], padding="VALID")

    def bn(self, x, name="bn"):
        with tf.variable_scope(name):
            depth = [x.shape.as_list()[-1]]
            scale = tf.get_variable("scale", depth, x.dtype, initializer=tf.ones_initializer())
            offset = tf.get_variable("offset", depth, x.dtype, initializer=tf.zeros_initializer())
            pop_mean = tf.get_variable("pop_mean", depth, x.dtype, initializer=tf.zeros_initializer(), trainable=False)
            pop_var = tf.get_variable("pop_var", depth, x.dtype, initializer=tf.ones_initializer(), trainable=False)
            if not self.is_training:
                return tf.nn.batch_normalization(x, pop_mean, pop_var, offset, scale, BN_EPSILON)
            mean, var = tf.nn.moments(x, [0, 1, 2, 3])
            for pop, now in ((pop_mean, mean), (pop_var, var)):
                tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign_sub(pop, (1 - BN_DECAY) * (pop - now)))
            return tf.nn.batch_normalization(x, mean, var, offset, scale, BN_EPSILON)

    def conv2plus1d(self, x, filters, stride, name):
        with tf.variable_scope(name):
            channels = x.shape.as_list()[-1]
            mid = (3 * 3 * 3 * channels * filters) // (3 * 3 * channels + 3 * filters)
            x = self.conv3d(x, mid, (1, 3, 3), (1, stride, stride), "spatial")
            x = tf.nn.relu(self.bn(x))
            return self.conv3d(x, filters, (3, 1, 1), (stride, 1, 1), "temporal")

    def block(self, x, filters, stride, name):
        with tf.variable_scope(name):
            y = tf.nn.relu(self.bn(self.conv2plus1d(x, filters, stride, "conv1"), "bn1"))
            y = self.bn(self.conv2plus1d(y, filters, 1, "conv2"), "bn2")
            if stride != 1 or x.shape.as_list()[-1] != filters:
                x = self.bn(self.conv3d(x, filters, (1, 1, 1), (stride,) * 3, "shortcut"), "shortcut_bn")
            return tf.nn.relu(x + y)


def tower(clips, labels, training=True):
    net = Net(training)
    end_points = {}
    with tf.variable_scope("r2plus1d"):
        with tf.variable_scope("stem"):
            x = net.conv3d(clips, 6, (1, 3, 3), (1, 2, 2), "spatial")
            x = tf.nn.relu(net.bn(x, "spatial_bn"))
            x = net.conv3d(x, 6, (3, 1, 1), (1, 1, 1), "temporal")
            x = tf.nn.relu(net.bn(x, "temporal_bn"))
        end_points["stem"] = x
        x = end_points["block1"] = net.block(x, 6, 1, "block1")
        x = end_points["block2"] = net.block(x, 10, 2, "block2")
        x = tf.reduce_mean(x, [1, 2, 3])
        with tf.variable_scope("fc"):
            w, decay = variable_with_weight_decay("weights", [10, NUM_CLASSES], x.dtype)
            net.losses.append(decay)
            b = tf.get_variable("biases", [NUM_CLASSES], x.dtype, initializer=tf.zeros_initializer())
            logits = end_points["logits"] = tf.nn.bias_add(tf.matmul(x, w), b)
    onehot = tf.one_hot(labels, NUM_CLASSES, dtype=logits.dtype)
    onehot = onehot * (1 - LABEL_SMOOTHING) + LABEL_SMOOTHING / NUM_CLASSES
    cross_entropy = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=onehot, logits=logits))
    end_points["cross_entropy"] = cross_entropy
    return cross_entropy + tf.add_n(net.losses), end_points
