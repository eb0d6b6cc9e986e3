"""Histograms and worst elements of single tensors, and the losses of both sides over the steps."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from parity.judge.result import Check, Level
from parity.mapping.trace_map import Join
from parity.trace import TensorFile, Trace, parse_key
from parity.trace.arrays import Array

BINS = 24
PLACES = 5
DIFFERENT = 60  # tensors of a run that are looked at because they differ: the first ones
NEAREST = 5  # and those nearest to their allowance, or furthest beyond it
# 2^27 elements are 1 GiB in float64, read one tensor at a time.
MOST_ELEMENTS = 2**27  # read for all of a comparison together; what would go beyond is left out

Pairs = Mapping[str, tuple[Trace, Trace]]


class Histogram(NamedTuple):
    """How many values lie in each of `BINS` parts of equal width.

    Fields:
      low, high: where the first part begins and the last one ends.
      counts: one a part, the upper end belonging to the last.
    """

    low: float
    high: float
    counts: list[int]


class Place(NamedTuple):
    """One element: its index in the reference's layout, and both values."""

    index: tuple[int, ...]  # type: ignore[assignment]
    reference: float
    candidate: float


class Closer(NamedTuple):
    """One tensor of one step, looked at closely.

    Fields:
      level, run, step, key: which.
      size: number of elements; those that are not finite on either side are in no histogram.
      finite: number of elements that are finite on both sides.
      reference, candidate: their values, over one range.
      apart: candidate minus reference.
      worst: the elements furthest apart, the worst first.
    """

    level: str
    run: str
    step: int
    key: str
    size: int
    finite: int
    reference: Histogram
    candidate: Histogram
    apart: Histogram
    worst: list[Place]


def look_closer(join: Join, level: Level, pairs: Pairs, elements: int = MOST_ELEMENTS) -> list[Closer]:
    """Looks at the first tensors of a level that differ, at the step where each differs first, and at its worst ones.

    One tensor of each side is in memory at a time.

    Args:
      join: names and layouts of both sides.
      level: judged.
      pairs: the traces of each run of the level, reference and candidate.
      elements: how many elements may be read.
    """
    found: list[Closer] = []
    for check in _chosen(level, pairs):
        reference, candidate = (_file(trace, check) for trace in pairs[check.run])
        if reference is None or candidate is None or check.key not in reference:
            continue
        # Counted before reading: a tensor that would go beyond the limit is not read at all.
        elements -= int(np.prod(reference.shape(check.key), dtype=np.int64))
        if elements < 0:
            break
        one, other = reference.read(check.key), join.read(parse_key(check.key), candidate)
        if other is not None and one.shape == other.shape and one.size:
            found.append(_looked_at(level.name, check, one, other))
    return found


def _chosen(level: Level, pairs: Pairs) -> Iterator[Check]:
    for run in pairs:
        judged = [check for check in level.checks if check.run == run and check.verdict != "not_run"]
        chosen: dict[str, Check] = {}
        for check in judged:
            # `checks` are in execution order: the first of a key is the step where it differs first.
            if check.verdict != "same" and len(chosen) < DIFFERENT:
                chosen.setdefault(check.key, check)
        # Also of a level that is the same: what came nearest to its limit is what one would look at.
        nearest = sorted(judged, key=lambda check: check.multiple, reverse=True)
        for check in nearest[:NEAREST]:
            chosen.setdefault(check.key, check)
        yield from chosen.values()


def _file(trace: Trace, check: Check) -> TensorFile | None:
    if check.run == "init":
        return trace.init()
    return trace.step(check.step) if check.step in trace.step_numbers else None


def _looked_at(level: str, check: Check, reference: Array, candidate: Array) -> Closer:
    one = np.asarray(reference, np.float64).ravel()
    other = np.asarray(candidate, np.float64).ravel()
    finite = np.isfinite(one) & np.isfinite(other)
    with np.errstate(invalid="ignore", over="ignore"):
        # (elements,): infinite where either is not finite, so that such elements are the worst, before a difference that
        # is too large for float64.
        apart = np.where(finite, other - one, np.inf)
        far = np.where(finite, np.minimum(np.abs(apart), np.finfo(np.float64).max), np.inf)
    most = min(PLACES, one.size)
    # The furthest few without sorting all of them, then those in order; stable, so that of equal ones the first is
    # shown.
    worst = np.argpartition(-far, most - 1)[:most]
    worst = worst[np.argsort(-far[worst], kind="stable")]
    # One range for both sides, so that their bars can be compared.
    both = np.concatenate([one[finite], other[finite]])
    low, high = (float(both.min()), float(both.max())) if both.size else (0.0, 0.0)
    # Finite numbers may be so far apart that their difference is not.
    between = apart[finite & np.isfinite(apart)]
    return Closer(
        level,
        check.run,
        check.step,
        check.key,
        int(one.size),
        int(finite.sum()),
        histogram(one[finite], low, high),
        histogram(other[finite], low, high),
        histogram(between, float(between.min(initial=0.0)), float(between.max(initial=0.0))),
        [_place(int(at), reference.shape, one, other) for at in worst if apart[at] != 0.0],
    )


def histogram(values: Array, low: float, high: float) -> Histogram:
    """Counts values in parts of a range; where it has no width, all of them are in the middle.

    Args:
      values: float64, flat, all finite and within the range.
      low: where the range begins.
      high: where it ends.
    """
    counts = np.zeros(BINS, np.int64)
    # All values are one number, or so near that half the width is 0: any width would do, and 0 divides nothing.
    if high / 2 - low / 2 <= 0:
        counts[BINS // 2] = values.size
        return Histogram(low, high, counts.tolist())
    part = (values / 2 - low / 2) / (high / 2 - low / 2)  # halved, so that no range overflows
    # The upper end, part = 1, belongs to the last bar. (BINS,), int64.
    counts += np.bincount(np.minimum((part * BINS).astype(np.int64), BINS - 1), minlength=BINS)
    return Histogram(low, high, counts.tolist())


def _place(at: int, shape: tuple[int, ...], one: Array, other: Array) -> Place:
    # A scalar has the empty index.
    index = tuple(int(part) for part in np.unravel_index(at, shape)) if shape else ()
    return Place(index, float(one[at]), float(other[at]))


# The losses of both sides over the steps, with what the candidate's may differ by.

RUNS_OF_LOSSES = ("free", "lockstep")  # the course of training first


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
    # A free run shows a course of training; lockstep shows single steps of another one.
    run = next((run for run in RUNS_OF_LOSSES if run in pairs), None)
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
    # (steps,), each the mean over towers, as what is allowed is.
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
