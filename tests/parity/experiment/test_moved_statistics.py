"""How one side moves moving statistics, beside how the other does."""

import numpy as np
import pytest

from parity.experiment.moved_statistics import moved_statistics
from parity.judge import Join
from parity.judge.levels.function import Lockstep
from parity.mapping import build_mapping, variables_of
from parity.trace import Trace, TraceWriter

TAKEN, KEPT = float(np.float32(0.2)), float(np.float32(0.8))


def measured(folder, before, reference, candidate):
    """What is measured of `mean`: lists of one array a step. `still` moves on neither side."""
    traces = {}
    for side, steps in {"before": before, "reference": reference, "candidate": candidate}.items():
        writer = TraceWriter(folder / side, {"package": "test"})
        writer.init({})
        for number, value in enumerate(steps):
            writer.step(number, {"stat/mean": value, "stat/still": np.ones(3), "grad/w": np.ones(3)})
        writer.close()
        traces[side] = Trace(folder / side)
    entry = {"shape": [3], "dtype": "float32", "kind": "statistic"}
    variables = [variables_of({"mean": entry, "still": entry}) for _ in range(2)]
    lockstep = Lockstep(*[traces[side] for side in ("reference", "reference", "candidate", "candidate", "before")])
    return moved_statistics(Join(build_mapping(*variables, {}), {}, []), lockstep)


@pytest.mark.parametrize("start", [[0.0, 0.0, 0.0], [1.0, -2.0, 0.5], [1e4, 2e4, -3e4]])
def test_a_ratio_is_of_what_the_steps_move(tmp_path, start):
    start, moved = np.array(start), np.array([0.25, 0.5, -1.0])
    ratio = 1.0 + 2.0**-24
    found = measured(tmp_path, [start], [start + ratio * moved], [start + moved])
    assert set(found) == {"mean"}
    known = 1e-16 * max(1.0, np.abs(start).max())
    assert abs(found["mean"][0] - ratio) < 20 * known
    assert abs(found["mean"][1]) < 20 * known


def test_constants_that_are_rounded_each_for_itself_leave_a_drift(tmp_path):
    batches = np.array([[1.0, 2.0, 0.25], [0.5, 3.0, 1.0]])
    before = [np.ones(3), np.array([1.5, 0.25, 2.0])]
    reference = [old * KEPT + new * TAKEN for old, new in zip(before, batches, strict=True)]
    candidate = [old * 0.8 + new * 0.2 for old, new in zip(before, batches, strict=True)]
    ratio, drift = measured(tmp_path, before, reference, candidate)["mean"]
    assert abs(ratio - TAKEN / 0.2) < 1e-14
    assert abs(drift - (KEPT + TAKEN - 1.0)) < 1e-14


def test_a_statistic_that_moves_along_itself_has_no_drift_that_could_be_told(tmp_path):
    start = np.array([1.0, 2.0, 4.0])
    found = measured(tmp_path, [start], [1.75 * start], [1.5 * start])
    assert found["mean"] == (1.5, 0.0)
