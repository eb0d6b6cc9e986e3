# ruff: noqa: F821 - programs find tf, tf_towers and small there
import numpy as np
import pytest

from parity.trace import EXECUTION_RANK, parse_key


def _tower(x, y):
    loss = small.linear(x, y)
    hidden = tf_towers.batch_norm(tf.reshape(x, [-1, 1, 1, 3]), "norm")
    return loss + tf.reduce_sum(tf.square(hidden)), {"hidden": hidden, "largest": tf.reduce_max(x)}


def _a_step(towers, optimizer, start=None):
    training = tf_towers.build(_tower, small.inputs(4), towers, lambda: tf_towers.make_optimizer(optimizer), "mean")
    stepper = small.stepper(training)
    if start:
        stepper.load({name: np.asarray(value) for name, value in start.items()})
    before = stepper.state()
    recorded = stepper.step(small.batch(4))
    after, counters = stepper.state(), stepper.counters()
    stepper.close()
    assert counters == {name: value for name, value in after.items() if name.startswith("state/")} != {}
    found = {"before": sorted(before), "recorded": list(recorded)}
    for prefix, values in (("before:", before), ("step:", recorded), ("after:", after)):
        found.update({prefix + name: np.asarray(value) for name, value in values.items()})
    return found


ADAM = {"name": "adam", "learning_rate": 0.01}
VARIABLES = ["b", "norm/beta", "norm/gamma", "w"]
STATISTICS = ["norm/moving_mean", "norm/moving_variance"]


def test_the_state_names_every_variable_once(tf):
    answer = tf(_a_step, towers=2, optimizer=ADAM)
    assert answer["before"] == sorted(
        [f"var/{name}" for name in VARIABLES]
        + [f"stat/{name}" for name in STATISTICS]
        + [f"slot/{slot}/{name}" for slot in "mv" for name in VARIABLES]
        + ["state/beta1_power", "state/beta2_power", "state/global_step"]
    )


@pytest.mark.parametrize("towers", [1, 2])
def test_a_step_gives_these_quantities_of_every_tower(tf, towers):
    answer = tf(_a_step, towers=towers, optimizer=ADAM)
    expected = {f"grad/{name}" for name in VARIABLES} | {"state/learning_rate", "metric/largest"}
    for tower in range(towers):
        expected |= {f"feed/{tower}/x", f"feed/{tower}/y", f"act/{tower}/hidden", f"loss/{tower}"}
        expected |= {f"tower_grad/{tower}/{name}" for name in VARIABLES}
    assert set(answer["recorded"]) == expected
    assert all(parse_key(name).quantity in EXECUTION_RANK for name in answer["recorded"])


def test_quantities_come_in_the_order_in_which_a_step_computes_them(tf):
    answer = tf(_a_step, towers=2, optimizer=ADAM)
    ranks = [EXECUTION_RANK[parse_key(name).quantity] for name in answer["recorded"]]
    assert ranks == sorted(ranks)
    assert {ranks[0], ranks[-1]} == {EXECUTION_RANK["state"], EXECUTION_RANK["metric"]}
    losses = [name for name in answer["recorded"] if name.startswith("loss")]
    assert losses == ["loss/0", "loss/1"]


def test_the_recorded_numbers_belong_to_one_another(tf):
    answer = tf(_a_step, towers=2, optimizer={"name": "sgd", "learning_rate": 0.5})
    for name in VARIABLES:
        mean = (answer[f"step:tower_grad/0/{name}"] + answer[f"step:tower_grad/1/{name}"]) / 2
        np.testing.assert_allclose(answer[f"step:grad/{name}"], mean, rtol=1e-14)
        moved = answer[f"before:var/{name}"] - 0.5 * answer[f"step:grad/{name}"]
        np.testing.assert_allclose(answer[f"after:var/{name}"], moved, rtol=1e-14)
    batch = np.concatenate([answer["step:feed/0/x"], answer["step:feed/1/x"]])
    assert answer["step:metric/largest"] == pytest.approx((batch[:2].max() + batch[2:].max()) / 2)
    assert (int(answer["before:state/global_step"]), int(answer["after:state/global_step"])) == (0, 1)


def test_the_first_tower_s_statistics_survive(tf):
    answer = tf(_a_step, towers=2, optimizer=ADAM)
    mean = answer["step:feed/0/x"].mean(0)
    np.testing.assert_allclose(answer["after:stat/norm/moving_mean"], mean * float(np.float32(1) - np.float32(0.99)))


def test_a_loaded_state_is_what_the_step_starts_from(tf):
    start = {"var/b": [3.0, 4.0], "state/global_step": 41, "slot/m/b": [0.5, 0.5], "state/beta1_power": 0.5}
    answer = tf(_a_step, towers=1, optimizer=ADAM, start=start)
    for name, value in start.items():
        np.testing.assert_array_equal(answer["before:" + name], value)
    assert int(answer["after:state/global_step"]) == 42
    assert answer["after:state/beta1_power"] == pytest.approx(0.45)


def _refused_loads():
    training = tf_towers.build(small.linear, small.inputs(2), 1, small.sgd())
    stepper = small.stepper(training)
    unknown = small.refused(stepper.load, {"var/c": np.zeros(2)})
    shape = small.refused(stepper.load, {"var/b": np.zeros(3)})
    stepper.close()
    return {"unknown": unknown, "shape": shape}


def test_a_state_that_does_not_fit_is_refused(tf):
    assert tf(_refused_loads) == {
        "unknown": "load: expected var/c to be a variable of this graph, got an array of shape (2,).",
        "shape": "load: expected var/b to be shape (2,), got an array of shape (3,).",
    }
