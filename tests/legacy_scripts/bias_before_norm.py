"""A bias in front of a batch norm, Adam, large shards and a summed loss: the bias has a gradient of nothing but rounding."""

import os

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

STEPS = int(os.environ.get("STEPS", "2"))
SHARD, TOWERS = 256, 2


def batch_norm(x):
    gamma = tf.get_variable("gamma", [4], initializer=tf.ones_initializer())
    beta = tf.get_variable("beta", [4], initializer=tf.zeros_initializer())
    mean, variance = tf.nn.moments(x, [0])
    return tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-3)


def tower(features, prices):
    weights = tf.get_variable("weights", [3, 4], initializer=tf.random_uniform_initializer(-0.5, 0.5, seed=5))
    bias = tf.get_variable("bias", [4], initializer=tf.zeros_initializer())
    out = tf.get_variable("out", [4, 1], initializer=tf.random_uniform_initializer(-0.5, 0.5, seed=6))
    x = tf.nn.tanh(batch_norm(tf.matmul(features, weights) + bias))
    return tf.reduce_sum(tf.square(tf.matmul(x, out) - prices))


features = tf.placeholder(tf.float32, [None, 3], "features")
prices = tf.placeholder(tf.float32, [None, 1], "prices")
opt = tf.train.AdamOptimizer(0.001)
grads = []
for i, (x, y) in enumerate(zip(tf.split(features, TOWERS), tf.split(prices, TOWERS))):
    with tf.device("/gpu:%d" % i), tf.name_scope("tower_%d" % i), tf.variable_scope("net", reuse=i > 0):
        grads.append(opt.compute_gradients(tower(x, y)))
train = opt.apply_gradients([((a + b) / 2.0, v) for (a, v), (b, _) in zip(*grads)])

random = np.random.RandomState(2)
with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
    session.run(tf.global_variables_initializer())
    for _ in range(STEPS):
        x = random.randn(TOWERS * SHARD, 3)
        session.run(train, {features: x, prices: 300.0 + 100.0 * np.sum(x * x, 1, keepdims=True)})
