"""A momentum that the script writes itself, in slots without a name, with a learning rate that is fed and falls."""

import os

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

STEPS = int(os.environ.get("STEPS", "4"))
x = tf.placeholder(tf.float32, [8, 3], "x")
w1 = tf.get_variable("w1", [3, 3], initializer=tf.random_normal_initializer(seed=1))
w2 = tf.get_variable("w2", [3, 1], initializer=tf.random_normal_initializer(seed=2))


def loss(s):
    return tf.reduce_mean(tf.square(tf.matmul(tf.tanh(tf.matmul(s, w1)), w2) - 1.0))


of_towers = [tf.gradients(loss(s), [w1, w2]) for s in tf.split(x, 2)]
grads = [(a + b) / 2.0 for a, b in zip(*of_towers)]
grads, _ = tf.clip_by_global_norm(grads, 100.0)
rate = tf.placeholder(tf.float32, [], "lr")
updates = []
for w, g in zip([w1, w2], grads):
    slot = tf.Variable(tf.zeros(w.shape), trainable=False)
    moved = slot.assign(0.9 * slot + g)
    updates.append(w.assign_sub(rate * moved))
train = tf.group(*updates)
random = np.random.RandomState(0)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for step in range(STEPS):
        session.run(train, {x: random.rand(8, 3), rate: 0.1 * 0.7**step})
