"""How much farther one side moves moving statistics than the other."""

import numpy as np

from parity.experiment.prepare import momentum_ratios
from parity.judge import Join
from parity.judge.levels.function import Lockstep
from parity.mapping import build_mapping, variables_of
from parity.trace import Trace, TraceWriter


def test_ratios_are_of_what_the_first_step_moves(tmp_path):
    start, moved = np.array([1.0, -2.0, 0.5]), np.array([0.25, 0.5, -1.0])
    values = {"before": 0.0, "reference": 1.0 + 2.0**-24, "candidate": 1.0}
    traces = {}
    for side, factor in values.items():
        writer = TraceWriter(tmp_path / side, {"package": "test"})
        writer.init({})
        writer.step(0, {"stat/mean": start + factor * moved, "stat/still": start, "grad/w": moved})
        writer.close()
        traces[side] = Trace(tmp_path / side)
    entry = {"shape": [3], "dtype": "float32", "kind": "statistic"}
    variables = [variables_of({"mean": entry, "still": entry}) for _ in range(2)]
    lockstep = Lockstep(*[traces[side] for side in ("reference", "reference", "candidate", "candidate", "before")])
    ratios = momentum_ratios(Join(build_mapping(*variables, {}), {}, []), lockstep)
    assert set(ratios) == {"mean"}
    assert abs(ratios["mean"] - values["reference"]) < 1e-15
