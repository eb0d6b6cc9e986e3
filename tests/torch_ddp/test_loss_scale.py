"""The loss scale of a rank; tests/tf_towers/test_loss_scale.py asks the same of the towers, in the same numbers."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from torch_ddp import Rank, Stepper, Update, like_tf, process_group
from torch_ddp.step.update import LossScale

DYNAMIC = {"initial": 8.0, "growth_interval": 2}


def squared_error(model, x, y):
    return ((model(x) - y) ** 2).mean()


def trained(rank, loss_scale, batches, accumulate=None):
    """`batches`: one letter a step, "g" for good and "b" for one whose gradients overflow."""
    torch.manual_seed(0)
    model = nn.Linear(3, 2).double()
    optimizer = like_tf.Adam(model.parameters(), lr=0.1)
    table = {"loss_scale": loss_scale, "ema": {"decay": 0.5}, "accumulate": accumulate}
    stepper = Stepper(model, squared_error, optimizer, rank, update=Update(model, optimizer, table))
    states, steps = [stepper.state()], []
    for step, kind in enumerate(batches):
        random = np.random.RandomState(step)
        batch = {"x": random.randn(4, 3), "y": random.randn(4, 2)}
        if kind == "b":
            batch["x"] = np.full([4, 3], 1e200)
        steps.append(stepper.step(batch))
        states.append(stepper.state())
    return states, steps


@pytest.fixture
def alone(tmp_path):
    with process_group(Rank(0, 0, 1), "gloo", (tmp_path / "meeting").as_uri()) as rank:
        yield rank


def test_a_step_that_overflows_leaves_weights_slots_and_counters_and_halves_the_scale(alone):
    states, steps = trained(alone, DYNAMIC, "gbg")
    assert [bool(step["state/skipped"]) for step in steps] == [False, True, False]
    assert [float(state["state/loss_scale"]) for state in states] == [8.0, 8.0, 4.0, 4.0]
    assert [int(state["state/global_step"]) for state in states] == [0, 1, 1, 2]
    kept = [name for name in states[1] if name.startswith(("var/", "slot/", "state/beta"))]
    assert len(kept) == 8
    for name in kept:
        np.testing.assert_array_equal(states[2][name], states[1][name], err_msg=name)
        assert np.any(states[3][name] != states[1][name]), name


def test_averages_move_in_a_step_that_is_skipped(alone):
    (_, before, after), _ = trained(alone, DYNAMIC, "gb")
    np.testing.assert_allclose(after["ema/weight"], (before["ema/weight"] + before["var/weight"]) / 2, rtol=1e-14)
    assert np.abs(after["ema/weight"] - before["ema/weight"]).max() > 1e-3


def test_the_scale_doubles_after_so_many_good_steps_in_a_row(alone):
    states, _ = trained(alone, DYNAMIC, "gggbggg")
    assert [float(state["state/loss_scale"]) for state in states] == [8, 8, 16, 16, 8, 8, 16, 16]
    assert [int(state["state/good_steps"]) for state in states] == [0, 1, 0, 1, 0, 1, 0, 1]


@pytest.mark.parametrize("loss_scale", [128.0, {"initial": 128.0}])
@pytest.mark.parametrize("accumulate", [None, {"steps": 2}])
def test_a_power_of_two_changes_neither_gradients_nor_weights(alone, loss_scale, accumulate):
    plain, plain_steps = trained(alone, None, "gg", accumulate)
    scaled, scaled_steps = trained(alone, loss_scale, "gg", accumulate)
    for one, other in zip(plain + plain_steps, scaled + scaled_steps, strict=True):
        for name, value in one.items():
            np.testing.assert_array_equal(other[name], value, err_msg=name)
    assert any(name.startswith("state/skipped") for name in scaled_steps[0]) == isinstance(loss_scale, dict)


def test_a_loaded_scale_goes_on_from_there():
    one, other = LossScale(DYNAMIC), LossScale(DYNAMIC)
    one.move(True)
    one.move(False)
    one.move(True)
    other.load(one.state())
    assert other.state() == one.state() == {"loss_scale": np.float32(4), "good_steps": 1}
    one.move(True)
    other.move(True)
    assert other.value == one.value == 8.0
    constant = LossScale(3.7)
    constant.load(one.state())
    constant.move(False)
    assert (constant.value, constant.state()) == (3.7, {})


@given(st.lists(st.booleans(), max_size=60), st.integers(1, 5))
def test_the_scale_is_what_its_history_says(history, interval):
    scale = LossScale({"initial": 2.0**20, "growth_interval": interval})
    expected, run = 20, 0
    for finite in history:
        scale.move(finite)
        run = run + 1 if finite else 0
        expected += -1 if not finite else int(run > 0 and run % interval == 0)
        assert scale.value == 2.0**expected


def half_error(dtype):
    return lambda model, x, y: ((model(x) - y) ** 2).mean().to(dtype)


@pytest.mark.parametrize(
    ("dtype", "wide"),
    [
        (torch.float16, np.float32),
        (torch.bfloat16, np.float32),
        (torch.float32, np.float32),
        (torch.float64, np.float64),
    ],
)
def test_a_loss_in_half_precision_is_scaled_in_float32_and_no_other_is_changed(alone, dtype, wide):
    torch.manual_seed(0)
    model = nn.Linear(3, 2).double()
    optimizer = like_tf.Adam(model.parameters(), lr=0.1)
    update = Update(model, optimizer, {"loss_scale": 2.0**10})
    step = Stepper(model, half_error(dtype), optimizer, alone, update=update).step(
        {"x": np.full([4, 3], 9.0), "y": np.full([4, 2], 200.0)}
    )
    # In float16 a loss of 4e4 times 2^10 would be infinite.
    assert step["loss/0"].dtype == wide and np.isfinite(step["loss/0"])
    assert np.isfinite(step["tower_grad/0/weight"]).all()


def test_a_gradient_in_half_precision_is_unscaled_in_float32(alone):
    dtype = torch.float16
    model = nn.Linear(1, 1, bias=False).to(dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    update = Update(model, optimizer, {"loss_scale": 3.0})
    x = 1.0 + torch.finfo(dtype).eps

    def loss(model, x):
        return model(x.to(dtype)).sum().float()

    step = Stepper(model, loss, optimizer, alone, update=update).step({"x": np.full([1, 1], x)})
    scaled = (torch.tensor(x, dtype=dtype) * 3).float().numpy()
    assert np.float32(torch.tensor(scaled / 3, dtype=dtype)) != scaled / 3, "no number of half precision"
    np.testing.assert_array_equal(step["tower_grad/0/weight"], np.full((1, 1), scaled / 3))
