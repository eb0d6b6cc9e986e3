# ruff: noqa: F821 - programs find tf, tf_towers and small there
import numpy as np
import pytest

DYNAMIC = {"initial": 8.0, "growth_interval": 2}


def _trained(loss_scale, batches, resource=False, variables="cpu", start=None):
    """`batches`: one letter a step, "g" for good and "b" for one whose gradients overflow."""

    def tower(x, y):
        tf.get_variable_scope().set_use_resource(resource)
        return small.linear(x, y)

    training = tf_towers.build(
        tower,
        small.inputs(4),
        2,
        lambda: tf.train.AdamOptimizer(0.1),
        variables=variables,
        loss_scale=loss_scale,
        ema={"decay": 0.5},
    )
    stepper = small.stepper(training)
    if start is not None:
        stepper.load({"state/loss_scale": np.asarray(start)})
    found = {}
    for step, kind in enumerate(batches):
        found.update({f"{step}:{name}": value for name, value in stepper.state().items()})
        batch = small.batch(4, step)
        if kind == "b":
            batch["x"] = np.full([4, 3], 1e200)
        found.update({f"{step}:{name}": value for name, value in stepper.step(batch).items()})
    found.update({f"{len(batches)}:{name}": value for name, value in stepper.state().items()})
    stepper.close()
    return {name: np.asarray(value) for name, value in found.items()}


def _of(answer, step, quantities):
    prefix = f"{step}:"
    found = {name[len(prefix) :]: value for name, value in answer.items() if name.startswith(prefix)}
    return {name: value for name, value in found.items() if name.startswith(quantities)}


@pytest.mark.parametrize("loss_scale", [128.0, {"initial": 128.0}])
def test_a_power_of_two_changes_neither_gradients_nor_weights(tf, loss_scale):
    plain = tf(_trained, loss_scale=None, batches="gg")
    scaled = tf(_trained, loss_scale=loss_scale, batches="gg")
    for name, value in plain.items():
        np.testing.assert_array_equal(scaled[name], value, err_msg=name)


def test_a_static_scale_of_another_size_is_taken_out_of_every_gradient(tf):
    plain, scaled = (tf(_trained, loss_scale=scale, batches="g") for scale in (None, 3.0))
    for name in _of(plain, 0, ("tower_grad", "grad", "loss")):
        np.testing.assert_allclose(scaled[f"0:{name}"], plain[f"0:{name}"], rtol=1e-14)


@pytest.mark.parametrize("variables", ["cpu", "replicated"])
@pytest.mark.parametrize("resource", [False, True])
def test_a_step_that_overflows_leaves_weights_slots_and_counters_and_halves_the_scale(tf, resource, variables):
    answer = tf(_trained, loss_scale=DYNAMIC, batches="gbg", resource=resource, variables=variables)
    assert [bool(answer[f"{step}:state/skipped"]) for step in range(3)] == [False, True, False]
    assert [float(answer[f"{step}:state/loss_scale"]) for step in range(4)] == [8.0, 8.0, 4.0, 4.0]
    assert [int(answer[f"{step}:state/global_step"]) for step in range(4)] == [0, 1, 1, 2]
    before, after = (_of(answer, step, ("var", "slot", "state/beta")) for step in (1, 2))
    assert len(before) == 8
    for name, value in before.items():
        np.testing.assert_array_equal(after[name], value, err_msg=name)
        assert np.any(answer[f"3:{name}"] != value)


def test_averages_move_in_a_step_that_is_skipped(tf):
    answer = tf(_trained, loss_scale=DYNAMIC, batches="gb")
    np.testing.assert_allclose(answer["2:ema/w"], (answer["1:ema/w"] + answer["1:var/w"]) / 2, rtol=1e-14)
    assert np.abs(answer["2:ema/w"] - answer["1:ema/w"]).max() > 1e-3


def test_the_scale_doubles_after_so_many_good_steps_in_a_row(tf):
    answer = tf(_trained, loss_scale=DYNAMIC, batches="gggbggg")
    assert [float(answer[f"{step}:state/loss_scale"]) for step in range(8)] == [8, 8, 16, 16, 8, 8, 16, 16]
    assert [int(answer[f"{step}:state/good_steps"]) for step in range(8)] == [0, 1, 0, 1, 0, 1, 0, 1]


def test_a_scale_can_be_loaded(tf):
    answer = tf(_trained, loss_scale=DYNAMIC, batches="b", start=np.array(64, np.float32))
    assert [float(answer[f"{step}:state/loss_scale"]) for step in range(2)] == [64.0, 32.0]


def test_the_learning_rate_is_recorded_where_a_step_can_be_skipped(tf):
    answer = tf(_trained, loss_scale=DYNAMIC, batches="gb")
    assert [float(answer[f"{step}:state/learning_rate"]) for step in range(2)] == [np.float32(0.1)] * 2
