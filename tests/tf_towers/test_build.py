# ruff: noqa: F821 - programs find tf, tf_towers and small there
import numpy as np
import pytest


def _step(towers, reduce):
    training = tf_towers.build(small.linear, small.inputs(12), towers, small.sgd(), reduce)
    stepper = small.stepper(training)
    recorded = stepper.step(small.batch(12))
    recorded.update(stepper.state())
    stepper.close()
    recorded["names"] = [variable.op.name for variable in training.saved]
    recorded["updates"] = [len(tower.updates) for tower in training.towers]
    return recorded


def _expected(towers, reduce):
    random = np.random.RandomState(0)
    x, y = random.randn(12, 3), random.randn(12, 2)
    error = x @ np.ones((3, 2)) - y
    scale = towers if reduce == "sum" else 1
    return scale * x.T @ error * 2 / error.size


@pytest.mark.parametrize("reduce", ["mean", "sum"])
@pytest.mark.parametrize("towers", [1, 2, 3, 4])
def test_towers_train_like_one_model_times_the_number_of_towers_where_they_sum(tf, towers, reduce):
    answer = tf(_step, towers=towers, reduce=reduce)
    np.testing.assert_allclose(answer["grad/w"], _expected(towers, reduce), rtol=1e-12)
    np.testing.assert_allclose(answer["var/w"], 1 - 0.5 * _expected(towers, reduce), rtol=1e-12)
    assert answer["names"] == ["global_step", "w", "b"]
    assert int(answer["state/global_step"]) == 1


def _statistics(policy, towers):
    def tower(x, y):
        tf_towers.batch_norm(tf.reshape(x, [-1, 1, 1, 3]), "norm", momentum=0.5)
        return small.linear(x, y)

    training = tf_towers.build(tower, small.inputs(12), towers, small.sgd(), batch_norm_updates=policy)
    stepper = small.stepper(training)
    stepper.step(small.batch(12))
    state = stepper.state()
    stepper.close()
    return {"mean": state["stat/norm/moving_mean"]}


@pytest.mark.parametrize(("policy", "order"), [("first", [0]), ("last", [2]), ("all_ordered", [0, 1, 2])])
def test_batch_norm_updates_run_for_the_towers_that_the_policy_names_in_their_order(tf, policy, order):
    moving = np.zeros(3)
    batch = np.random.RandomState(0).randn(12, 3)
    for tower in order:
        moving = moving - (moving - batch[4 * tower : 4 * tower + 4].mean(0)) * 0.5
    np.testing.assert_allclose(tf(_statistics, policy=policy, towers=3)["mean"], moving, rtol=1e-12)


def _refusals():
    def vector(x, y):
        return small.linear(x, y) + x[:, 0]

    def fresh(x, y):
        return small.linear(x, y) * tf.Variable(1.0, dtype=x.dtype)

    def none(x, y):
        return tf.reduce_mean(x)

    def build(tower, **keywords):
        return small.refused(tf_towers.build, tower, small.inputs(4), 2, small.sgd(), **keywords)

    return {
        "vector": build(vector),
        "fresh": build(fresh),
        "none": build(none),
        "updates": build(small.linear, batch_norm_updates="some"),
        "reduce": build(small.linear, reduce="median"),
    }


def test_wrong_use_is_refused_in_one_line(tf):
    answer = tf(_refusals)
    assert answer["vector"] == "tower: expected a scalar loss, got shape (2,). Reduce it, e.g. with tf.reduce_mean."
    assert answer["fresh"] == (
        "tower: expected tower 1 to share the variables of tower 0, got new ones: tower_1/Variable. "
        "Make variables with tf.get_variable, which obeys the shared scope."
    )
    assert answer["none"] == "tower: expected trainable variables, got none. Make them with tf.get_variable."
    assert answer["updates"].startswith("build: expected batch_norm_updates to be one of first, last, all_ordered")
    assert answer["updates"].endswith("got 'some'.")
    assert answer["reduce"] == (
        "build: expected reduce to be one of mean, sum, prescaled, mean_of_losses, examples, got 'median'."
    )
