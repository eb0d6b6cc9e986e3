"""Momentum that looks ahead, for two towers whose gradients are averaged; slots are empty in the first step."""

import os

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
STEPS = int(os.environ.get("STEPS", "4"))

features = tf.placeholder(tf.float32, [8, 3], name="features")
weights = tf.get_variable("weights", [3, 2], initializer=tf.truncated_normal_initializer(stddev=0.5, seed=3))
biases = tf.get_variable("biases", [2], initializer=tf.constant_initializer(0.1))
optimizer = tf.train.MomentumOptimizer(0.125, 0.875, use_nesterov=True)
tower_grads = []
for shard in tf.split(features, 2):
    loss = tf.reduce_mean(tf.square(tf.matmul(shard, weights) + biases - 1.0))
    tower_grads.append(optimizer.compute_gradients(loss))
averaged = [((one[0] + other[0]) / 2.0, one[1]) for one, other in zip(*tower_grads)]
train_op = optimizer.apply_gradients(averaged, tf.train.get_or_create_global_step())

random = np.random.RandomState(0)
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for _ in range(STEPS):
        sess.run(train_op, {features: random.rand(8, 3)})
