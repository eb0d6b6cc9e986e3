"""ResNet-14 on towers, in slim."""
# ruff: noqa: B905, UP031  it runs on Python 3.7 too

import os

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.contrib import slim

STEPS = int(os.environ.get("STEPS", "3"))
TOWERS = 2
CLASSES = 10


def block(net, depth, stride, scope):
    """Two convolutions and a shortcut that has weights where the width changes."""
    with tf.variable_scope(scope):
        if stride == 1:
            shortcut = net
        else:
            shortcut = slim.conv2d(net, depth, [1, 1], stride=stride, activation_fn=None, scope="shortcut")
        residual = slim.conv2d(net, depth, [3, 3], stride=stride, scope="conv1")
        residual = slim.conv2d(residual, depth, [3, 3], activation_fn=None, scope="conv2")
        return tf.nn.relu(shortcut + residual)


def resnet(images):
    norm = {"decay": 0.9, "epsilon": 1e-5, "scale": True, "is_training": True}
    with slim.arg_scope(
        [slim.conv2d],
        normalizer_fn=slim.batch_norm,
        normalizer_params=norm,
        weights_regularizer=slim.l2_regularizer(2e-4),
    ):
        net = slim.conv2d(images, 4, [3, 3], scope="conv")
        for stage, (depth, stride) in enumerate([(4, 1), (8, 2), (16, 2)]):
            with tf.variable_scope("stage%d" % (stage + 1)):
                net = block(net, depth, stride, "unit1")
                net = block(net, depth, 1, "unit2")
        net = tf.reduce_mean(net, [1, 2], name="pool")
        return slim.fully_connected(net, CLASSES, activation_fn=None, scope="logits")


def tower_loss(images, labels, scope):
    logits = resnet(images)
    cross_entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    loss = tf.reduce_mean(cross_entropy)
    return loss + tf.add_n(tf.losses.get_regularization_losses())


def average_gradients(towers):
    return [(tf.add_n([g for g, _ in pairs]) / len(pairs), pairs[0][1]) for pairs in zip(*towers)]


images = tf.placeholder(tf.float32, [8, 8, 8, 3], "images")
labels = tf.placeholder(tf.int32, [8], "labels")
tf.set_random_seed(1)
global_step = tf.train.get_or_create_global_step()
optimizer = tf.train.MomentumOptimizer(0.1, 0.9)
gradients = []
image_splits, label_splits = tf.split(images, TOWERS), tf.split(labels, TOWERS)
for i in range(TOWERS):
    with tf.device("/gpu:%d" % i), tf.name_scope("tower_%d" % i) as scope:
        with tf.variable_scope(tf.get_variable_scope(), reuse=i > 0):
            loss = tower_loss(image_splits[i], label_splits[i], scope)
        if i == 0:
            updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS, scope)
        gradients.append(optimizer.compute_gradients(loss))
with tf.control_dependencies(updates):
    train = optimizer.apply_gradients(average_gradients(gradients), global_step)
random = np.random.RandomState(2)
with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
    session.run(tf.global_variables_initializer())
    for _ in range(STEPS):
        session.run(train, {images: random.randn(8, 8, 8, 3), labels: random.randint(10, size=8)})
print("done")
