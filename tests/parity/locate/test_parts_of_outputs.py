"""What one side makes at once and the other part by part, as unrolled steps, is the same where every part is there."""

import numpy as np
import pytest

from parity.locate.matching import MOST_MADE_ALONE, Pass, _Output, reach
from parity.trace import ForwardOp

RANDOM = np.random.default_rng(4)
WHOLE = RANDOM.normal(size=(4, 6, 5))  # (batch, steps, features)
STEPS = [WHOLE[:, step] for step in range(6)]


def passed(*values):
    ops = [ForwardOp(f"op{number}", "op", [], ["w"], list(value.shape), {}) for number, value in enumerate(values)]
    return Pass(ops, list(values).__getitem__)


def reached(one, other):
    found = reach(passed(*one), passed(*other))
    return found.reference, found.candidate


@pytest.mark.parametrize(
    ("whole", "parts"),
    [
        (WHOLE, STEPS),
        (WHOLE.transpose(1, 0, 2), STEPS[::-1]),
        (WHOLE.reshape(24, 5), [step.T for step in STEPS]),  # batch and steps as one axis, a step every sixth of it
        (WHOLE.transpose(1, 0, 2).reshape(24, 5), STEPS),  # and in blocks
        (WHOLE, [WHOLE[:2], WHOLE[2:]]),
        (np.concatenate([WHOLE, 2 * WHOLE], -1), [WHOLE, 2 * WHOLE]),
        (WHOLE, [WHOLE[:1], WHOLE[1:]]),  # examples, and three wrong ones of each
        (WHOLE, [WHOLE[1:], WHOLE[:1]]),
        (WHOLE.reshape(24, 5), [WHOLE[:1].transpose(1, 0, 2), WHOLE[1:]]),
    ],
)
def test_a_whole_is_reached_by_its_parts_and_they_by_it(whole, parts):
    count = len(parts)
    of_parts, of_whole = reached(parts, [whole])
    assert of_parts == dict.fromkeys(range(count), 0) and of_whole.keys() == {0}
    of_whole, of_parts = reached([whole], parts)
    assert of_parts == dict.fromkeys(range(count), 0) and of_whole.keys() == {0}


@pytest.mark.parametrize(
    "parts",
    [
        STEPS[:5],  # one is missing
        [*STEPS[:5], STEPS[5] + 1e-6],
        [RANDOM.permuted(WHOLE.reshape(-1)).reshape(6, 4, 5)[step] for step in range(6)],
        [WHOLE[:3]],  # no divisor
        [WHOLE[:1], WHOLE[1:] + 1e-6],
        [WHOLE.reshape(-1)[:7], WHOLE.reshape(-1)[7:]],  # no whole rows
        [WHOLE[:, 0], WHOLE[:, 0] * 2],
    ],
)
def test_where_a_part_is_missing_nothing_is_reached(parts):
    assert reached(parts, [WHOLE]) == ({}, {}) and reached([WHOLE], parts) == ({}, {})


def test_what_is_broadcast_is_no_part():
    row = WHOLE[0, :3]
    assert reached([row], [np.broadcast_to(row, (3, *row.shape)).copy()]) == ({}, {})
    twice = np.stack([row, row, row + 1])
    assert reached([row, row.copy(), row + 1], [twice])[1].keys() == {0}, "of two that are the same each is one"


def test_of_too_many_parts_none_is_looked_for():
    long = RANDOM.normal(size=(MOST_MADE_ALONE + 1, 2))
    assert reached([long], [*long]) == ({}, {})
    assert reached([long[1:]], [*long[1:]])[0].keys() == {0}


def test_an_output_that_is_there_whole_is_taken_for_no_part_of_another():
    of_one, of_other = reached([WHOLE, *STEPS], [WHOLE, *STEPS])
    assert of_one == of_other == {number: number for number in range(7)}


@pytest.mark.parametrize("turned", [lambda x: x, lambda x: np.moveaxis(x, -1, 1), lambda x: np.moveaxis(x, 1, -1)])
def test_outputs_in_the_order_of_either_framework_are_the_same_without_being_sorted(monkeypatch, turned):
    image = RANDOM.normal(size=(2, 5, 7, 3))
    one, other = _Output(0, image), _Output(1, turned(image).copy())
    assert one.holds(other, 1e-12) and "values" not in vars(one)
    off = turned(image).copy()
    off.flat[-1] += 1e-9
    assert not one.holds(_Output(1, off), 1e-12)
    assert one.holds(_Output(1, image.transpose(2, 0, 3, 1)), 1e-12) and "values" in vars(one)
