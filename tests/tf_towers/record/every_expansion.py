"""Not a test: a script with every op that has no float64 kernel and is written out, and constants of many kinds."""

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.ops import gen_nn_ops

tf.disable_v2_behavior()


def batch_norm(x, name, training=True):
    with tf.variable_scope(name):
        gamma = tf.get_variable("gamma", [4], initializer=tf.random_uniform_initializer(0.5, 1.5, seed=3))
        beta = tf.get_variable("beta", [4], initializer=tf.random_uniform_initializer(-0.5, 0.5, seed=4))
        mean = tf.get_variable("moving_mean", [4], initializer=tf.zeros_initializer(), trainable=False)
        variance = tf.get_variable("moving_variance", [4], initializer=tf.ones_initializer(), trainable=False)
    if not training:
        return tf.nn.fused_batch_norm(x, gamma, beta, mean, variance, 1e-3, is_training=False)[0]
    y, found, spread = tf.nn.fused_batch_norm(x, gamma, beta, epsilon=1e-3, is_training=True)
    for moving, value in ((mean, found), (variance, spread)):
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign_sub(moving, (moving - value) * 0.1))
    return y


images = tf.placeholder(tf.float32, [3, 6, 6, 2], "images")
kernel = tf.get_variable("kernel", [3, 3, 2, 4], initializer=tf.random_normal_initializer(stddev=0.3, seed=1))
net = tf.nn.conv2d(images, kernel, [1, 1, 1, 1], "SAME")
net = gen_nn_ops.leaky_relu(batch_norm(net, "first"), alpha=0.1)
net = tf.nn.local_response_normalization(net, depth_radius=1, bias=1.5, alpha=0.3, beta=0.75)
net = tf.image.resize_bilinear(net, [9, 7])
net = tf.image.resize_bilinear(net, [4, 5], align_corners=True)
net = tf.nn.max_pool(batch_norm(net, "second", training=False), [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
net = 0.5 * net * (1.0 + tf.tanh(np.sqrt(2 / np.pi) * (net + 0.044715 * net * net * net)))
net = tf.nn.dropout(net, rate=0.3, seed=5)
loss = tf.losses.mean_squared_error(tf.ones([3, 2, 3, 4]), net) + 0.01 * tf.nn.l2_loss(kernel) / 3
optimizer = tf.train.AdamOptimizer(0.01)
pairs = optimizer.compute_gradients(loss)
update = optimizer.apply_gradients(pairs, tf.train.get_or_create_global_step())
train = tf.group(update, *tf.get_collection(tf.GraphKeys.UPDATE_OPS))
random = np.random.RandomState(0)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for _ in range(3):
        session.run(train, {images: random.randn(3, 6, 6, 2)})
