"""ShuffleNet v2 after a public Estimator code: two streams that are concatenated, shuffled and split in front of every unit, the
first half goes through the unit; depthwise kernels do not decay."""
import tensorflow.compat.v1 as tf

BATCH_NORM_MOMENTUM = 0.9
BATCH_NORM_EPSILON = 1e-3
WEIGHT_DECAY = 1e-3
NUM_CLASSES = 8


class ShuffleNet(object):
    def __init__(self, is_training, dtype):
        self.is_training = is_training
        self.dtype = dtype

    def batch_norm(self, x):
        return tf.layers.batch_normalization(x, axis=3, center=True, scale=True, training=self.is_training, fused=False,
                                             momentum=BATCH_NORM_MOMENTUM, epsilon=BATCH_NORM_EPSILON, name="batch_norm")

    def conv(self, x, filters, kernel, stride, scope):
        with tf.variable_scope(scope):
            weights = tf.get_variable("weights", [kernel, kernel, int(x.shape[3]), filters], self.dtype,
                                      initializer=tf.glorot_uniform_initializer(dtype=x.dtype))
            x = tf.nn.conv2d(x, weights, [1, stride, stride, 1], "SAME")
            return tf.nn.relu(self.batch_norm(x))

    def depthwise_conv(self, x, kernel, stride, scope="depthwise"):
        with tf.variable_scope(scope):
            weights = tf.get_variable("depthwise_weights", [kernel, kernel, int(x.shape[3]), 1], self.dtype,
                                      initializer=tf.glorot_uniform_initializer(dtype=x.dtype))
            x = tf.nn.depthwise_conv2d(x, weights, [1, stride, stride, 1], "SAME")
            return self.batch_norm(x)

    def basic_unit(self, x):
        channels = int(x.shape[3])
        x = self.conv(x, channels, 1, 1, "conv1x1_before")
        x = self.depthwise_conv(x, 3, 1)
        return self.conv(x, channels, 1, 1, "conv1x1_after")

    def basic_unit_with_downsampling(self, x, out_channels):
        channels = int(x.shape[3])
        with tf.variable_scope("unit_1"):
            y = self.conv(x, channels, 1, 1, "conv1x1_before")
            y = self.depthwise_conv(y, 3, 2)
            y = self.conv(y, out_channels // 2, 1, 1, "conv1x1_after")
            with tf.variable_scope("second_branch"):
                x = self.depthwise_conv(x, 3, 2)
                x = self.conv(x, out_channels // 2, 1, 1, "conv1x1_after")
        return x, y

    def stage(self, x, out_channels, units, scope):
        with tf.variable_scope(scope):
            x, y = self.basic_unit_with_downsampling(x, out_channels)
            for j in range(1, units):
                with tf.variable_scope("unit_%d" % (j + 1)):
                    x, y = concat_shuffle_split(x, y)
                    x = self.basic_unit(x)
            return tf.concat([x, y], axis=3)


def concat_shuffle_split(x, y):
    with tf.name_scope("concat_shuffle_split"):
        height, width, depth = [int(d) for d in x.shape[1:]]
        z = tf.stack([x, y], axis=3)
        z = tf.transpose(z, [0, 1, 2, 4, 3])
        z = tf.reshape(z, [-1, height, width, 2 * depth])
        x, y = tf.split(z, num_or_size_splits=2, axis=3)
        return x, y


def tower(images, labels, training=True):
    net = ShuffleNet(training, images.dtype)
    x = (2.0 * images) - 1.0
    end_points = {}
    with tf.variable_scope("ShuffleNetV2"):
        x = net.conv(x, 8, 3, 2, "Conv1")
        x = tf.nn.max_pool(x, [1, 3, 3, 1], [1, 2, 2, 1], "SAME", name="MaxPool")
        x = end_points["stage2"] = net.stage(x, 16, 3, "Stage2")
        x = end_points["stage3"] = net.stage(x, 32, 3, "Stage3")
        x = net.conv(x, 48, 1, 1, "Conv5")
        x = tf.reduce_mean(x, axis=[1, 2])
        with tf.variable_scope("classifier"):
            weights = tf.get_variable("weights", [48, NUM_CLASSES], x.dtype, initializer=tf.glorot_uniform_initializer(dtype=x.dtype))
            biases = tf.get_variable("biases", [NUM_CLASSES], x.dtype, initializer=tf.zeros_initializer())
            logits = tf.matmul(x, weights) + biases
    end_points["logits"] = logits
    cross_entropy = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits), axis=0)
    decayed = [v for v in tf.trainable_variables() if "weights" in v.name and "depthwise_weights" not in v.name]
    regularization_loss = tf.add_n([tf.multiply(tf.nn.l2_loss(w), WEIGHT_DECAY) for w in decayed])
    end_points["cross_entropy"] = cross_entropy
    return cross_entropy + regularization_loss, end_points
