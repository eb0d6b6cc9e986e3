"""Features that nobody trains, as of a net from elsewhere: a convolution, and another one of which only the bias trains."""

import os

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

STEPS = int(os.environ.get("STEPS", "2"))
SHARD, TOWERS = 4, 2


def conv(x, filters, name, trains_bias):
    with tf.variable_scope(name):
        shape = [3, 3, int(x.shape[-1]), filters]
        kernel = tf.get_variable(
            "kernel", shape, initializer=tf.random_normal_initializer(stddev=0.3, seed=filters), trainable=False
        )
        bias = tf.get_variable("bias", [filters], initializer=tf.constant_initializer(0.1), trainable=trains_bias)
        return tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, kernel, [1, 1, 1, 1], "SAME"), bias))


def tower(images, labels):
    x = conv(images, 4, "conv1", trains_bias=False)
    x = tf.reshape(conv(x, 3, "conv2", trains_bias=True), [SHARD, 6 * 6 * 3])
    with tf.variable_scope("head"):
        kernel = tf.get_variable("kernel", [6 * 6 * 3, 5], initializer=tf.random_normal_initializer(stddev=0.1, seed=9))
        bias = tf.get_variable("bias", [5], initializer=tf.zeros_initializer())
    logits = tf.nn.bias_add(tf.matmul(x, kernel), bias)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))


images = tf.placeholder(tf.float32, [TOWERS * SHARD, 6, 6, 2], "images")
labels = tf.placeholder(tf.int32, [TOWERS * SHARD], "labels")
step = tf.train.get_or_create_global_step()
opt = tf.train.MomentumOptimizer(0.1, 0.9)
grads = []
for i, (x, y) in enumerate(zip(tf.split(images, TOWERS), tf.split(labels, TOWERS))):
    with tf.device("/gpu:%d" % i), tf.name_scope("tower_%d" % i), tf.variable_scope("net", reuse=i > 0):
        grads.append(opt.compute_gradients(tower(x, y)))
train = opt.apply_gradients([((a + b) / 2.0, v) for (a, v), (b, _) in zip(*grads)], global_step=step)

random = np.random.RandomState(4)
with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
    session.run(tf.global_variables_initializer())
    for _ in range(STEPS):
        x = random.randn(TOWERS * SHARD, 6, 6, 2)
        session.run(train, {images: x, labels: random.randint(0, 5, TOWERS * SHARD)})
