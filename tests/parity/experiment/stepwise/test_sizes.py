"""What runs take on disk, as it is predicted from the number of weights."""

import argparse

import pytest

from parity.cli.output import byte_count
from parity.experiment.stepwise.sizes import Budget, BudgetError, Sizes, all_runs, fit, step_by_step

# Two towers, Adam: a weight, two slots; and in a step three gradients.
ADAM = Sizes(weights=1000, state=3000, step=6000)
PLAIN = Sizes(
    weights=1000, state=1000, step=4000
)  # gradient descent, of which the free runs are no larger than what is left


def test_all_runs_are_those_that_the_benchmark_has_measured():
    assert all_runs(ADAM, 3, float32=True) / 3000 == 912
    # Without level 2 there are no draws: 16 runs of 3 steps and a start, in float32.
    assert all_runs(ADAM, 3, float32=False) / 3000 == 912 - 16 * 4 * (3 * 6 + 3) / 3


def test_step_by_step_takes_less_than_60_bytes_a_weight_and_step():
    assert step_by_step(ADAM, 3, keep=False) / 3000 == pytest.approx(58.7, abs=0.1)
    assert step_by_step(ADAM, 3, keep=True) / 3000 < 60
    assert step_by_step(ADAM, 30, keep=True) / 30000 < 40


@pytest.mark.parametrize(("text", "count"), [("2GB", 2 * 10**9), ("500MB", 5 * 10**8), ("1e9", 10**9), ("1.5k", 1500)])
def test_bytes_are_written_with_a_unit(text, count):
    assert byte_count(text) == count


@pytest.mark.parametrize("text", ["", "GB", "0", "-1GB", "1.2.3GB", "2 apples"])
def test_anything_else_is_no_number_of_bytes(text):
    with pytest.raises(argparse.ArgumentTypeError, match="expected bytes such as 2GB"):
        byte_count(text)


def test_what_does_not_fit_is_left_out_traces_first_then_steps():
    most = step_by_step(ADAM, 30, keep=True)
    assert fit(ADAM, 30, True, Budget(most, strict=True)) == (30, True, "")
    assert fit(ADAM, 30, True, Budget(1)) == (30, True, "")  # by default steps are never left out
    found = fit(PLAIN, 30, True, Budget(step_by_step(PLAIN, 30, keep=False), strict=True))
    assert (found.steps, found.keep) == (30, False) and "was not left" in found.note
    found = fit(ADAM, 30, False, Budget(step_by_step(ADAM, 10, keep=False), strict=True))
    assert (found.steps, found.keep) == (10, False) and found.note.startswith("10 of 30 steps were run, for it would")
    with pytest.raises(BudgetError, match=r"expected at least 0\.000172 GB for a step of 1,000 weights"):
        fit(ADAM, 30, False, Budget(1000, strict=True))
