"""Siamese net for signatures: tf.layers with shared names, contrastive loss with a margin."""
import tensorflow.compat.v1 as tf

MARGIN = 1.5


def mynet(input, reuse=False):
    with tf.name_scope("model"):
        with tf.variable_scope("conv1", reuse=reuse):
            net = tf.layers.conv2d(input, 8, [5, 5], strides=2, activation=tf.nn.relu, padding='SAME')
            net = tf.layers.max_pooling2d(net, [2, 2], 2, padding='SAME')
        with tf.variable_scope("conv2", reuse=reuse):
            net = tf.layers.conv2d(net, 16, [3, 3], activation=tf.nn.relu, padding='SAME')
            net = tf.layers.max_pooling2d(net, [3, 3], 2, padding='VALID')
        conv = net
        with tf.variable_scope("conv3", reuse=reuse):
            net = tf.layers.conv2d(net, 12, [1, 1], activation=None, padding='SAME')
        net = tf.layers.flatten(net)
        with tf.variable_scope("fc", reuse=reuse):
            net = tf.layers.dense(net, 20, activation=tf.nn.tanh)
        return net, conv


def contrastive_loss(model1, model2, y, margin):
    with tf.name_scope("contrastive-loss"):
        distance = tf.sqrt(tf.reduce_sum(tf.pow(model1 - model2, 2), 1) + 1e-6)
        similarity = y * tf.square(distance)  # keep the similar label (1) close to each other
        dissimilarity = (1 - y) * tf.square(tf.maximum(margin - distance, 0))
        return tf.reduce_mean(dissimilarity + similarity) / 2, distance


def tower(left, right, label):
    reuse = tf.get_variable_scope().reuse
    left_output, conv = mynet(left, reuse=reuse)
    right_output, _ = mynet(right, reuse=True)
    loss, distance = contrastive_loss(left_output, right_output, label, MARGIN)
    return loss, {"conv": conv, "left_output": left_output, "right_output": right_output, "distance": distance}
