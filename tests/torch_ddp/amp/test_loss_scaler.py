import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torch_ddp.amp.errors import AmpError
from torch_ddp.amp.loss_scaler import LossScaler

from .scaler_model import Seen, scales

RANDOM_STEPS = 100_000


def _run(scaler, overflows):
    for overflow in overflows:
        skipped = scaler.update(bool(overflow))
        yield Seen(scaler.loss_scale, scaler.unskipped, skipped)


@pytest.mark.covering(1)
@pytest.mark.parametrize("minimum", [None, 0, 2.0**12, 1.0])
@pytest.mark.parametrize("rate", [0.0, 1e-4, 5e-4, 2e-3, 0.5])
def test_a_hundred_thousand_random_steps_agree_with_an_independent_model(rate, minimum):
    overflows = np.random.default_rng(7).random(RANDOM_STEPS) < rate
    if rate == 0.5:
        overflows = overflows[:1000]  # beyond, the scale is 0.0 for good
    assert list(_run(LossScaler(minimum=minimum), overflows)) == list(scales(overflows, minimum))


@settings(deadline=None, max_examples=50)
@given(
    runs=st.lists(st.tuples(st.integers(0, 4100), st.integers(1, 30)), max_size=8),
    minimum=st.sampled_from([None, 1.0, 256.0, 2.0**16]),
    maximum=st.sampled_from([2.0**16, 2.0**17, 2.0**24, 2.0**30]),
)
def test_runs_of_any_length_agree_with_an_independent_model(runs, minimum, maximum):
    overflows = [flag for clean, dirty in runs for flag in [False] * clean + [True] * dirty]
    scaler = LossScaler(minimum=minimum, maximum=maximum)
    assert list(_run(scaler, overflows)) == list(scales(overflows, minimum, maximum))


def _grad_scaler_run(overflows):
    scaler = torch.amp.GradScaler("cpu")
    weight = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scaler.scale(torch.zeros(1))
    for overflow in overflows:
        weight.grad = torch.full((1,), float("inf") if overflow else 0.0)
        scaler.unscale_(optimizer)
        before = scaler.get_scale()
        scaler.update()
        state = scaler.state_dict()
        yield Seen(state["scale"], state["_growth_tracker"], state["scale"] < before)


def test_it_agrees_with_grad_scaler_below_the_cap():
    overflows = np.random.default_rng(3).random(30_000) < 3e-4
    ours = list(_run(LossScaler(), overflows))
    assert max(seen.scale for seen in ours) < 2.0**24
    assert len({seen.scale for seen in ours}) > 3
    assert ours == list(_grad_scaler_run(overflows))


def test_grad_scaler_has_no_cap_and_no_floor():
    grad_scaler = list(_grad_scaler_run([False] * 2000 * 10))
    ours = list(_run(LossScaler(), [False] * 2000 * 10))
    assert (ours[-1].scale, grad_scaler[-1].scale) == (2.0**24, 2.0**26)
    assert ours[: 2000 * 8] == grad_scaler[: 2000 * 8]
    assert list(_run(LossScaler(minimum=2.0**10), [True] * 20))[-1].scale == 2.0**10
    assert list(_grad_scaler_run([True] * 20))[-1].scale == 2.0**-4


def test_a_static_scale_never_moves_never_skips_and_counts_on():
    scaler = LossScaler(128.0)
    assert not any(scaler.update(overflow) for overflow in [False, True] * 2000)
    assert (scaler.loss_scale, scaler.unskipped) == (128.0, 4000)


def test_a_cap_below_the_initial_scale_lowers_it():
    assert LossScaler(maximum=1024.0).loss_scale == 1024.0


def test_without_a_cap_the_scale_grows_on():
    scaler = LossScaler(maximum=None)
    list(_run(scaler, [False] * 2000 * 10))
    assert scaler.loss_scale == 2.0**26


def test_a_floor_above_the_cap_is_refused():
    with pytest.raises(AmpError, match=r"expected min_loss_scale <= max_loss_scale, got 8.0 and 4.0. Exchange them."):
        LossScaler(minimum=8.0, maximum=4.0)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan")])
def test_a_static_scale_must_be_above_zero(scale):
    with pytest.raises(AmpError, match=r"expected a loss scale above 0, got .*\. Pass 'dynamic' or 1\.0\."):
        LossScaler(scale)
