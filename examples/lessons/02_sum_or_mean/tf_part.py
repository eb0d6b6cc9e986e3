"""The same batch over 1, 2, 4 and 8 towers, combined by mean and by sum, clipped before and after (Python 3.7 and up)."""

import numpy as np
import tensorflow.compat.v1 as tf

import tf_towers

tf.disable_v2_behavior()


def train(batch, weights, towers, reduce, optimizer, steps, **options):
    def tower(x, y):
        w = tf.get_variable("w", [len(weights)], x.dtype, tf.constant_initializer(weights))
        return tf.reduce_mean(tf.square(tf.tensordot(x, w, 1) - y))

    shapes = {"x": ("float64", [8, 3]), "y": ("float64", [8])}
    training = tf_towers.build(tower, inputs=shapes, towers=towers, optimizer=optimizer, reduce=reduce, **options)
    stepper = tf_towers.Stepper(training, tf_towers.session(training.graph, towers))
    stepper.initialize()
    losses = []
    for _ in range(steps):
        recorded = stepper.step(batch)
        losses.append(np.mean([recorded["loss/%d" % index] for index in range(towers)]))
    return {"gradient": recorded["grad/w"], "losses": losses, "weights": stepper.state()["var/w"]}


def clipped(batch, weights, towers, limit, at):
    """Returns the gradient that is applied: a step of rate 1 moves the weights by it."""
    clip = {"by": "global_norm", "limit": limit, "at": at}
    after = train(batch, weights, towers, "mean", lambda: tf.train.GradientDescentOptimizer(1.0), 1, clip=clip)
    return np.array(weights) - after["weights"]


def measure(x, y, weights, learning_rate, steps, counts, limit):
    batch = {"x": np.array(x), "y": np.array(y)}

    def run(towers, reduce, rate, steps, make=tf.train.GradientDescentOptimizer):
        return train(batch, weights, towers, reduce, lambda: make(rate), steps)

    gradients = {
        reduce: {count: run(count, reduce, learning_rate, 1)["gradient"] for count in counts}
        for reduce in ("mean", "sum")
    }
    runs = {
        "mean": run(4, "mean", learning_rate, steps),
        "sum": run(4, "sum", learning_rate, steps),
        "sum, rate over 4": run(4, "sum", learning_rate / 4, steps),
    }
    for reduce in ("mean", "sum"):
        adam = run(4, reduce, 0.01, 1, tf.train.AdamOptimizer)
        runs["adam " + reduce] = dict(adam, step=adam["weights"] - np.array(weights))
    pair = {reduce: run(2, reduce, learning_rate / 2, 3)["weights"] for reduce in ("mean", "sum")}
    clips = {at: clipped(batch, weights, 4, limit, at) for at in ("tower", "combined")}
    return {"gradients": gradients, "runs": runs, "pair": pair, "clipped": clips}
