"""An old program that trains and serves a small net: it restores its checkpoints with a plain Saver.

Usage: served.py serve|serve_averages|train CHECKPOINT IN.npz OUT.npz float32|float64
"""

import sys

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
mode, checkpoint, given, out, dtype = sys.argv[1:]
training = mode == "train"


def dense(x, units, scope):
    with tf.variable_scope(scope):
        kernel = tf.get_variable("kernel", [x.shape[-1], units], x.dtype)
        bias = tf.get_variable("bias", [units], x.dtype, tf.zeros_initializer())
        return tf.nn.bias_add(tf.matmul(x, kernel), bias)


def batch_norm(x, scope, decay=0.9, epsilon=1e-3):
    size = [int(x.shape[-1])]
    with tf.variable_scope(scope):
        gamma = tf.get_variable("gamma", size, x.dtype, tf.ones_initializer())
        beta = tf.get_variable("beta", size, x.dtype, tf.zeros_initializer())
        mean = tf.get_variable("moving_mean", size, x.dtype, tf.zeros_initializer(), trainable=False)
        variance = tf.get_variable("moving_variance", size, x.dtype, tf.ones_initializer(), trainable=False)
    if not training:
        return tf.nn.batch_normalization(x, mean, variance, beta, gamma, epsilon)
    batch_mean, batch_variance = tf.nn.moments(x, [0])
    count = tf.cast(tf.shape(x)[0], x.dtype)
    weight = tf.constant(np.float32(1) - np.float32(decay), x.dtype)
    unbiased = batch_variance * count / (count - 1)
    for moving, new in ((mean, batch_mean), (variance, unbiased)):
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign_sub(moving, (moving - new) * weight))
    return tf.nn.batch_normalization(x, batch_mean, batch_variance, beta, gamma, epsilon)


x = tf.placeholder(dtype, [None, 4])
y = tf.placeholder(dtype, [None, 2])
first = dense(x, 3, "first")
second = dense(tf.tanh(batch_norm(first, "norm")), 2, "second")
loss = tf.reduce_mean(tf.square(second - y))
average = tf.train.ExponentialMovingAverage(0.9, tf.train.get_or_create_global_step())
fetches = {"loss": loss, "first": first, "second": second}
if training:
    step = tf.train.get_or_create_global_step()
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train = tf.train.AdamOptimizer(0.01).minimize(loss, global_step=step)
    with tf.control_dependencies([train]):
        train = average.apply(tf.trainable_variables())
saver = tf.train.Saver(average.variables_to_restore() if mode == "serve_averages" else None)

with tf.Session() as session:
    saver.restore(session, checkpoint)
    with np.load(given) as arrays:
        feeds = {x: arrays["x"], y: arrays["y"]}
    results = session.run(fetches, feeds)
    if training:
        session.run(train, feeds)
        results.update(session.run({variable.op.name: variable for variable in tf.global_variables()}))
    np.savez(out, **{name.replace("/", "|"): value for name, value in results.items()})
