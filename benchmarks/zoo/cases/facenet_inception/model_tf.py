"""A face recogniser trained by softmax: Inception-ResNet v1 with scaled residuals, a bottleneck that is only normalised, an L1 norm
of the embedding in the loss, l2 of the weights, after the FaceNet implementation in TensorFlow 1."""
import tensorflow.compat.v1 as tf

WEIGHT_DECAY = 5e-4
PRELOGITS_NORM_FACTOR = 2e-2
EMBEDDING_SIZE = 16
NUM_CLASSES = 10


class Net(object):
    """What slim's arg_scope would hand down: batch norm without gamma, ReLU, no biases."""

    def __init__(self, training):
        self.training = training
        self.end_points = {}

    def batch_norm(self, net):
        return tf.layers.batch_normalization(net, momentum=0.995, epsilon=0.001, center=True, scale=False, fused=False,
                                             training=self.training, name="BatchNorm")

    def conv2d(self, net, filters, kernel, scope, stride=1, padding="SAME", activation_fn=tf.nn.relu, normalise=True):
        kernel = [kernel, kernel] if isinstance(kernel, int) else kernel
        with tf.variable_scope(scope):
            shape = kernel + [int(net.shape[-1]), filters]
            weights = tf.get_variable("weights", shape, net.dtype, initializer=tf.glorot_uniform_initializer(dtype=net.dtype))
            net = tf.nn.conv2d(net, weights, strides=[1, stride, stride, 1], padding=padding)
            if normalise:
                net = self.batch_norm(net)
            else:
                net = net + tf.get_variable("biases", [filters], net.dtype, initializer=tf.zeros_initializer())
            return net if activation_fn is None else activation_fn(net)

    def max_pool(self, net):
        return tf.nn.max_pool(net, [1, 3, 3, 1], [1, 2, 2, 1], padding="VALID")

    def up(self, net, branches, scale, activation_fn):
        mixed = tf.concat(branches, 3)
        up = self.conv2d(mixed, int(net.shape[3]), 1, "Conv2d_1x1", activation_fn=None, normalise=False)
        net += scale * up
        return activation_fn(net) if activation_fn else net

    def block35(self, net, scope, scale=1.0):
        with tf.variable_scope(scope):
            with tf.variable_scope("Branch_0"):
                tower_conv = self.conv2d(net, 4, 1, "Conv2d_1x1")
            with tf.variable_scope("Branch_1"):
                tower_conv1 = self.conv2d(net, 4, 1, "Conv2d_0a_1x1")
                tower_conv1 = self.conv2d(tower_conv1, 4, 3, "Conv2d_0b_3x3")
            with tf.variable_scope("Branch_2"):
                tower_conv2 = self.conv2d(net, 4, 1, "Conv2d_0a_1x1")
                tower_conv2 = self.conv2d(tower_conv2, 4, 3, "Conv2d_0b_3x3")
                tower_conv2 = self.conv2d(tower_conv2, 4, 3, "Conv2d_0c_3x3")
            return self.up(net, [tower_conv, tower_conv1, tower_conv2], scale, tf.nn.relu)

    def block17(self, net, scope, scale=1.0, activation_fn=tf.nn.relu):
        with tf.variable_scope(scope):
            with tf.variable_scope("Branch_0"):
                tower_conv = self.conv2d(net, 6, 1, "Conv2d_1x1")
            with tf.variable_scope("Branch_1"):
                tower_conv1 = self.conv2d(net, 6, 1, "Conv2d_0a_1x1")
                tower_conv1 = self.conv2d(tower_conv1, 6, [1, 3], "Conv2d_0b_1x3")
                tower_conv1 = self.conv2d(tower_conv1, 6, [3, 1], "Conv2d_0c_3x1")
            return self.up(net, [tower_conv, tower_conv1], scale, activation_fn)

    def reduction_a(self, net):
        with tf.variable_scope("Mixed_6a"):
            with tf.variable_scope("Branch_0"):
                tower_conv = self.conv2d(net, 10, 3, "Conv2d_1a_3x3", stride=2, padding="VALID")
            with tf.variable_scope("Branch_1"):
                tower_conv1 = self.conv2d(net, 6, 1, "Conv2d_0a_1x1")
                tower_conv1 = self.conv2d(tower_conv1, 6, 3, "Conv2d_0b_3x3")
                tower_conv1 = self.conv2d(tower_conv1, 8, 3, "Conv2d_1a_3x3", stride=2, padding="VALID")
            return tf.concat([tower_conv, tower_conv1, self.max_pool(net)], 3)

    def inference(self, images):
        with tf.variable_scope("InceptionResnetV1"):
            net = self.conv2d(images, 6, 3, "Conv2d_1a_3x3", stride=2, padding="VALID")
            net = self.conv2d(net, 10, 3, "Conv2d_2b_3x3")
            net = self.max_pool(net)
            net = self.conv2d(net, 12, 1, "Conv2d_3b_1x1")
            for i in range(2):
                net = self.block35(net, "Repeat/block35_%d" % (i + 1), scale=0.17)
            self.end_points["block35"] = net
            net = self.reduction_a(net)
            self.end_points["Mixed_6a"] = net
            for i in range(2):
                net = self.block17(net, "Repeat_1/block17_%d" % (i + 1), scale=0.10)
            net = self.block17(net, "Block8", activation_fn=None)
            self.end_points["Block8"] = net
            net = tf.reduce_mean(net, [1, 2])
            with tf.variable_scope("Bottleneck"):
                weights = tf.get_variable("weights", [int(net.shape[1]), EMBEDDING_SIZE], net.dtype,
                                          initializer=tf.truncated_normal_initializer(stddev=0.1, dtype=net.dtype))
                net = self.batch_norm(tf.matmul(net, weights))
        return net


def tower(images, labels, training=True):
    model = Net(training)
    prelogits = model.inference((images - 127.5) / 128.0)
    with tf.variable_scope("Logits"):
        weights = tf.get_variable("weights", [EMBEDDING_SIZE, NUM_CLASSES], prelogits.dtype,
                                  initializer=tf.glorot_uniform_initializer(dtype=prelogits.dtype))
        biases = tf.get_variable("biases", [NUM_CLASSES], prelogits.dtype, initializer=tf.zeros_initializer())
        logits = tf.nn.xw_plus_b(prelogits, weights, biases)
    embeddings = tf.nn.l2_normalize(prelogits, 1, 1e-10)

    prelogits_norm = tf.reduce_mean(tf.norm(tf.abs(prelogits) + 1e-4, ord=1, axis=1))
    cross_entropy = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    regularisation = WEIGHT_DECAY * tf.add_n([tf.nn.l2_loss(v) for v in tf.trainable_variables() if "/weights" in v.name])
    loss = cross_entropy + PRELOGITS_NORM_FACTOR * prelogits_norm + regularisation
    correct = tf.equal(tf.cast(tf.argmax(logits, 1), tf.int32), labels)
    return loss, dict(model.end_points, prelogits=prelogits, embeddings=embeddings, logits=logits, cross_entropy=cross_entropy,
                      prelogits_norm=prelogits_norm, accuracy=tf.reduce_mean(tf.cast(correct, loss.dtype)))
