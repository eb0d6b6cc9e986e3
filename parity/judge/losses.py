"""The losses of both sides over the steps, with what the candidate's may differ by."""

from typing import NamedTuple

import numpy as np

from parity.judge.closer import Pairs
from parity.judge.result import Level
from parity.trace import Trace, parse_key

RUNS = ("free", "lockstep")  # the course of training first


class Losses(NamedTuple):
    """The mean loss over the towers at each step of a run.

    Fields:
      level, run: which.
      steps: their numbers.
      reference, candidate: the losses; NaN where a side has none.
      allowed: by how much they may differ: the mean of what is allowed for the towers.
      section: the optimizer whose losses they are, "" where there is one only.
    """

    level: str
    run: str
    steps: list[int]
    reference: list[float]
    candidate: list[float]
    allowed: list[float]
    section: str = ""


def losses_of(level: Level, pairs: Pairs) -> Losses | None:
    """Returns the losses of a level's free run, or of its lockstep where it has none; None without a loss.

    Args:
      level: judged; its checks say what is allowed.
      pairs: the traces of each run of the level, reference and candidate.
    """
    run = next((run for run in RUNS if run in pairs), None)
    if run is None:
        return None
    reference, candidate = pairs[run]
    allowed: dict[int, list[float]] = {}
    for check in level.checks:
        if check.run == run and _is_loss(check.key) and check.verdict in ("same", "different"):
            allowed.setdefault(check.step, []).append(check.allowed)
    steps = [step for step in reference.step_numbers if step in allowed]
    if not steps:
        return None
    one = [_mean(reference, step) for step in steps]
    other = [_mean(candidate, step) for step in steps]
    return Losses(level.name, run, steps, one, other, [float(np.mean(allowed[step])) for step in steps])


def _mean(trace: Trace, step: int) -> float:
    if step not in trace.step_numbers:
        return float("nan")
    file = trace.step(step)
    found = [file.read(text) for text in file.names() if _is_loss(text)]
    return float(np.mean([np.mean(np.asarray(each, np.float64)) for each in found])) if found else float("nan")


def _is_loss(text: str) -> bool:
    key = parse_key(text)
    return key.quantity == "loss" and not key.name
