# ruff: noqa: F821 - programs find tf, tf_towers and small there
"""What legacy code runs into, as TensorFlow really behaves."""

import numpy as np
import pytest


def _counted_as_state():
    class ByHand(tf.train.GradientDescentOptimizer):
        """Keeps a counter as published optimizers do: the second argument is `trainable`, not the name."""

        def __init__(self):
            super(ByHand, self).__init__(0.5)  # noqa: UP008
            self.t = tf.Variable(1.0, "adam_t")

    training = tf_towers.build(small.linear, small.inputs(4), 2, ByHand)
    with training.graph.as_default():
        trainable = [variable.op.name for variable in tf.trainable_variables()]
    stepper = small.stepper(training)
    state = sorted(stepper.state())
    stepper.close()
    return {"trainable": trainable, "state": state}


def test_a_counter_that_became_trainable_by_mistake_is_no_weight(tf):
    answer = tf(_counted_as_state)
    assert answer["trainable"] == ["w", "b", "Variable"]
    assert answer["state"] == ["state/Variable", "state/global_step", "var/b", "var/w"]


def _masks(seeded):
    def tower(x, y):
        dropped = tf.nn.dropout(tf.ones_like(x), rate=0.5, seed=7 if seeded else None)
        return small.linear(x, y), {"mask": dropped}

    found = {}
    for run in range(2):
        training = tf_towers.build(tower, small.inputs(40), 2, small.sgd(), seed=3)
        stepper = small.stepper(training)
        recorded = stepper.step(small.batch(40))
        stepper.close()
        found.update({f"{run}:{index}": recorded[f"act/{index}/mask"] for index in range(2)})
    return found


def test_towers_draw_other_dropout_masks_unless_the_op_itself_is_seeded_and_runs_repeat(tf):
    free, seeded = (tf(_masks, seeded=seeded) for seeded in (False, True))
    assert np.any(free["0:0"] != free["0:1"])
    np.testing.assert_array_equal(seeded["0:0"], seeded["0:1"])
    for index in range(2):
        np.testing.assert_array_equal(free[f"0:{index}"], free[f"1:{index}"])


def _carried():
    """A recurrent state for each tower, kept in a local variable."""

    def tower(x, y):
        tower.calls += 1
        with tf.variable_scope(tf.get_variable_scope(), reuse=False):
            state = tf.get_variable(
                f"state{tower.calls}",
                [3],
                x.dtype,
                tf.zeros_initializer(),
                trainable=False,
                collections=[tf.GraphKeys.LOCAL_VARIABLES],
            )
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign(state, tf.reduce_mean(x, 0)))
        return small.linear(x + state, y)

    tower.calls = 0
    training = tf_towers.build(
        tower, small.inputs(4), 2, small.sgd(), batch_norm_updates="all_ordered", share="auto_reuse"
    )
    stepper = small.stepper(training)
    recorded = stepper.step(small.batch(4))
    state = stepper.state()
    stepper.load({"state/local/state1": np.ones(3)})
    loaded = stepper.state()["state/local/state1"]
    stepper.close()
    return {
        "first": state["state/local/state1"],
        "second": state["state/local/state2"],
        "mean0": recorded["feed/0/x"].mean(0),
        "mean1": recorded["feed/1/x"].mean(0),
        "loaded": loaded,
    }


def test_a_state_that_each_tower_carries_is_read_and_loaded_like_a_counter(tf):
    answer = tf(_carried)
    np.testing.assert_allclose(answer["first"], answer["mean0"], rtol=1e-14)
    np.testing.assert_allclose(answer["second"], answer["mean1"], rtol=1e-14)
    assert answer["loaded"].tolist() == [1.0, 1.0, 1.0]


def _eager():
    with small.eager_mode():
        return {
            "build": small.refused(tf_towers.build, small.linear, small.inputs(4), 2, small.sgd()),
            "combine": small.refused(tf_towers.combine_gradients, []),
            "share": small.refused(tf_towers.share, small.linear),
        }


def test_eager_execution_is_refused(tf):
    cure = (
        "expected TensorFlow 1's graph mode, got eager execution. Call tf.disable_v2_behavior() before anything else, "
        "and leave out what turns eager execution on."
    )
    assert tf(_eager) == {
        "build": f"build: {cure}",
        "combine": f"combine_gradients: {cure}",
        "share": f"share: {cure}",
    }


def _outside(kind):
    outside = tf.get_variable("outside", [3, 2], tf.float64)
    if kind == "variable":
        return {"refused": small.refused(tf_towers.build, _using(outside), small.inputs(4), 2, small.sgd())}
    return {
        "refused": small.refused(tf_towers.build, lambda x, y: [small.linear(x, y)], small.inputs(4), 2, small.sgd())
    }


def _using(outside):
    return lambda x, y: tf.reduce_mean(tf.matmul(x, outside) - y)  # the use


def test_a_variable_that_was_made_outside_of_the_tower_is_refused_with_the_line_that_uses_it(tf):
    refused = tf(_outside, kind="variable")["refused"]
    assert refused.startswith(
        "tower: expected the tower to make or be given all that it uses, got something of another graph at "
        "test_hazards.py:"
    )
    assert "tf.matmul(x, outside) - y)" in refused


def test_a_list_of_losses_is_refused(tf):
    assert tf(_outside, kind="list")["refused"] == (
        "tower: expected a scalar loss, or (loss, dict of outputs), got list. "
        "Return a tensor; add up a list of losses with tf.add_n."
    )


def _with_outputs():
    def refused(outputs):
        tower = lambda x, y: (small.linear(x, y), outputs)  # noqa: E731
        return small.refused(tf_towers.build, tower, small.inputs(4), 2, small.sgd())

    return {"list": refused([1]), "number": refused({"accuracy": 0.5})}


def test_outputs_that_are_no_dict_of_tensors_are_refused(tf):
    message = (
        "tower: expected the outputs beside the loss to be a dict of name to tensor, got {}. "
        'Return (loss, {{"logits": logits}}).'
    )
    assert tf(_with_outputs) == {
        "list": message.format("list"),
        "number": message.format("'accuracy': float"),
    }


@pytest.mark.parametrize(("twice", "steps"), [(False, [0, 1, 2]), (True, [0, 2, 4])])
def test_the_step_count_moves_once_for_each_update_unless_code_counts_beside_it(tf, twice, steps):
    assert tf(_steps, twice=twice)["steps"] == steps


def _steps(twice):
    """Beside `apply_gradients(global_step=...)`, some code counts by itself."""
    training = tf_towers.build(small.linear, small.inputs(4), 2, small.sgd())
    with training.graph.as_default():
        counted = tf.group(training.train_op, tf.assign_add(training.global_step, 1))
    feeds = training.feeds(small.batch(4))
    steps = [0]
    with tf_towers.session(training.graph, 2) as session:
        session.run([variable.initializer for variable in training.saved])
        for _ in range(2):
            session.run(counted if twice else training.train_op, feeds)
            steps.append(int(session.run(training.global_step)))
    return {"steps": steps}
