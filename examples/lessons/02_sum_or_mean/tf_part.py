"""The same batch over 1, 2, 4 and 8 towers, combined by mean and by sum (Python 3.7 and up)."""

import numpy as np
import tensorflow.compat.v1 as tf

import tf_towers

tf.disable_v2_behavior()


def train(batch, weights, towers, reduce, optimizer, steps):
    def tower(x, y):
        w = tf.get_variable("w", [len(weights)], x.dtype, tf.constant_initializer(weights))
        return tf.reduce_mean(tf.square(tf.tensordot(x, w, 1) - y))

    shapes = {"x": ("float64", [8, 3]), "y": ("float64", [8])}
    training = tf_towers.build(tower, inputs=shapes, towers=towers, optimizer=optimizer, reduce=reduce)
    stepper = tf_towers.Stepper(training, tf_towers.session(training.graph, towers))
    stepper.initialize()
    losses = []
    for _ in range(steps):
        recorded = stepper.step(batch)
        losses.append(np.mean([recorded["loss/%d" % index] for index in range(towers)]))
    return {"gradient": recorded["grad/w"], "losses": losses, "weights": stepper.state()["var/w"]}


def measure(x, y, weights, learning_rate, steps, counts):
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
    return {"gradients": gradients, "runs": runs, "pair": pair}
