"""A convolution and a max pool over mirrored images: with symmetric kernels the middle of each row ties."""

import os

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

STEPS = int(os.environ.get("STEPS", "3"))
BATCH, SIDE, CHANNELS = 16, 10, 4


def tower(images, targets):
    ramp = np.linspace(0.1, 0.7, CHANNELS).reshape([1, 1, 1, CHANNELS])
    kernel = tf.get_variable("conv/kernel", initializer=np.tile(ramp, [5, 5, 1, 1]).astype(np.float32))
    bias = tf.get_variable("conv/bias", [CHANNELS], initializer=tf.constant_initializer(0.1))
    weights = tf.get_variable(
        "fc/weights",
        [SIDE // 2 * SIDE // 2 * CHANNELS, 1],
        initializer=tf.random_uniform_initializer(-0.1, 0.1, seed=3),
    )
    x = tf.nn.relu(tf.nn.conv2d(images, kernel, [1, 1, 1, 1], "SAME") + bias)
    x = tf.nn.max_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    x = tf.matmul(tf.reshape(x, [-1, SIDE // 2 * SIDE // 2 * CHANNELS]), weights)
    return tf.reduce_mean(tf.square(x - targets))


images = tf.placeholder(tf.float32, [BATCH, SIDE, SIDE, 1], "images")
targets = tf.placeholder(tf.float32, [BATCH, 1], "targets")
opt = tf.train.MomentumOptimizer(0.001, 0.9)
grads = []
for i, (x, y) in enumerate(zip(tf.split(images, 2), tf.split(targets, 2))):
    with tf.device("/gpu:%d" % i), tf.name_scope("tower_%d" % i), tf.variable_scope("net", reuse=i > 0):
        grads.append(opt.compute_gradients(tower(x, y)))
train = opt.apply_gradients([((a + b) / 2.0, v) for (a, v), (b, _) in zip(*grads)])

random = np.random.RandomState(1)
with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
    session.run(tf.global_variables_initializer())
    for _ in range(STEPS):
        half = random.rand(BATCH, SIDE, SIDE // 2, 1).astype(np.float32)
        whole = np.concatenate([half, half[:, :, ::-1]], 2)
        session.run(train, {images: whole, targets: random.randn(BATCH, 1)})
