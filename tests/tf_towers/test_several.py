# ruff: noqa: F821 - programs find tf, tf_towers and small there
import numpy as np
import pytest


def _trained(own_loss, variables="cpu", loss_scale=None):
    def tower(x, y):
        loss = small.linear(x, y)
        b = [variable for variable in tf.global_variables() if variable.op.name.split("/")[-1] == "b"][-1]
        return loss, {"size": tf.reduce_sum(tf.square(b - 1.0))}

    part = tf_towers.Part(lambda: tf.train.AdamOptimizer(0.25), "b$", "size" if own_loss else None)
    first = lambda: tf.train.MomentumOptimizer(0.5, 0.9)  # noqa: E731
    training = tf_towers.build(
        tower, small.inputs(4), 2, first, variables=variables, optimizers={"bias": part}, loss_scale=loss_scale
    )
    stepper = small.stepper(training)
    before = stepper.state()
    recorded = stepper.step(small.batch(4))
    after = stepper.state()
    stepper.load(before)
    again = stepper.state()
    stepper.close()
    found = dict(recorded, names=sorted(before))
    found.update((f"before:{name}", value) for name, value in before.items())
    found.update((f"after:{name}", value) for name, value in after.items())
    found["loaded"] = all(np.array_equal(again[name], value) for name, value in before.items())
    return found


@pytest.mark.parametrize("variables", ["cpu", "replicated"])
def test_each_variable_is_moved_by_its_own_optimizer_in_one_step(tf, variables):
    answer = tf(_trained, own_loss=False, variables=variables)
    assert answer["names"] == [
        "section/bias/slot/m/b",
        "section/bias/slot/v/b",
        "section/bias/state/beta1_power",
        "section/bias/state/beta2_power",
        "slot/momentum/w",
        "state/global_step",
        "var/b",
        "var/w",
    ]
    assert answer["loaded"]
    np.testing.assert_allclose(answer["after:var/w"], answer["before:var/w"] - 0.5 * answer["grad/w"], rtol=1e-13)
    np.testing.assert_allclose(np.abs(answer["after:var/b"] - answer["before:var/b"]), 0.25, rtol=1e-4)
    assert int(answer["after:state/global_step"]) == 1
    assert float(answer["section/bias/state/learning_rate"]) == 0.25
    assert float(answer["state/learning_rate"]) == 0.5


@pytest.mark.parametrize("loss_scale", [None, {"initial": 8.0}])
def test_a_loss_of_its_own_is_what_its_variables_minimise_and_no_others(tf, loss_scale):
    common, own = (tf(_trained, own_loss=own, loss_scale=loss_scale) for own in (False, True))
    np.testing.assert_array_equal(own["grad/w"], common["grad/w"])
    np.testing.assert_allclose(own["grad/b"], 2 * (own["before:var/b"] - 1.0), rtol=1e-13)
    assert np.any(own["grad/b"] != common["grad/b"])


def _refused():
    def parts(**patterns):
        made = {name: tf_towers.Part(small.sgd(), only, None) for name, only in patterns.items()}
        return small.refused(tf_towers.build, small.linear, small.inputs(4), 2, small.sgd(), optimizers=made)

    return {"none": parts(one="x"), "both": parts(one="w", two="^w$"), "all": parts(one="w|b")}


def test_parts_that_do_not_fit_are_refused(tf):
    answer = tf(_refused)
    assert answer["none"] == (
        "optimizers: expected 'x' of 'one' to be found in a variable's name, got w, b. "
        "Write a regular expression that fits one of them."
    )
    assert answer["both"] == (
        "optimizers: expected one optimizer for 'w', got 'one' and 'two'. "
        "Write regular expressions that exclude each other."
    )
    assert answer["all"].startswith(
        "optimizers: expected variables that no part takes, for the first optimizer, got none."
    )
