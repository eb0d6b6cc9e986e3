"""What hypotheses ask for again and again is read and computed once, as far as there is room to keep it."""

import numpy as np
import pytest
from support.made_steps import trace

from parity.diagnose import Evidence
from parity.diagnose import evidence as of_evidence
from parity.diagnose.evidence import once_of_a_step
from parity.judge import Join
from parity.mapping import Mapping, Pair, parse_transform

WEIGHTS = {"a": np.arange(4.0), "b": np.ones(3)}


@pytest.fixture
def evidence(tmp_path):
    steps = [{f"var/{name}": value + step for name, value in WEIGHTS.items()} for step in (0, 1)]
    sides = [trace(tmp_path / side, steps, dict.fromkeys(WEIGHTS, "weight"), {}) for side in ("one", "other", "states")]
    for name, value in WEIGHTS.items():
        sides[0].variables[name]["shape"] = list(value.shape)
    pairs = [Pair(name, (name,), parse_transform("identity"), "", value.shape) for name, value in WEIGHTS.items()]
    return Evidence(Join(Mapping(pairs), {}, []), *sides, 1)


def opened(evidence, monkeypatch):
    """Counts the steps of the reference that are opened."""
    steps, step = [], evidence.reference.step
    monkeypatch.setattr(evidence.reference, "step", lambda number: steps.append(number) or step(number))
    return steps


def test_the_pairs_of_a_step_are_read_once(evidence, monkeypatch):
    steps = opened(evidence, monkeypatch)
    first, again = ([(name, one, other) for name, one, other in evidence.pairs(1, "var")] for _ in range(2))
    assert [name for name, *_ in first] == ["a", "b"]
    np.testing.assert_array_equal(first[0][1], WEIGHTS["a"] + 1)
    assert all(one is two for one, two in zip(first[0][1:], again[0][1:], strict=True))
    assert steps == [1]
    assert next(iter(evidence.pairs(0, "var")))[1][0] == 0.0
    assert steps == [1, 0]


def test_of_variables_that_leave_no_room_nothing_is_kept(evidence, monkeypatch):
    evidence.reference.variables["a"]["shape"] = [2 * of_evidence.ROOM]
    steps = opened(evidence, monkeypatch)
    for _ in range(2):
        assert [name for name, *_ in evidence.pairs(1, "var")] == ["a", "b"]
    assert steps == [1, 1]


@pytest.mark.parametrize(("share", "made"), [(8, [0, 1, 2]), (2, [0, 1, 2, 0])])
def test_what_was_asked_for_longest_ago_makes_room(evidence, share, made):
    evidence.reference.variables["a"]["shape"] = [of_evidence.ROOM // share]
    evidence.reference.variables["b"]["shape"] = [0]
    steps = []
    twice = once_of_a_step(lambda _, step: steps.append(step) or 2 * step)
    assert [twice(evidence, step) for step in (0, 1, 1, 2, 0)] == [0, 2, 2, 4, 0]
    assert steps == made
