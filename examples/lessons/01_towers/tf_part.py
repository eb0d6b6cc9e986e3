"""Towers by hand, as TensorFlow 1 code has them (Python 3.7 and up)."""

import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()


def tower(x, y, weights):
    w = tf.get_variable("w", [len(weights)], x.dtype, tf.constant_initializer(weights))
    return tf.reduce_mean(tf.square(tf.tensordot(x, w, 1) - y))


def build(x, y, weights, towers, optimizer):
    x_shards, y_shards = tf.split(x, towers), tf.split(y, towers)  # split
    losses, tower_gradients = [], []
    for index in range(towers):  # compute
        with tf.device("/cpu:%d" % index), tf.variable_scope("", reuse=index > 0):
            losses.append(tower(x_shards[index], y_shards[index], weights))
            tower_gradients.append(optimizer.compute_gradients(losses[index]))
    combined = []
    for pairs in zip(*tower_gradients):  # combine: all towers' gradients for one variable
        gradient = tf.reduce_mean(tf.stack([gradient for gradient, _ in pairs]), axis=0)
        combined.append((gradient, pairs[0][1]))
    step = tf.train.get_or_create_global_step()
    return losses, tower_gradients, combined, optimizer.apply_gradients(combined, step)  # apply, once


def measure(x, y, weights, towers, learning_rate):
    with tf.Graph().as_default():
        optimizer = tf.train.GradientDescentOptimizer(learning_rate)
        inputs = tf.constant(x, tf.float64), tf.constant(y, tf.float64)
        losses, tower_gradients, combined, update = build(inputs[0], inputs[1], weights, towers, optimizer)
        config = tf.ConfigProto(device_count={"CPU": towers}, allow_soft_placement=True)
        with tf.Session(config=config) as session:
            session.run(tf.global_variables_initializer())
            parts = session.run([losses, [pairs[0][0] for pairs in tower_gradients], combined[0][0]])
            session.run(update)
            variables = tf.trainable_variables()
            after, updates = session.run([variables[0], tf.train.get_global_step()])
    return {
        "losses": parts[0],
        "tower_gradients": parts[1],
        "combined": parts[2],
        "after": after,
        "updates": updates,
        "variables": [variable.op.name for variable in variables],
    }
