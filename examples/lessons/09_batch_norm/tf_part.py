"""Batch norm in towers: each with its own statistics, and all with those of the whole batch (Python 3.7 and up)."""

import numpy as np
import tensorflow.compat.v1 as tf

import tf_towers

tf.disable_v2_behavior()


def layer(x, weights):
    w = tf.get_variable("w", [len(weights)], x.dtype, tf.constant_initializer(weights))
    return tf.reshape(tf.tensordot(x, w, 1), [-1, 1, 1, 1])


def loss(normal, y):
    return tf.reduce_mean(tf.square(tf.tanh(normal[:, 0, 0, 0]) - y))


def per_tower(x, y, weights, count, momentum, epsilon, updates):
    def tower(x, y):
        return loss(tf_towers.batch_norm(layer(x, weights), "norm", momentum, epsilon), y)

    training = tf_towers.build(
        tower,
        inputs={"x": ("float64", list(x.shape)), "y": ("float64", list(y.shape))},
        towers=count,
        optimizer=lambda: tf.train.GradientDescentOptimizer(0.125),
        batch_norm_updates=updates,
    )
    stepper = tf_towers.Stepper(training, tf_towers.session(training.graph, count))
    stepper.initialize()
    gradient = stepper.step({"x": x, "y": y})["grad/w"]
    state = stepper.state()
    stepper.close()
    mean, variance = [state["stat/norm/" + name][0] for name in ("moving_mean", "moving_variance")]
    return {"gradient": gradient, "mean": mean, "variance": variance}


def synchronised(x, y, weights, count, momentum, epsilon):
    """The towers go through each layer side by side, so that one layer may look at all of them."""
    with tf.Graph().as_default() as graph:
        layers = []
        for index, piece in enumerate(tf.split(tf.constant(x), count)):
            with tf.variable_scope("", reuse=index > 0):
                layers.append(layer(piece, weights))
        normal = tf_towers.batch_norm_over_towers(layers, "norm", momentum, epsilon)
        losses = [loss(tower, piece) for tower, piece in zip(normal, tf.split(tf.constant(y), count))]
        w = tf.trainable_variables()[0]
        gradient = tf.gradients(tf.add_n(losses) / count, w)[0]
        moving = [v for v in tf.global_variables() if "moving" in v.name]
        with tf_towers.session(graph, count) as session:
            session.run(tf.global_variables_initializer())
            found = session.run([gradient, tf.get_collection(tf.GraphKeys.UPDATE_OPS)])[0]
            statistics = dict(zip([v.op.name for v in moving], session.run(moving)))
    return {
        "gradient": found,
        "mean": statistics["norm/moving_mean"][0],
        "variance": statistics["norm/moving_variance"][0],
    }


def measure(x, y, weights, count, momentum, epsilon):
    given = np.array(x), np.array(y), weights, count, momentum, epsilon
    answer = {updates: per_tower(*given, updates=updates) for updates in ("first", "last", "all_ordered")}
    return dict(answer, synchronised=synchronised(*given))
