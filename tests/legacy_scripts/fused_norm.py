"""A batch norm layer with a small epsilon and a leaky ReLU, both with attributes that every graph holds in float32."""

import os

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

STEPS = int(os.environ.get("STEPS", "2"))
BATCH, SIDE, CHANNELS = 8, 4, 3


def tower(images):
    scale = tf.get_variable("scale", [CHANNELS], initializer=tf.ones_initializer())
    x = tf.layers.batch_normalization(images * scale, epsilon=1e-5, training=True, name="norm")
    return tf.reduce_mean(tf.square(tf.nn.leaky_relu(x, alpha=0.2) - 0.5))


images = tf.placeholder(tf.float32, [BATCH, SIDE, SIDE, CHANNELS], "images")
opt = tf.train.MomentumOptimizer(0.1, 0.9)
grads = []
for i, x in enumerate(tf.split(images, 2)):
    with tf.device("/gpu:%d" % i), tf.name_scope("tower_%d" % i), tf.variable_scope("net", reuse=i > 0):
        grads.append(opt.compute_gradients(tower(x)))
        if i == 0:
            updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
with tf.control_dependencies(updates):
    train = opt.apply_gradients([((a + b) / 2.0, v) for (a, v), (b, _) in zip(*grads)])

random = np.random.RandomState(1)
with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
    session.run(tf.global_variables_initializer())
    for _ in range(STEPS):
        session.run(train, {images: 0.01 * random.randn(BATCH, SIDE, SIDE, CHANNELS)})
