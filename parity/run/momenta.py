"""How much farther the reference moves each moving statistic than the candidate does."""

import numpy as np

from parity.judge.levels.function import Lockstep
from parity.mapping.trace_map import Join
from parity.trace import parse_key


def momentum_ratios(join: Join, traces: Lockstep) -> dict[str, float]:
    """Returns by the candidate's name of a moving statistic how far the reference moves it in the first step, relative.

    Graphs round a momentum to float32 in one of two ways: which, these ratios tell.

    Args:
      join: names and layouts.
      traces: both sides' float64 runs, and the states before each step.
    """
    step = traces.reference64.step_numbers[0]
    one_file, other_file, before = (
        trace.step(step) for trace in (traces.reference64, traces.candidate64, traces.states)
    )
    ratios: dict[str, float] = {}
    for text in one_file.names():
        key = parse_key(text)
        other = join.read(key, other_file) if key.quantity == "stat" and text in before else None
        if other is None or other.shape != one_file.read(text).shape:
            continue
        start = np.asarray(before.read(text), np.float64)
        theirs, ours = (np.ravel(value - start) for value in (one_file.read(text), other))
        size = float(ours @ ours)
        if size > 0.0:
            ratios.update((parse_key(name).name, float(theirs @ ours) / size) for name in join.candidates(key))
    return ratios
