"""Times building and running towers through `tf_towers` beside a tower loop written by hand, on the same net.

Launch: ``python benchmarks/towers.py [--pairs 15]`` (any TensorFlow: 1.15 or 2.x). Eight towers of a net of 200 variables.
Prints medians of interleaved pairs with their 95% intervals. Promised, of what the hand-written loop takes: building at most
1.2 times, a step at most 1.03 times, a step that records everything at most 2 times.
"""

import argparse
import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow.compat.v1 as tf
from pairs import in_turn, ratio

import tf_towers

TOWERS, LAYERS, WIDTH, BATCH = 8, 100, 32, 256
BATCHES = {"x": np.ones((BATCH, WIDTH), "float32")}


def tower(x):
    """A net of 100 dense layers: 200 variables."""
    for layer in range(LAYERS):
        with tf.variable_scope(f"layer{layer}"):
            kernel = tf.get_variable("kernel", [WIDTH, WIDTH], x.dtype, tf.glorot_uniform_initializer(dtype=x.dtype))
            bias = tf.get_variable("bias", [WIDTH], x.dtype, tf.zeros_initializer())
            x = tf.tanh(tf.matmul(x, kernel) + bias)
    return tf.reduce_mean(tf.square(x))


def average_gradients(tower_grads):
    """Averages as the CIFAR-10 tutorial does: stack the towers' gradients, take the mean over them."""
    average = []
    for pairs in zip(*tower_grads):  # noqa: B905, Python 3.7
        stacked = tf.concat([tf.expand_dims(gradient, 0) for gradient, _ in pairs], axis=0)
        average.append((tf.reduce_mean(stacked, 0), pairs[0][1]))
    return average


def by_hand():
    """Builds the loop that tutorials show; returns what a step needs."""
    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [BATCH, WIDTH])
        optimizer, gradients = tf.train.MomentumOptimizer(0.1, 0.9), []
        devices = tf_towers.tower_devices(TOWERS)
        for index, piece in enumerate(tf.split(x, TOWERS)):
            placed = tf.device(tf_towers.place_variables("/cpu:0", devices[index]))
            with placed, tf.name_scope(f"tower_{index}"), tf.variable_scope("", reuse=index > 0):
                gradients.append(optimizer.compute_gradients(tower(piece)))
        with tf.device("/cpu:0"):
            train_op = optimizer.apply_gradients(average_gradients(gradients))
        session = tf_towers.session(graph, TOWERS)
        session.run(tf.global_variables_initializer())
    return session, train_op, x


def by_package():
    """Builds the same through `tf_towers.build`."""
    inputs = {"x": ("float32", [BATCH, WIDTH])}
    training = tf_towers.build(tower, inputs, TOWERS, lambda: tf.train.MomentumOptimizer(0.1, 0.9))
    session = tf_towers.session(training.graph, TOWERS)
    stepper = tf_towers.Stepper(training, session)
    stepper.initialize()
    return training, session, stepper


def main():
    """Measures and prints; returns 0 when the promises hold."""
    tf.disable_v2_behavior()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=15)
    pairs = parser.parse_args().pairs
    begin = time.time()
    building = ratio(*in_turn(lambda: by_package()[1].close(), lambda: by_hand()[0].close(), max(3, pairs // 5), 1))
    print(f"building 8 towers of 200 variables  {building}, promised 1.2  ({time.time() - begin:.0f} s)")
    hand, train_op, x = by_hand()
    training, session, stepper = by_package()
    feeds = training.feeds(BATCHES)
    plain = ratio(
        *in_turn(lambda: session.run(training.train_op, feeds), lambda: hand.run(train_op, {x: BATCHES["x"]}), pairs)
    )
    print(f"a step, nothing recorded            {plain}, promised 1.03")
    recording = ratio(*in_turn(lambda: stepper.step(BATCHES), lambda: hand.run(train_op, {x: BATCHES["x"]}), pairs))
    print(f"a step, everything recorded         {recording}, promised 2")
    return 0 if building.median <= 1.2 and plain.median <= 1.03 and recording.median <= 2 else 1


if __name__ == "__main__":
    sys.exit(main())
