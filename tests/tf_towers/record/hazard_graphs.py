"""Builds small graphs with one thing wrong each, records two steps of each, prints the hazards as JSON; TF 1 and 2.

Run as a program, in the interpreter under test, with a folder for the traces and, where not all are wanted, names of graphs.
"""

import json
import sys

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.training.moving_averages import assign_moving_average

from tf_towers.record import Recorder

tf.disable_v2_behavior()
GRAPHS = {}
IN_RUNS_OF_THEIR_OWN = (
    "last_loss_in_a_run_of_its_own",
    "a_term_of_the_last_loss_only",
    "trained_again_beside_the_summary",
)
X = np.arange(8, dtype=np.float32).reshape(4, 2)


def graph(function):
    GRAPHS[function.__name__] = function
    return function


def weight(name, shape=(2, 1)):
    return tf.get_variable(name, shape, initializer=tf.constant_initializer(0.5))


def towers(loss, count=2, reduce="mean", change=lambda pairs: pairs, x=None, optimizer=None, scale=1.0):
    """Towers of ``loss(piece, tower)``; returns the train op and the losses."""
    x = tf.placeholder(tf.float32, [4, 2], "x") if x is None else x
    optimizer = optimizer or tf.train.GradientDescentOptimizer(0.1)
    losses, pairs = [], []
    for tower, piece in enumerate(tf.split(x, count)):
        with tf.name_scope(f"tower_{tower}"), tf.variable_scope("m", reuse=tf.AUTO_REUSE):
            losses.append(loss(piece, tower))
            pairs.append(change(optimizer.compute_gradients(losses[-1])))
    combined = []
    for each in zip(*pairs):  # noqa: B905 - Python 3.7 reads this too
        total = tf.add_n([g for g, _ in each])
        total = total * scale if scale != 1.0 else total
        combined.append((total / count if reduce == "mean" else total, each[0][1]))
    step = tf.train.get_or_create_global_step()
    return optimizer.apply_gradients(combined, step), losses


def by_example(piece):
    return tf.square(tf.matmul(piece, weight("w")) - 1.0)[:, 0]


def joined(costs_of, join):
    """One minimize over what `join` makes of the towers' losses by example, each computed on a GPU of its own."""
    x, costs = tf.placeholder(tf.float32, [4, 2], "x"), []
    for tower, piece in enumerate(tf.split(x, 2)):
        with tf.device(f"/gpu:{tower}"), tf.variable_scope("m", reuse=tf.AUTO_REUSE):
            costs.append(costs_of(piece))
    loss = join(costs)
    return tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_or_create_global_step())


@graph
def mean_of_losses_put_one_after_the_other():
    return joined(by_example, lambda costs: tf.reduce_mean(tf.concat(costs, 0)))


@graph
def sum_of_losses_put_one_after_the_other():
    return joined(by_example, lambda costs: tf.reduce_sum(tf.concat(costs, 0)))


@graph
def losses_masked_together():
    def join(costs):
        mask = tf.cast(tf.concat(costs, 0) > 0.1, tf.float32)
        return tf.reduce_sum(tf.concat(costs, 0) * mask) / tf.reduce_sum(mask)

    return joined(by_example, join)


@graph
def layers_on_devices_of_their_own():
    x = tf.placeholder(tf.float32, [4, 2], "x")
    with tf.device("/gpu:0"):
        hidden = tf.matmul(x, weight("first", (2, 3)))
    with tf.device("/gpu:1"):
        loss = tf.reduce_mean(tf.matmul(hidden, weight("second", (3, 1))))
    return tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_or_create_global_step())


@graph
def examples_dealt_out_in_turn():
    x = tf.placeholder(tf.float32, [4, 2], "x")
    shards = [tf.stack(tf.unstack(x, 4)[tower::2]) for tower in range(2)]
    return towers(lambda piece, tower: plain(shards[tower], tower), x=x)[0]


@graph
def cut_after_preprocessing():
    x = tf.placeholder(tf.float32, [None, 2], "x")
    pieces = tf.split((tf.cast(x, tf.float32) - 3.5) / 7.0, 2)
    return towers(lambda piece, tower: tf.reduce_mean(tf.matmul(pieces[tower], weight("w"))), x=x)[0]


@graph
def cut_after_normalising_rows():
    x = tf.placeholder(tf.float32, [None, 2], "x")
    pieces = tf.split(tf.nn.l2_normalize(x, 1), 2)
    return towers(lambda piece, tower: tf.reduce_mean(tf.matmul(pieces[tower], weight("w"))), x=x)[0]


@graph
def cut_after_normalising_columns():
    x = tf.placeholder(tf.float32, [None, 2], "x")
    pieces = tf.split(tf.nn.l2_normalize(x, 0), 2)
    return towers(lambda piece, tower: tf.reduce_mean(tf.matmul(pieces[tower], weight("w"))), x=x)[0]


@graph
def cut_twice():
    x = tf.placeholder(tf.float32, [None, 2], "x")

    def loss(piece, tower):
        first, second = (x[2 * tower : 2 * tower + 2] for _ in range(2))
        return tf.reduce_mean(tf.matmul(first, weight("w")) + second)

    return towers(loss, x=x)[0]


@graph
def steps_counted_by_an_op_of_its_own():
    step = tf.train.get_or_create_global_step()
    optimizer, x = tf.train.GradientDescentOptimizer(0.1), tf.placeholder(tf.float32, [4, 2], "x")
    pairs = [optimizer.compute_gradients(plain(piece, tower)) for tower, piece in shared(x)]
    combined = [(tf.add_n([g for g, _ in each]) / 2.0, each[0][1]) for each in zip(*pairs)]  # noqa: B905 - Python 3.7
    return tf.group(optimizer.apply_gradients(combined), tf.assign_add(step, 1))


def shared(x):
    """Number and piece of two towers, each inside a scope that shares variables."""
    for tower, piece in enumerate(tf.split(x, 2)):
        with tf.name_scope(f"tower_{tower}"), tf.variable_scope("m", reuse=tf.AUTO_REUSE):
            yield tower, piece


def plain(piece, tower):
    return tf.reduce_mean(tf.matmul(piece, weight("w")))


@graph
def right():
    return towers(plain)[0]


@graph
def summed():
    return towers(plain, reduce="sum")[0]


@graph
def scaled_by_what_makes_no_mean():
    return towers(plain, reduce="sum", scale=0.25)[0]


@graph
def summed_after_dividing_the_losses():
    return towers(lambda piece, tower: plain(piece, tower) / 2.0, reduce="sum")[0]


@graph
def same_batch_for_all():
    x = tf.placeholder(tf.float32, [4, 2], "x")
    return towers(lambda piece, tower: tf.reduce_mean(tf.matmul(x, weight("w"))), x=x)[0]


@graph
def overlapping_slices():
    x = tf.placeholder(tf.float32, [4, 2], "x")
    return towers(lambda piece, tower: plain(x[tower : tower + 2], tower), x=x)[0]


@graph
def uneven_slices():
    x = tf.placeholder(tf.float32, [4, 2], "x")
    return towers(lambda piece, tower: plain(x[:1] if tower else x[1:], tower), x=x)[0]


@graph
def paired_by_position():
    def loss(piece, tower):
        a, b = weight("a"), weight("b")
        return tf.reduce_mean(tf.matmul(piece, a if tower else b))

    return towers(loss, change=lambda pairs: [pair for pair in pairs if pair[0] is not None])[0]


@graph
def gradient_in_one_tower_only():
    def zeros(pairs):
        return [(tf.zeros_like(v) if g is None else g, v) for g, v in pairs]

    def loss(piece, tower):
        a, b = weight("a"), weight("b")
        return tf.reduce_mean(tf.matmul(piece, a)) + (0.0 if tower else tf.reduce_mean(tf.matmul(piece, b)))

    return towers(loss, change=zeros)[0]


@graph
def loss_of_two_elements():
    return towers(lambda piece, tower: tf.reduce_mean(tf.matmul(piece, weight("w", (2, 2))), 0))[0]


@graph
def clipped_in_every_tower():
    return towers(plain, change=lambda pairs: [(tf.clip_by_norm(g, 0.1), v) for g, v in pairs])[0]


@graph
def clipped_by_norm_after_averaging():
    return clipped_after("mean")


@graph
def clipped_by_norm_after_summing():
    return clipped_after("sum")


def clipped_after(reduce):
    optimizer, x = tf.train.GradientDescentOptimizer(0.1), tf.placeholder(tf.float32, [4, 2], "x")
    pairs = [optimizer.compute_gradients(plain(piece, tower)) for tower, piece in shared(x)]
    total = [(tf.add_n([g for g, _ in each]), each[0][1]) for each in zip(*pairs)]  # noqa: B905 - Python 3.7
    joined = [(g / 2.0 if reduce == "mean" else g, v) for g, v in total]
    clipped = [(tf.clip_by_norm(g, 0.1), v) for g, v in joined]
    return optimizer.apply_gradients(clipped, tf.train.get_or_create_global_step())


def rows_clipped(joined):
    """Looks rows up in two towers, joins their gradients and clips them by their norm."""
    x, optimizer, found = tf.placeholder(tf.float32, [4, 2], "x"), tf.train.GradientDescentOptimizer(0.1), []
    for _, piece in shared(x):
        rows = tf.nn.embedding_lookup(weight("w", (3, 1)), tf.cast(piece[:, 0], tf.int32) % 3)
        found.append(optimizer.compute_gradients(tf.reduce_mean(rows * rows))[0])
    values, indices = (tf.concat([getattr(g, part) for g, _ in found], 0) for part in ("values", "indices"))
    gradient = joined(tf.IndexedSlices(values / 2.0, indices, tf.constant([3, 1])))
    (clipped,), _ = tf.clip_by_global_norm([gradient], 0.1)
    return optimizer.apply_gradients([(clipped, found[0][1])], tf.train.get_or_create_global_step())


@graph
def norm_of_rows_as_they_are():
    return rows_clipped(lambda slices: slices)


@graph
def norm_of_rows_added_up():
    return rows_clipped(tf.convert_to_tensor)


@graph
def decay_in_every_summed_tower():
    def loss(piece, tower):
        return plain(piece, tower) + 0.1 * tf.nn.l2_loss(weight("w"))

    return towers(loss, reduce="sum")[0]


@graph
def decay_in_the_first_tower_only():
    def loss(piece, tower):
        return plain(piece, tower) + (0.0 if tower else 0.1 * tf.nn.l2_loss(weight("w")))

    return towers(loss)[0]


@graph
def decay_in_a_third_of_three_losses():
    x, losses = tf.placeholder(tf.float32, [4, 2], "x"), []
    for tower in range(3):
        with tf.device(f"/gpu:{tower}"), tf.variable_scope("m", reuse=tf.AUTO_REUSE):
            total = plain(x[tower : tower + 1], tower) + 0.1 * tf.nn.l2_loss(weight("w"))
            losses.append(tf.identity(total, "total"))
    loss = tf.add_n(losses) * (1.0 / 3.0)
    return tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_or_create_global_step())


@graph
def regularisation_left_behind():
    def loss(piece, tower):
        w = tf.get_variable("w", [2, 1], regularizer=lambda w: 0.1 * tf.reduce_sum(w * w))
        return tf.reduce_mean(tf.matmul(piece, w))

    return towers(loss)[0]


@graph
def loss_read_beside_the_update():
    train, losses = towers(lambda piece, tower: plain(piece, tower) + tf.nn.l2_loss(weight("w")))
    return [train, *losses]


@graph
def last_loss_only():
    train, losses = towers(plain)
    return [train, losses[-1]]


@graph
def a_term_of_the_last_loss_only():
    terms = []

    def loss(piece, tower):
        terms.append(plain(piece, tower))
        return terms[-1] + 0.1 * tf.nn.l2_loss(weight("w"))

    train, _ = towers(loss)
    return train, terms[-1]


@graph
def step_assigned_without_a_collection():
    step = tf.get_variable(
        "global_step", [], tf.int32, tf.zeros_initializer(), trainable=False, collections=["variables"]
    )
    step.assign(1)
    optimizer, x = tf.train.GradientDescentOptimizer(0.1), tf.placeholder(tf.float32, [4, 2], "x")
    pairs = [optimizer.compute_gradients(plain(piece, tower)) for tower, piece in shared(x)]
    return optimizer.apply_gradients([(tf.add_n([g for g, _ in each]) / 2.0, each[0][1]) for each in zip(*pairs)])  # noqa: B905


@graph
def last_loss_in_a_run_of_its_own():
    train, losses = towers(plain)
    return train, losses[-1]


@graph
def slots_made_trainable():
    class ByHand(tf.train.Optimizer):
        def apply_gradients(self, grads_and_vars, global_step=None, name=None):
            ops = []
            for g, v in grads_and_vars:
                m = tf.Variable(tf.zeros(v.shape), name=v.op.name + "/ByHand_m")
                with tf.control_dependencies([m.assign(0.9 * m + g)]):
                    ops.append(v.assign_sub(0.1 * m))
            return tf.group(*ops, name=name)

    return towers(plain, optimizer=ByHand(False, "ByHand"))[0]


def adam_by_hand(clip, trainable=False):
    """Two towers whose averaged gradients update the weights by assignments, in no order with the step that is counted."""
    grads, x = [], tf.placeholder(tf.float32, [4, 2], "x")
    for _, piece in shared(x):
        loss = tf.reduce_mean(tf.matmul(piece, weight("w")) * weight("b", ()))
        weights = [each for each in tf.trainable_variables() if each.op.name in ("m/w", "m/b")]
        grads.append(tf.gradients(loss, weights, gate_gradients=True))
    joined = clip([(one + other) / 2.0 for one, other in zip(*grads)])  # noqa: B905 - Python 3.7 reads this too
    t = tf.Variable(1.0, trainable, name="adam_t")
    updates = [t.assign_add(1.0)]
    for w, g in zip(weights, joined):  # noqa: B905
        m, v = (tf.Variable(tf.zeros(w.shape), trainable=False) for _ in range(2))
        m_t, v_t = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
        moved = 0.01 * m_t / (1.0 - tf.pow(0.9, t)) / (tf.sqrt(v_t / (1.0 - tf.pow(0.99, t))) + 1e-8)
        updates += [m.assign(m_t), v.assign(v_t), w.assign(w - moved)]
    return tf.group(*updates)


@graph
def written_by_hand():
    return adam_by_hand(lambda grads: grads)


@graph
def written_by_hand_with_a_trainable_counter():
    return adam_by_hand(lambda grads: grads, "adam_t")  # meant as its name, taken for true


@graph
def written_by_hand_clipped_by_the_norm_of_all():
    return adam_by_hand(lambda grads: tf.clip_by_global_norm(grads, 0.5)[0])


@graph
def written_by_hand_clipped_by_a_norm_of_its_own():
    def clip(grads):
        norm = tf.sqrt(sum(tf.reduce_sum(g * g) for g in grads))
        return [g * tf.cond(norm > 0.5, lambda: 0.5 / norm, lambda: 1.0) for g in grads]

    return adam_by_hand(clip)


@graph
def written_by_hand_clipped_by_value_which_never_happens():
    return adam_by_hand(lambda grads: [tf.clip_by_value(g, -1e3, 1e3) for g in grads])


@graph
def statistics_of_both_towers_in_order():
    def loss(piece, tower):
        mean = tf.get_variable("mean", [2], trainable=False, initializer=tf.zeros_initializer())
        with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
            update = tf.assign_sub(mean, 0.1 * (mean - tf.reduce_mean(piece, 0)))
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, update)
        return plain(piece, tower)

    train, _ = towers(loss)
    return [train, *tf.get_collection(tf.GraphKeys.UPDATE_OPS)]


class WaitingForStatistics(tf.train.GradientDescentOptimizer):
    def apply_gradients(self, *args, **kwargs):
        with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
            return super().apply_gradients(*args, **kwargs)


@graph
def statistics_of_both_towers_before_the_update():
    def loss(piece, tower):
        mean = tf.get_variable("mean", [2], trainable=False, initializer=tf.zeros_initializer())
        # Their corrections race as well, and go into no weight: the update only waits for them.
        moved = assign_moving_average(mean, tf.reduce_mean(piece, 0), 0.9, zero_debias=True)
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, moved)
        return plain(piece, tower)

    return towers(loss, optimizer=WaitingForStatistics(0.1))[0]


@graph
def average_behind_the_update_and_a_loss_that_races():
    train, losses = towers(lambda piece, tower: plain(piece, tower) + tf.nn.l2_loss(weight("w")))
    with tf.control_dependencies([train, *losses]):
        return tf.train.ExponentialMovingAverage(0.9).apply(tf.trainable_variables())


@graph
def average_beside_the_update():
    train, _ = towers(plain)
    return [train, tf.train.ExponentialMovingAverage(0.9).apply(tf.trainable_variables())]


@graph
def average_behind_one_of_two_updates():
    train, _ = towers(plain)
    (w,) = tf.trainable_variables()
    with tf.control_dependencies([train]):
        average = tf.train.ExponentialMovingAverage(0.9).apply([w])
    return [average, w.assign(tf.minimum(w, 1e3))]


def statistics_of(wanted):
    updates = []

    def loss(piece, tower):
        mean = tf.get_variable("mean", [2], trainable=False, initializer=tf.zeros_initializer())
        batch = tf.reduce_mean(piece, 0)
        if tower == wanted:
            updates.append(tf.assign_sub(mean, 0.125 * (mean - batch)))
        return plain(piece - batch + tf.stop_gradient(batch), tower)

    train, _ = towers(loss)
    return [train, *updates]


@graph
def statistics_of_the_first_tower():
    return statistics_of(0)


@graph
def statistics_of_the_last_tower():
    return statistics_of(1)


@graph
def statistics_corrected_for_their_start():
    updates = []

    def loss(piece, tower):
        mean = tf.get_variable("mean", [2], trainable=False, initializer=tf.zeros_initializer())
        if not tower:
            updates.append(assign_moving_average(mean, tf.reduce_mean(piece, 0), 0.9, zero_debias=True))
        return plain(piece, tower)

    train, _ = towers(loss)
    return [train, *updates]


@graph
def statistics_of_both_towers_in_branches():
    def loss(piece, tower):
        mean = tf.get_variable("mean", [2], trainable=False, initializer=tf.zeros_initializer())
        training = tf.greater(tf.reduce_max(piece), -1.0)
        moved = tf.cond(
            training,
            lambda: tf.identity(tf.assign_sub(mean, 0.1 * (mean - tf.reduce_mean(piece, 0)))),
            lambda: tf.identity(mean),
        )
        with tf.control_dependencies([moved]):
            return plain(tf.identity(piece), tower)

    return towers(loss)[0]


@graph
def switched_by_what_is_fed():
    training = tf.placeholder_with_default(True, [], "training")

    def loss(piece, tower):
        one = plain(piece, tower)
        return tf.cond(training, lambda: one, lambda: 2.0 * one)

    return towers(loss)[0]


@graph
def statistics_never_updated():
    def loss(piece, tower):
        tf.get_variable("moving_mean", [2], trainable=False, initializer=tf.zeros_initializer())
        return plain(piece, tower)

    return towers(loss)[0]


@graph
def step_counted_twice():
    train, _ = towers(plain)
    with tf.control_dependencies([train]):
        return tf.assign_add(tf.train.get_global_step(), 1)


@graph
def trained_again_beside_the_summary():
    train, losses = towers(plain)
    return train, [train, *losses]


@graph
def weights_written_between_steps():
    return towers(plain)[0]


class GradientDescentOptimizer(tf.train.GradientDescentOptimizer):
    def _apply_dense(self, grad, var):
        return super()._apply_dense(grad * 1.02, var)


@graph
def gradient_scaled_inside_the_optimizer():
    return towers(plain, optimizer=GradientDescentOptimizer(0.1))[0]


def one_minimize(factor):
    x = tf.placeholder(tf.float32, [4, 2], "x")
    losses = []
    for tower, piece in enumerate(tf.split(x, 2)):
        with tf.device(f"/gpu:{tower}"), tf.variable_scope("m", reuse=tf.AUTO_REUSE):
            losses.append(plain(piece, tower))
    total = tf.add_n(losses) * factor if factor != 1 else tf.add_n(losses)
    return tf.train.AdamOptimizer(0.1).minimize(total, tf.train.get_or_create_global_step())


@graph
def one_minimize_over_the_mean():
    return one_minimize(0.5)


@graph
def one_minimize_over_the_sum():
    return one_minimize(1)


@graph
def one_minimize_over_a_quarter_of_the_sum():
    return one_minimize(0.25)


def record(name, out):
    """Records two steps; returns hazards, facts and the variables' trace names."""
    recorder = Recorder(out, None, 0, None, fail)
    recorder.install()
    with tf.Graph().as_default() as made:
        fetches = GRAPHS[name]()
        apart = fetches if name in IN_RUNS_OF_THEIR_OWN else ()
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for number in range(2):
                for fetched in apart or [fetches]:
                    session.run(fetched, {made.get_tensor_by_name("x:0"): X + number})
                if name == "weights_written_between_steps":
                    session.run(tf.trainable_variables()[0].initializer)
    recorder.finish(whole=True)
    return {hazard.name: hazard.evidence for hazard in recorder.hazards.values()}


def fail(error):
    raise error


if __name__ == "__main__":
    found = {name: record(name, f"{sys.argv[1]}/{name}") for name in sys.argv[2:] or GRAPHS}
    print("\n" + json.dumps(found))
