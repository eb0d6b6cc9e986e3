"""Clones as slim's model_deploy makes them: arg_scope, scaled losses that are summed, decay in the first clone."""

import os

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.contrib import slim

STEPS = int(os.environ.get("STEPS", "4"))
CLONES = 2


def network(images):
    with slim.arg_scope([slim.conv2d, slim.fully_connected], weights_regularizer=slim.l2_regularizer(0.004)):
        with slim.arg_scope([slim.conv2d], normalizer_fn=slim.batch_norm, stride=2, padding="SAME"):
            with slim.arg_scope([slim.batch_norm], decay=0.9, epsilon=0.001, scale=True, is_training=True):
                net = slim.conv2d(images, 4, [3, 3], scope="conv1")
                net = slim.conv2d(net, 3, [3, 3], scope="conv2")
        net = slim.max_pool2d(net, [2, 2], stride=1, padding="SAME", scope="pool")
        net = slim.flatten(net)
        return slim.fully_connected(net, 3, activation_fn=None, scope="logits")


def create_clones(images, labels):
    clones = []
    for i in range(CLONES):
        with tf.name_scope("clone_%d" % i) as scope:
            with tf.device("/gpu:%d" % i):
                with tf.variable_scope(tf.get_variable_scope(), reuse=True if i > 0 else None):
                    tf.losses.sparse_softmax_cross_entropy(labels[i], network(images[i]))
                    clones.append(scope)
    return clones


def clone_loss(scope, first):
    losses = tf.get_collection(tf.GraphKeys.LOSSES, scope)
    total = tf.div(tf.add_n(losses, name="clone_loss"), float(CLONES), name="scaled_clone_loss")
    if first:
        total = tf.add_n([total] + tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES), name="sum_loss")
    return total


with tf.Graph().as_default():
    tf.set_random_seed(3)
    global_step = slim.create_global_step()
    all_images = tf.placeholder(tf.float32, [8, 8, 8, 2], "images")
    all_labels = tf.placeholder(tf.int32, [8], "labels")
    clones = create_clones(tf.split(all_images, CLONES), tf.split(all_labels, CLONES))
    update_ops = tf.get_collection(tf.GraphKeys.UPDATE_OPS, clones[0])
    optimizer = tf.train.RMSPropOptimizer(0.01, decay=0.9, momentum=0.9, epsilon=1.0)
    gradients = []
    for i, scope in enumerate(clones):
        with tf.name_scope(scope), tf.device("/gpu:%d" % i):
            gradients.append(optimizer.compute_gradients(clone_loss(scope, i == 0)))
    summed = [(tf.add_n([g for g, _ in pairs], name="sum_grads"), pairs[0][1]) for pairs in zip(*gradients)]
    update_ops.append(optimizer.apply_gradients(summed, global_step=global_step))
    train = tf.group(*update_ops)
    random = np.random.RandomState(7)
    with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
        session.run(tf.global_variables_initializer())
        for _ in range(STEPS):
            session.run(train, {all_images: random.randn(8, 8, 8, 2), all_labels: random.randint(3, size=8)})
print("done")
