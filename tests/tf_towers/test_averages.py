# ruff: noqa: F821 - programs find tf, tf_towers and small there
import numpy as np
import pytest


def _averaged(ema, steps, resource=False, variables="cpu", start=None):
    def tower(x, y):
        tf.get_variable_scope().set_use_resource(resource)
        return small.linear(x, y)

    training = tf_towers.build(tower, small.inputs(4), 2, small.sgd(), variables=variables, ema=ema)
    stepper = small.stepper(training)
    if start is not None:
        stepper.load({"ema/b": start})
    states = [stepper.state()]
    for seed in range(steps):
        stepper.step(small.batch(4, seed))
        states.append(stepper.state())
    stepper.close()
    names = sorted(states[0])
    return dict({f"{step}:{name}": state[name] for step, state in enumerate(states) for name in names}, names=names)


@pytest.mark.covering(2)
@pytest.mark.parametrize("variables", ["cpu", "balanced", "replicated"])
@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("num_updates", [False, True])
def test_averages_move_after_the_update_towards_the_new_weights(tf, num_updates, resource, variables):
    ema = {"decay": 0.9, "num_updates": num_updates}
    answer = tf(_averaged, ema=ema, steps=3, resource=resource, variables=variables)
    assert answer["names"] == ["ema/b", "ema/w", "state/global_step", "var/b", "var/w"]
    for name in "wb":
        average = answer[f"0:var/{name}"]
        np.testing.assert_array_equal(answer[f"0:ema/{name}"], average)
        for step in range(1, 4):
            grown = np.float32(1 + step) / np.float32(10 + step)
            decay = min(np.float32(0.9), grown) if num_updates else 0.9
            keep = float(np.float32(1) - np.float32(decay))
            average = average - (average - answer[f"{step}:var/{name}"]) * keep
            np.testing.assert_allclose(answer[f"{step}:ema/{name}"], average, rtol=1e-13)


def test_averages_beside_the_update_take_the_old_weights_or_the_new_ones(tf):
    ordered, beside = (tf(_averaged, ema={"decay": 0.5, "order": order}, steps=1) for order in ("after", "unordered"))
    new = ordered["1:ema/w"]
    old = ordered["0:var/w"]
    assert np.abs(new - old).max() > 1e-3
    either = np.isclose(beside["1:ema/w"], new, rtol=1e-12) | np.isclose(beside["1:ema/w"], old, rtol=1e-12)
    assert either.all()


def test_an_average_can_be_loaded(tf):
    answer = tf(_averaged, ema={"decay": 0.5}, steps=1, start=np.array([8.0, 4.0]))
    np.testing.assert_array_equal(answer["0:ema/b"], [8.0, 4.0])
    np.testing.assert_allclose(answer["1:ema/b"], ([8.0, 4.0] + answer["1:var/b"]) / 2, rtol=1e-13)
