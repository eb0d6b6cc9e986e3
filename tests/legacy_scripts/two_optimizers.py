"""A generator and a discriminator with an Adam each, run in turn; two towers."""

import os

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

STEPS = int(os.environ.get("STEPS", "2"))


def generator(z):
    with tf.variable_scope("generator", reuse=tf.AUTO_REUSE):
        return tf.matmul(z, tf.get_variable("w", [2, 3], initializer=tf.random_normal_initializer(seed=1)))


def discriminator(x):
    with tf.variable_scope("discriminator", reuse=tf.AUTO_REUSE):
        return tf.matmul(x, tf.get_variable("w", [3, 1], initializer=tf.random_normal_initializer(seed=2)))


def average(towers):
    return [(tf.add_n([g for g, _ in pairs]) / len(pairs), pairs[0][1]) for pairs in zip(*towers)]


real, noise = tf.placeholder(tf.float32, [8, 3], "real"), tf.placeholder(tf.float32, [8, 2], "noise")
d_opt = tf.train.AdamOptimizer(1e-2, beta1=0.5, name="DAdam")
g_opt = tf.train.AdamOptimizer(1e-3, beta1=0.5, name="GAdam")
d_towers, g_towers = [], []
for i, (x, z) in enumerate(zip(tf.split(real, 2), tf.split(noise, 2))):
    with tf.device("/gpu:%d" % i), tf.name_scope("gpu_%d" % i):
        fake = discriminator(generator(z))
        d_loss = tf.reduce_mean(tf.nn.softplus(fake) + tf.nn.softplus(-discriminator(x)))
        g_loss = tf.reduce_mean(tf.nn.softplus(-fake))
        d_towers.append(d_opt.compute_gradients(d_loss, tf.trainable_variables("discriminator")))
        g_towers.append(g_opt.compute_gradients(g_loss, tf.trainable_variables("generator")))
d_train, g_train = d_opt.apply_gradients(average(d_towers)), g_opt.apply_gradients(average(g_towers))
random = np.random.RandomState(5)
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for _ in range(STEPS):
        sess.run(d_train, {real: random.randn(8, 3), noise: random.randn(8, 2)})
        sess.run(g_train, {noise: random.randn(8, 2)})
print("done")
