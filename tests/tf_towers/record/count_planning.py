"""Not a test: prints how many function calls it takes to plan a hand-written update of so many weights; TF 1 and 2."""

import cProfile
import json
import sys

import tensorflow.compat.v1 as tf

from tf_towers.graph.traversal import ancestors
from tf_towers.record.hooks import Calls
from tf_towers.record.manual_updates import update_by_hand

tf.disable_v2_behavior()


def calls_to_plan(count):
    calls = Calls()
    calls.install()
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [4, 3])
        weights = [tf.get_variable(f"w{number}", [3, 3]) for number in range(count)]
        grads = []
        for piece in tf.split(x, 2):
            for w in weights:
                piece = tf.tanh(tf.matmul(piece, w))
            grads.append(tf.gradients(tf.reduce_mean(piece), weights))
        grads, _ = tf.clip_by_global_norm([a + b for a, b in zip(*grads)], 1.0)  # noqa: B905 - Python 3.7 reads this too
        step = tf.Variable(1.0, trainable=False)
        updates = [step.assign_add(1.0)]
        for w, g in zip(weights, grads):  # noqa: B905
            mg, v = tf.Variable(tf.zeros([3, 3])), tf.Variable(tf.zeros([3, 3]), name=w.op.name + "_adam_v")
            v_t, mg_t = 0.9 * v + 0.1 * g, 0.99 * mg + 0.01 * tf.square(g)
            moved = 0.01 * v_t / (1.0 - tf.pow(0.9, step)) / tf.sqrt(mg_t / (1.0 - tf.pow(0.99, step)) + 1e-8)
            updates += [v.assign(v_t), mg.assign(mg_t), w.assign(w - moved)]
        ops = ancestors([tf.group(*updates)])
        watched = cProfile.Profile()
        watched.enable()
        found = update_by_hand(graph, ops, calls.gradients)
        watched.disable()
    calls.remove()
    slots = {slot: found.optimizer.get_slot(weights[1], slot).op.name for slot in found.optimizer.get_slot_names()}
    return {
        "pairs": len(found.pairs),
        "applied": [tensor.op.type for tensor, _ in found.pairs],
        "slots": slots,
        "calls": sum(each.callcount for each in watched.getstats()),
    }


if __name__ == "__main__":
    print("\n" + json.dumps([calls_to_plan(int(count)) for count in sys.argv[1:]]))
