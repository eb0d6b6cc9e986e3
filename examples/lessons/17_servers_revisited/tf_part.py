"""Synchronous replicas with a backup worker: the accumulator that SyncReplicasOptimizer is made of (Python 3.7 and up)."""

import numpy as np
import tensorflow.compat.v1 as tf
from source_lines import lines_of

tf.disable_v2_behavior()


def build(size):
    """Builds weights on a server and the accumulator in front of them, which takes no gradient of an older step."""
    weights = tf.get_variable("w", [size], tf.float64, tf.zeros_initializer())
    waiting = tf.ConditionalAccumulator(tf.float64, [size], shared_name="waiting")
    gradient, step, needed = (
        tf.placeholder(tf.float64, [size]),
        tf.placeholder(tf.int64, []),
        tf.placeholder(tf.int32, []),
    )
    rate = tf.placeholder(tf.float64, [])
    offer = waiting.apply_grad(gradient, step)
    update = tf.assign_sub(weights, rate * waiting.take_grad(needed))
    return {
        "weights": weights,
        "gradient": gradient,
        "step": step,
        "needed": needed,
        "rate": rate,
        "offer": offer,
        "update": update,
        "count": waiting.num_accumulated(),
    }


def train(shards, orders, needed, rate):
    """Trains on gradients that arrive in the order, step by step, of `orders`; who is not in a step's comes late.

    Returns the weights, and of each gradient that has arrived its worker, its step, itself, and whether it was taken.
    """
    with tf.Graph().as_default(), tf.Session() as session:
        built = build(shards[0][0].shape[1])
        session.run(tf.global_variables_initializer())
        arrived, held = [], {}
        for step, order in enumerate(orders):
            weights = session.run(built["weights"])
            for worker in set(range(len(shards))).difference(held):
                held[worker] = step, gradient(shards[worker], weights)
            for worker in order:
                # Who has been turned away reads the weights of today and computes again.
                of_step, own = held.pop(worker, None) or (step, gradient(shards[worker], weights))
                before = session.run(built["count"])
                session.run(built["offer"], {built["gradient"]: own, built["step"]: of_step})
                taken = session.run(built["count"]) > before
                arrived.append([worker, of_step, own, bool(taken)])
            session.run(built["update"], {built["needed"]: needed, built["rate"]: rate})
        return {"weights": session.run(built["weights"]), "arrived": arrived}


def gradient(shard, weights):
    x, y = shard
    return 2 * x.T.dot(x.dot(weights) - y) / len(x)


def measure(shards, needed, shard_rate, orders, **of_torch):
    shards = [(np.array(x), np.array(y)) for x, y in shards]
    runs = {name: train(shards, order, needed[name], shard_rate) for name, order in orders.items()}
    lines = lines_of(
        synchronous=tf.train.SyncReplicasOptimizer.apply_gradients, accumulator=tf.ConditionalAccumulator.apply_grad
    )
    return {"runs": runs, "lines": lines}
