"""A sampled softmax, behind a fused batch norm that stands directly on its input, which is stacked in parallel."""

import os

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

STEPS = int(os.environ.get("STEPS", "3"))
images = tf.placeholder(tf.float32, [8, 2, 2, 4], "images")
labels = tf.placeholder(tf.int64, [8], "labels")
tf.set_random_seed(5)


def weight(name, shape):
    return tf.get_variable(name, shape, initializer=tf.random_normal_initializer(stddev=0.3, seed=len(name)))


def tower(x, y):
    gamma = tf.get_variable("gamma", [4], initializer=tf.ones_initializer())
    beta = tf.get_variable("beta", [4], initializer=tf.zeros_initializer())
    net = tf.nn.fused_batch_norm(x, gamma, beta, epsilon=1e-3, is_training=True)[0]
    net = tf.tanh(tf.matmul(tf.reshape(net, [4, 16]), weight("hidden", [16, 6])))
    losses = tf.nn.sampled_softmax_loss(
        weight("softmax_w", [12, 6]), weight("softmax_bias", [12]), tf.expand_dims(y, 1), net, 5, 12
    )
    return tf.reduce_mean(losses)


optimizer = tf.train.MomentumOptimizer(0.1, 0.9)
losses, pairs = [], []
for i, (x, y) in enumerate(zip(tf.split(images, 2), tf.split(labels, 2))):
    with tf.name_scope("tower_%d" % i), tf.variable_scope("m", reuse=i > 0):
        losses.append(tower(tf.parallel_stack(tf.unstack(x)), y))
        pairs.append(optimizer.compute_gradients(losses[-1]))
averaged = []
for both in zip(*pairs):
    dense = [tf.convert_to_tensor(g) for g, _ in both]
    averaged.append((tf.add_n(dense) / 2.0, both[0][1]))
train = optimizer.apply_gradients(averaged, tf.train.get_or_create_global_step())
random = np.random.RandomState(0)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for _ in range(STEPS):
        session.run(train, {images: random.rand(8, 2, 2, 4), labels: random.randint(0, 12, 8)})
