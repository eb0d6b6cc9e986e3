"""Restarts with more than two ranks: the same bits where the sum is ordered, one step's rounding where it is DDP's own."""

import random

import pytest
import torch
from killing import KILLS, MAX_RESTARTS, interrupted
from trainer import OPTIONS, SCRIPT, STEPS, final, finish, result, same_bits, start

THREE = [*OPTIONS, "--batch-size", 12]
ONE_STEP = 2.0**-20  # of the largest weight of a tensor: gradients that another order of the sum rounds otherwise


@pytest.fixture
def trained(torch_python):
    """Trains on three ranks in forks; returns the folder that the training leaves."""

    def train(folder, *options, steps=STEPS):
        [_] = finish(
            start([torch_python, SCRIPT, "--gpus", 3, "--out", "out", "--steps", steps, *THREE, *options], folder)
        )
        return folder / "out"

    return train


@pytest.mark.slow
def test_killed_ranks_of_three_leave_no_trace_where_the_sum_is_ordered(trained, torch_python, tmp_path):
    (tmp_path / "ordered").mkdir()
    ordered = trained(tmp_path / "ordered", "--reduction", "ordered")
    out = interrupted(torch_python, random.Random(0), tmp_path, 3, [*THREE, "--reduction", "ordered"])
    found = result(out)
    assert KILLS <= found["restarts"] <= MAX_RESTARTS
    assert found["updates"] == STEPS
    one, other = final(out), final(ordered)
    assert same_bits(one["parts"], other["parts"])
    assert same_bits(one["random"], other["random"])


def apart(one, other):
    """Returns the largest difference of two trainings' weights, over the largest weight of the tensor."""
    pairs = [(one["parts"]["model"][name], value) for name, value in other["parts"]["model"].items()]
    floats = [(a.double(), b.double()) for a, b in pairs if torch.is_floating_point(a)]
    return max(float((a - b).abs().max() / b.abs().max()) for a, b in floats)


@pytest.mark.slow
@pytest.mark.parametrize("reduction", ["mean", "ordered"])
def test_the_first_step_after_a_start_differs_by_its_rounding_at_most(trained, tmp_path, reduction):
    for name in ("whole", "parts"):
        (tmp_path / name).mkdir()
    whole = final(trained(tmp_path / "whole", "--reduction", reduction, steps=11))
    trained(tmp_path / "parts", "--reduction", reduction, steps=10)
    out = trained(tmp_path / "parts", "--reduction", reduction, steps=11)
    assert result(out)["begun_at"] == 10
    assert apart(final(out), whole) <= (0.0 if reduction == "ordered" else ONE_STEP)


def test_the_measure_of_rounding_can_fail():
    weights = {"parts": {"model": {"w": torch.ones(3), "n": torch.tensor(3)}}}
    moved = {"parts": {"model": {"w": torch.tensor([1.0, 1.0 + 2.0**-19, 1.0]), "n": torch.tensor(3)}}}
    assert apart(weights, weights) == 0.0
    assert apart(moved, weights) > ONE_STEP
