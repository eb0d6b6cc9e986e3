"""VGG with batch norm for small images, every variable by hand: convolutions with biases, population statistics in variables of
their own, two hidden dense layers with dropout (its masks are fed), l2 of the kernels in the loss."""
import tensorflow.compat.v1 as tf

NUM_CLASSES = 10
BN_DECAY = 0.9
BN_EPSILON = 1e-3
L2 = 5e-4


def _variable(name, shape, initializer, dtype, trainable=True):
    return tf.get_variable(name, shape, dtype=dtype, initializer=initializer, trainable=trainable)


def batch_norm(x, is_training):
    depth, axes, dtype = int(x.shape[-1]), list(range(len(x.shape) - 1)), x.dtype
    gamma = _variable("gamma", [depth], tf.ones_initializer(), dtype)
    beta = _variable("beta", [depth], tf.zeros_initializer(), dtype)
    pop_mean = _variable("pop_mean", [depth], tf.zeros_initializer(), dtype, trainable=False)
    pop_var = _variable("pop_var", [depth], tf.ones_initializer(), dtype, trainable=False)
    if not is_training:
        return tf.nn.batch_normalization(x, pop_mean, pop_var, beta, gamma, BN_EPSILON)
    mean, var = tf.nn.moments(x, axes)
    tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign(pop_mean, pop_mean * BN_DECAY + mean * (1 - BN_DECAY)))
    tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign(pop_var, pop_var * BN_DECAY + var * (1 - BN_DECAY)))
    return tf.nn.batch_normalization(x, mean, var, beta, gamma, BN_EPSILON)


def conv_layer(bottom, filters, is_training, name):
    with tf.variable_scope(name):
        depth = int(bottom.shape[-1])
        stddev = (2.0 / (9 * filters)) ** 0.5
        kernel = _variable("weights", [3, 3, depth, filters], tf.random_normal_initializer(stddev=stddev), bottom.dtype)
        conv = tf.nn.conv2d(bottom, kernel, [1, 1, 1, 1], padding="SAME")
        bias = tf.nn.bias_add(conv, _variable("biases", [filters], tf.zeros_initializer(), bottom.dtype))
        return tf.nn.relu(batch_norm(bias, is_training))


def fc_layer(bottom, units, name):
    with tf.variable_scope(name):
        depth = int(bottom.shape[-1])
        weights = _variable("weights", [depth, units], tf.glorot_uniform_initializer(), bottom.dtype)
        return tf.nn.bias_add(tf.matmul(bottom, weights), _variable("biases", [units], tf.zeros_initializer(), bottom.dtype))


def hidden_layer(bottom, units, keep, is_training, name):
    fc = fc_layer(bottom, units, name)
    with tf.variable_scope(name):
        fc = tf.nn.relu(batch_norm(fc, is_training))
    return fc * keep if is_training else fc


def max_pool(bottom, name):
    return tf.nn.max_pool(bottom, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME", name=name)


def tower(images, labels, keep_fc1, keep_fc2, training=True):
    with tf.variable_scope("vgg"):
        conv1_1 = conv_layer(images, 8, training, "conv1_1")
        conv1_2 = conv_layer(conv1_1, 8, training, "conv1_2")
        pool1 = max_pool(conv1_2, "pool1")
        conv2_1 = conv_layer(pool1, 12, training, "conv2_1")
        conv2_2 = conv_layer(conv2_1, 12, training, "conv2_2")
        pool2 = max_pool(conv2_2, "pool2")
        conv3_1 = conv_layer(pool2, 16, training, "conv3_1")
        conv3_2 = conv_layer(conv3_1, 16, training, "conv3_2")
        conv3_3 = conv_layer(conv3_2, 16, training, "conv3_3")
        pool3 = max_pool(conv3_3, "pool3")
        flat = tf.reshape(pool3, [-1, 2 * 3 * 16])
        fc1 = hidden_layer(flat, 20, keep_fc1, training, "fc1")
        fc2 = hidden_layer(fc1, 24, keep_fc2, training, "fc2")
        logits = fc_layer(fc2, NUM_CLASSES, "fc3")
    cross_entropy = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    l2 = L2 * tf.add_n([tf.nn.l2_loss(v) for v in tf.trainable_variables() if "weights" in v.name])
    return cross_entropy + l2, {"pool1": pool1, "pool3": pool3, "fc2": fc2, "logits": logits, "l2": l2}
