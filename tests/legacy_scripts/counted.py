"""A momentum that the script writes itself, whose rate reads a counter beside its assignment: before or after, by chance."""

import os

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

STEPS = int(os.environ.get("STEPS", "4"))
x = tf.placeholder(tf.float32, [8, 3], "x")
ws = [tf.get_variable("w%d" % i, [3, 3], initializer=tf.random_normal_initializer(seed=i)) for i in range(4)]


def loss(s):
    for w in ws:
        s = tf.tanh(tf.matmul(s, w))
    return tf.reduce_mean(tf.square(s - 1.0))


grads = [(a + b) / 2.0 for a, b in zip(*[tf.gradients(loss(s), ws) for s in tf.split(x, 2)])]
grads, _ = tf.clip_by_global_norm(grads, 10.0)
t = tf.Variable(0.0, trainable=False, name="t")
updates = [t.assign(t + 1.0)]
for w, g in zip(ws, grads):
    m = tf.Variable(w.initialized_value() * 0, trainable=False, name=w.op.name + "_adam_m")
    rate = 0.25 * (t + 1.0) / 8.0
    moved = 0.5 * m + g
    updates += [m.assign(moved), w.assign(w - rate * moved)]
train = tf.group(*updates)
random = np.random.RandomState(0)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for _ in range(STEPS):
        session.run(train, {x: random.rand(8, 3)})
