"""Two recorded traces against each other: what is judged, what is named as not judged, and where causes are looked for."""

import numpy as np
import pytest

from parity.experiment import compare
from parity.experiment.compare import compare_joined
from parity.mapping import Mapping, parse_transform
from parity.mapping.trace_map import Join
from parity.mapping.variable_map import Pair
from parity.trace import Trace, TraceWriter

START = np.array([1.0, 2.0], np.float32)
JOIN = Join(Mapping([Pair("w", ("w",), parse_transform("identity"), "", (2,))]), {}, [])


def trace(folder, steps, start=START, **facts):
    """Leaves a trace whose steps have a loss of so much, and weights that do not move."""
    writer = TraceWriter(folder, {"package": folder.name}, facts)
    writer.init({"var/w": start})
    for number, loss in steps.items():
        writer.step(number, {"loss/0": np.array(loss, np.float32), "var/w": start, "state/lr": np.array(0.5)})
    writer.close()
    return Trace(folder)


@pytest.fixture
def located(monkeypatch):
    """The first differences whose layers were asked for."""
    asked = []
    monkeypatch.setattr(compare, "locate_first", lambda first, *more: asked.append(first.check.step))
    return asked


def compared(folder, one, other, facts=None, **more):
    sides = trace(folder / "one", one, **(facts or {})), trace(folder / "other", other, **more)
    return compare_joined(*sides, JOIN)


def test_the_precision_of_the_reference_names_the_level_and_what_was_judged_is_counted(tmp_path, located):
    told = []
    steps = {0: 1.0, 2: 3.0}
    sides = trace(tmp_path / "one", steps, precision="float64"), trace(tmp_path / "other", steps)
    found = compare_joined(*sides, JOIN, tick=lambda *progress: told.append(progress))
    levels = {name: level.verdict for name, level in found.levels.items()}
    assert levels == {"function": "same", "float32": "not_run", "trajectory": "not_run", "mixed": "not_run"}
    assert found.levels["function"].reason == "6 tensors of 2 steps" and not found.unjudged
    assert told == [("judge steps", 1, 2), ("judge steps", 2, 2)] and not located
    assert (found.reference["producer"]["package"], found.candidate["producer"]["package"]) == ("one", "other")
    plain = compared(tmp_path / "plain", steps, steps)
    assert plain.levels["float32"].verdict == "same"
    assert plain.unjudged == ["level function: neither trace is in float64"]


def test_what_one_side_keeps_alone_is_not_counted_as_judged(tmp_path):
    sides = trace(tmp_path / "one", {0: 1.0}), trace(tmp_path / "other", {0: 1.0})
    writer = TraceWriter(tmp_path / "less", {"package": "less"})
    writer.init({"var/w": START})
    writer.step(0, {"loss/0": np.array(1.0, np.float32), "var/w": START})
    writer.close()
    assert compare_joined(sides[0], Trace(tmp_path / "less"), JOIN).levels["float32"].reason == "2 tensors of 1 steps"
    assert compare_joined(*sides, JOIN).levels["float32"].reason == "3 tensors of 1 steps"


@pytest.mark.parametrize(
    ("one", "other", "notes"),
    [
        ({0: 1.0, 1: 1.0}, {0: 1.0}, ["the candidate has no step 1"]),
        ({1: 1.0}, {0: 1.0, 1: 1.0, 2: 1.0}, ["the reference has no step 0", "the reference has no step 2"]),
    ],
)
def test_a_step_that_one_side_lacks_is_incomparable(tmp_path, located, one, other, notes):
    found = compared(tmp_path, one, other).levels["float32"]
    assert found.verdict == "incomparable" and not located
    assert [check.note for check in found.checks if check.verdict == "incomparable"] == notes


@pytest.mark.parametrize(
    ("one", "other", "start", "asked"),
    [
        ({0: 1.0, 1: 1.0}, {0: 2.0, 1: 2.0}, START, [0]),
        ({0: 1.0, 1: 1.0}, {0: 1.0, 1: 2.0}, START, []),  # later steps start from other weights on each side
        ({0: 1.0}, {0: 2.0}, 2 * START, []),
    ],
)
def test_layers_are_looked_at_in_the_first_step_from_one_start(tmp_path, located, one, other, start, asked):
    found = compared(tmp_path, one, other, start=start)
    assert found.levels["float32"].verdict == "different" and located == asked
    apart = [note for note in found.notes if note.startswith("the two start from other values of 1 of 1 variables")]
    assert len(apart) == (start is not START)


def test_ranks_that_end_with_other_weights_are_different_in_a_recording_too(tmp_path):
    found = compared(tmp_path, {0: 1.0}, {0: 1.0}, ranks_agree=False)
    assert found.levels["float32"].verdict == "different"
