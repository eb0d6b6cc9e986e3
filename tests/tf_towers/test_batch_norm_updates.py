# ruff: noqa: F821 - programs find tf, tf_towers and small there
import itertools

import numpy as np
import pytest

DECAY = 0.5


def _normalised(layer, resource):
    def tower(x, y):
        tf.get_variable_scope().set_use_resource(resource)
        images = tf.reshape(x, [-1, 1, 1, 3])
        if layer == "ours":
            tf_towers.batch_norm(images, "norm", momentum=0.5)
        else:
            # What tf.layers and slim put into the collection.
            mean = tf.get_variable("norm/moving_mean", [3], x.dtype, tf.zeros_initializer(), trainable=False)
            moved = small.moving_averages().assign_moving_average(
                mean, tf.reduce_mean(images, [0, 1, 2]), 0.5, zero_debias=False
            )
            tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, moved)
        return small.linear(x, y)

    return tower


def _statistics(policy, towers, resource=False, layer="ours", variables="cpu", update_ops="before"):
    training = tf_towers.build(
        _normalised(layer, resource),
        small.inputs(4 * towers),
        towers,
        small.sgd(),
        variables=variables,
        batch_norm_updates=policy,
        update_ops=update_ops,
    )
    stepper = small.stepper(training)
    recorded = stepper.step(small.batch(4 * towers))
    mean = stepper.state()["stat/norm/moving_mean"]
    stepper.close()
    found = {f"batch{index}": recorded[f"feed/{index}/x"].mean(0) for index in range(towers)}
    return dict(found, mean=mean, racing=tf_towers.facts(training, "float64", 1)["racing_statistics"])


def _moved(answer, order):
    mean = np.zeros(3)
    for tower in order:
        mean = mean - (mean - answer[f"batch{tower}"]) * DECAY
    return mean


@pytest.mark.covering(2)
@pytest.mark.parametrize("layer", ["ours", "tf.layers"])
@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("variables", ["cpu", "first_gpu", "balanced"])
@pytest.mark.parametrize(("policy", "order"), [("first", [0]), ("last", [2]), ("all_ordered", [0, 1, 2])])
def test_updates_run_for_the_towers_that_the_policy_names_in_their_order(tf, policy, order, variables, resource, layer):
    answer = tf(_statistics, policy=policy, towers=3, resource=resource, layer=layer, variables=variables)
    np.testing.assert_allclose(answer["mean"], _moved(answer, order), rtol=1e-12)
    assert answer["racing"] == []


@pytest.mark.parametrize("layer", ["ours", "tf.layers"])
@pytest.mark.parametrize("resource", [False, True])
def test_unordered_updates_race_which_is_told_and_end_in_one_of_the_possible_orders(tf, resource, layer):
    answer = tf(_statistics, policy="unordered", towers=2, resource=resource, layer=layer)
    names = ["norm/moving_mean", "norm/moving_variance"] if layer == "ours" else ["norm/moving_mean"]
    assert answer["racing"] == names
    orders = [_moved(answer, order) for order in itertools.permutations(range(2))]
    # Both read before either wrote: each moves it from where it was.
    orders.append(_moved(answer, [0]) + _moved(answer, [1]))
    assert any(np.allclose(answer["mean"], order, rtol=1e-12) for order in orders)


def test_copies_of_the_statistics_do_not_race(tf):
    assert tf(_statistics, policy="unordered", towers=2, variables="replicated")["racing"] == []


@pytest.mark.parametrize("policy", ["first", "all_ordered"])
def test_updates_grouped_with_the_weights_update_move_the_statistics_as_well(tf, policy):
    before, grouped = (tf(_statistics, policy=policy, towers=2, update_ops=one) for one in ("before", "grouped"))
    np.testing.assert_array_equal(before["mean"], grouped["mean"])


def _parts(order):
    """Two groups that write the same variable, with and without an order."""
    v = tf.get_variable("v", [2], use_resource=order == "resource")
    w = tf.get_variable("w", [2])
    first = tf.group(tf.assign_add(v, tf.ones([2])), tf.assign(w, tf.ones([2])))
    with tf.control_dependencies([first] if order == "ordered" else []):
        second = tf.group(tf.assign_sub(v, tf.ones([2])))
    return {"racing": tf_towers.racing_updates([first, second])}


def test_a_race_is_two_writers_of_one_variable_without_an_order(tf):
    assert tf(_parts, order="ordered") == {"racing": []}
    assert tf(_parts, order="none") == {"racing": ["v"]}
    assert tf(_parts, order="resource") == {"racing": ["v"]}


def _in_place():
    """A layer that updates in place, with no collection: every tower moves the statistics, whatever the policy."""

    def tower(x, y):
        mean = tf.get_variable("mean", [3], x.dtype, tf.zeros_initializer(), trainable=False)
        with tf.control_dependencies([tf.assign_sub(mean, (mean - tf.reduce_mean(x, 0)) * 0.5)]):
            x = tf.identity(x)
        return small.linear(x, y)

    training = tf_towers.build(tower, small.inputs(8), 2, small.sgd(), batch_norm_updates="first")
    stepper = small.stepper(training)
    recorded = stepper.step(small.batch(8))
    mean = stepper.state()["stat/mean"]
    stepper.close()
    return {"mean": mean, "batch0": recorded["feed/0/x"].mean(0), "batch1": recorded["feed/1/x"].mean(0)}


def test_updates_in_place_escape_every_policy(tf):
    answer = tf(_in_place)
    assert np.abs(answer["mean"] - _moved(answer, [0])).max() > 1e-3


def _reads(resource):
    """What a tower's update waits for before it reads the statistics that it moves."""
    training = tf_towers.build(
        _normalised("ours", resource), small.inputs(8), 2, small.sgd(), batch_norm_updates="all_ordered"
    )
    first, second = ([getattr(one, "op", one) for one in tower.updates] for tower in training.towers)
    found = []
    for update in second:
        read = update.inputs[1].op.inputs[0].op.inputs[0].op  # the change is (read - batch) * decay
        if read.inputs[0].op.type == "ReadVariableOp":
            read = read.inputs[0].op
        found.append([read.type, sorted(one.name for one in read.control_inputs if one in first)])
    return {"reads": found, "first": sorted(one.name for one in first)}


@pytest.mark.parametrize("resource", [False, True])
def test_a_tower_reads_the_statistics_after_the_tower_before_it_has_moved_them(tf, resource):
    """On a device of its own an older read would be a copy of what was there before."""
    answer = tf(_reads, resource=resource)
    assert len(answer["reads"]) == 2
    for kind, waited in answer["reads"]:
        assert kind in ("Identity", "ReadVariableOp")
        assert waited == answer["first"]
