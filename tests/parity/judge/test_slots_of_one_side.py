"""Slots that one side's optimizer keeps alone: what they do to the weights is judged, where they hold anything."""

import numpy as np
import pytest
from support.made_steps import trace

from parity.judge import Check, Join
from parity.judge.judge import NOT_IN_REFERENCE
from parity.judge.levels.function import Lockstep
from parity.judge.unmatched_slots import BEYOND, LACKING, slot_notes, slots_aside
from parity.mapping import Mapping, Pair, parse_transform
from parity.trace import parse_key

WEIGHT = np.ones(3)
KINDS = {"w": "weight", "layer.w": "weight"}


def aside(folder, slot, note, updates=("same", "same"), held=1.0, candidate_slots=("square_avg",), more=()):
    """Returns the checks of two steps after slots were set aside; before the second of them the slot is `held`."""
    pair = Pair("w", ("layer.w",), parse_transform("identity"), "", (3,))
    join = Join(Mapping([pair]), {}, candidate_slots)
    states = [{slot: 0 * WEIGHT}, {slot: held * WEIGHT}]
    runs = [trace(folder / name, each, KINDS, {}) for name, each in (("states", states), ("other", states[::-1]))]
    checks = [Check("init", 0, slot, "incomparable", note=note)]
    for step, verdict in enumerate(updates):
        checks.append(Check("lockstep", step, slot, "incomparable", note=note))
        checks.append(Check("lockstep", step, "var/w", verdict, 1.0, 1.0))
    return slots_aside([*checks, *more], join, Lockstep(runs[1], runs[1], runs[1], runs[1], runs[0]))


@pytest.mark.parametrize("updates", [("same", "same"), ("same", "different")])
@pytest.mark.parametrize(
    "slot, note, said",
    [
        ("slot/momentum/w", "the candidate has no such tensor", LACKING),
        ("slot/exp_avg/layer.w", NOT_IN_REFERENCE, BEYOND),
        ("section/head/slot/momentum/w", "the candidate has no such tensor", LACKING),
        ("section/head/slot/exp_avg/layer.w", NOT_IN_REFERENCE, BEYOND),
    ],
)
def test_what_a_slot_of_one_side_does_is_judged_by_the_updates(tmp_path, slot, note, said, updates):
    checks = aside(tmp_path, slot, note, updates)
    assert {check.verdict for check in checks if check.key == slot} == {"not_run"}
    assert [check.verdict for check in checks if check.key == "var/w"] == list(updates)
    assert slot_notes(checks) == [f"slot {parse_key(slot).slot}: {said}"]


def test_a_slot_that_held_nothing_in_any_step_is_not_told_by_updates(tmp_path):
    checks = aside(tmp_path, "slot/momentum/w", "the candidate has no such tensor", held=0.0)
    assert {check.verdict for check in checks if check.key.startswith("slot/")} == {"incomparable"}
    assert slot_notes(checks) == []


def test_a_slot_that_the_other_side_keeps_for_other_variables_stays_as_it_is(tmp_path):
    more = [Check("lockstep", 0, "slot/rms/w", "same")]
    checks = aside(tmp_path / "beyond", "slot/square_avg/layer.w", NOT_IN_REFERENCE, more=more)
    assert checks[0].verdict == "incomparable"
    checks = aside(tmp_path / "lacking", "slot/rms/w", "the candidate has no such tensor")
    assert checks[0].verdict == "incomparable"
