import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torch_ddp import TorchDdpError, scaled_learning_rate, warm_up


def rates(steps: int, updates: int, learning_rate: float = 1.0, resume_at: int | None = None, **options) -> list[float]:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=learning_rate)
    schedule = warm_up(optimizer, steps, **options)
    found = []
    for update in range(updates):
        if update == resume_at:
            state = schedule.state_dict(), optimizer.state_dict()
            optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=learning_rate)
            schedule = warm_up(optimizer, steps, **options)
            schedule.load_state_dict(state[0])
            optimizer.load_state_dict(state[1])
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return found


def test_the_rate_grows_with_the_batch():
    assert scaled_learning_rate(0.1, 8192, 256) == pytest.approx(3.2, rel=1e-15)
    assert scaled_learning_rate(0.1, 64, 256) == 0.025


@pytest.mark.parametrize("sizes", [(0, 256), (256, 0), (-1, 1)])
def test_batch_sizes_of_nothing_are_refused(sizes):
    with pytest.raises(TorchDdpError) as error:
        scaled_learning_rate(0.1, *sizes)
    assert str(error.value) == (
        f"learning rate: expected positive batch sizes, got {sizes[0]} and {sizes[1]}. "
        "Count the examples of one update over all ranks."
    )


def test_the_rate_rises_linearly_and_stays():
    assert rates(4, 6) == [0.0, 0.25, 0.5, 0.75, 1.0, 1.0]
    assert rates(2, 4, start=0.5) == [0.5, 0.75, 1.0, 1.0]
    assert rates(0, 2) == [1.0, 1.0]


def test_what_follows_the_warm_up_is_asked_for_the_same_step():
    assert rates(2, 4, learning_rate=8.0, after=lambda step: 0.5**step) == [0.0, 4.0, 2.0, 1.0]


@given(steps=st.integers(0, 20), updates=st.integers(1, 25), data=st.data(), start=st.floats(0, 1))
def test_a_resumed_schedule_has_the_same_rates_to_the_bit(steps, updates, data, start):
    at = data.draw(st.integers(0, updates - 1))
    assert rates(steps, updates, 0.3, resume_at=at, start=start) == rates(steps, updates, 0.3, start=start)


@pytest.mark.parametrize(("steps", "start"), [(-1, 0.0), (2, 1.5), (2, -0.1)])
def test_a_warm_up_out_of_range_is_refused(steps, start):
    with pytest.raises(TorchDdpError) as error:
        rates(steps, 1, start=start)
    assert str(error.value) == (
        f"warm_up: expected at least 0 steps and a start from 0 to 1, got {steps} and {start}. Change them."
    )
