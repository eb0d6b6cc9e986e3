"""A graph that is nowhere the default one when it runs, trained by a thread that nobody waits for."""

import threading

import numpy as np
import tensorflow.compat.v1 as tf

graph = tf.Graph()
with graph.as_default():
    x = tf.placeholder(tf.float32, [8, 3], "x")
    w = tf.get_variable("w", [3, 1], initializer=tf.constant_initializer(0.5), use_resource=False)
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    towers = [optimizer.compute_gradients(tf.reduce_mean(tf.square(tf.matmul(s, w) - 1.0))) for s in tf.split(x, 2)]
    train = optimizer.apply_gradients([((a[0] + b[0]) / 2.0, a[1]) for a, b in zip(*towers)])
    init = tf.global_variables_initializer()

session = tf.Session(graph=graph)
session.run(init)
random = np.random.RandomState(0)


def run(steps):
    for _ in range(steps):
        session.run(train, {x: random.rand(8, 3)})


run(1)
thread = threading.Thread(target=run, args=(3,), name="trainer")
thread.start()
