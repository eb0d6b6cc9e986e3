"""Measures what judging costs: two large traces, and one of many small tensors.

Launch: ``python benchmarks/judge.py [--gigabytes G] [--tensors N] [--pairs P]``. Traces are written to a temporary
folder and removed. The yardstick reads and subtracts the same arrays with numpy, memory-mapped; it, judging, and judging
without looking at checksums run in processes of their own, in turn, with the page cache warm. Returns 0 when judging two
traces of 2 GB has at least 0.8 of the yardstick's speed and loses at most a tenth of its own to checksums, 100,000 small
tensors are judged in less than 3 s, and none of it needs more than 300 MB.
"""

import argparse
import contextlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import numpy as np

from parity.experiment.compare import compare_traces
from parity.trace import Trace, TraceWriter, reader, safetensors

SHARE, MEGABYTES, SECONDS = 0.8, 300.0, 3.0
KEPT = 0.9  # of the speed without checksums
SHAPE = (1024, 4096)
FACTS = {"precision": "float32", "slots": [], "towers": 2}


def write_trace(folder: Path, steps: int, weights: int, shape: tuple[int, ...], moved: float) -> Path:
    """Writes a trace of random gradients and weights; `moved` is the relative difference from the unmoved one.

    Args:
      folder: to make.
      steps: number of steps.
      weights: number of weights; each step holds a gradient and a value of each.
      shape: of each weight.
      moved: 0 for the reference, some 1e-8 for a right candidate.
    """
    variables = {
        f"layer{n}/kernel": {"shape": list(shape), "dtype": "float32", "kind": "weight"} for n in range(weights)
    }
    writer = TraceWriter(folder, {"package": "benchmark"}, FACTS, variables)

    def tensors(step: int) -> dict[str, np.ndarray]:
        draw = np.random.default_rng(step)
        found = {}
        for quantity in ("grad", "var"):
            for name in variables:
                value = draw.standard_normal(shape, dtype=np.float32)
                found[f"{quantity}/{name}"] = value * np.float32(1 + moved)
        return found

    writer.init({name: value for name, value in tensors(10**6).items() if name.startswith("var/")})
    for step in range(steps):
        writer.step(step, tensors(step))
    writer.close()
    return folder


def read_and_subtract(reference: Path, candidate: Path) -> None:
    """Reads every array of two traces with numpy and subtracts them: what any comparison has to do at least."""
    with unchecked():
        one, other = Trace(reference), Trace(candidate)
        for step in one.step_numbers:
            files = one.step(step), other.step(step)
            for name in files[0].names():
                np.subtract(files[0].read(name), files[1].read(name))


def judge(reference: Path, candidate: Path) -> None:
    """Judges two traces as `parity compare` does."""
    result = compare_traces(reference, candidate)
    assert result.verdict == "same", result.levels
    print(sum(len(level.checks) for level in result.levels.values()))


def judge_unchecked(reference: Path, candidate: Path) -> None:
    """Judges two traces without looking at the checksums of their tensors."""
    with unchecked():
        judge(reference, candidate)


@contextlib.contextmanager
def unchecked() -> Iterator[None]:
    """Leaves the checksums of tensors alone."""
    with (
        mock.patch.object(safetensors, "check_file"),
        mock.patch.object(reader, "check_ahead"),
        mock.patch.object(reader, "is_checked", return_value=True),
    ):
        yield


WAYS = {"numpy": read_and_subtract, "unchecked": judge_unchecked, "judge": judge}


class Cost(NamedTuple):
    """What one way took, imports left out.

    Fields:
      seconds: by the clock.
      spent: seconds of processor time, which a machine with others on it tells better.
      megabytes: peak memory of its process.
    """

    seconds: float
    spent: float
    megabytes: float


def timed(way: str, reference: Path, candidate: Path) -> Cost:
    """Runs one way in a process of its own."""
    command = [sys.executable, __file__, "--way", way, str(reference), str(candidate)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    seconds, spent, megabytes = (float(word) for word in done.stdout.split()[-3:])
    return Cost(seconds, spent, megabytes)


def main() -> int:
    """Runs the benchmark, or one way of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=2.0, help="size of each of the two large traces")
    parser.add_argument("--tensors", type=int, default=100_000, help="of the trace of small ones")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("traces", nargs="*", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.way:
        began, spent = time.perf_counter(), time.process_time()
        WAYS[arguments.way](*arguments.traces)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(time.perf_counter() - began, time.process_time() - spent, memory)
        return 0
    with tempfile.TemporaryDirectory(prefix="judge-") as folder:
        large = of_large_traces(Path(folder), arguments.gigabytes, arguments.pairs)
    with tempfile.TemporaryDirectory(prefix="judge-") as folder:
        return 0 if of_small_tensors(Path(folder), arguments.tensors) and large else 1


def of_large_traces(folder: Path, gigabytes: float, pairs: int) -> bool:
    """Judges two large traces in turn with the yardstick; says whether both figures hold."""
    weights = 4
    steps = max(1, round(gigabytes * 2**30 / (2 * weights * SHAPE[0] * SHAPE[1] * 4)))
    one, other = (
        write_trace(folder / side, steps, weights, SHAPE, moved)
        for side, moved in (("reference", 0.0), ("candidate", 1e-7))
    )
    timed("numpy", one, other)  # fills the page cache
    found: dict[str, list[Cost]] = {way: [] for way in WAYS}
    for _ in range(pairs):
        for way in WAYS:
            found[way].append(timed(way, one, other))
    print(f"two traces of {gigabytes:g} GB, {steps} steps of {2 * weights} tensors, {pairs} interleaved pairs, medians")
    for way, costs in found.items():
        clock, spent = (statistics.median(values) for values in zip(*(cost[:2] for cost in costs), strict=True))
        print(f"  {way:9} {clock:.2f} s, {spent:.2f} s of processor time")
    by_clock, by_time = speeds(found["numpy"], found["judge"])
    kept, kept_by_time = speeds(found["unchecked"], found["judge"])
    memory = max(cost.megabytes for cost in found["judge"])
    print(
        f"  judged at {by_clock:.0%} of numpy's speed by the clock, {by_time:.0%} by processor time (at least {SHARE:.0%})"
    )
    print(
        f"  {kept:.0%} of the speed without checksums by the clock (at least {KEPT:.0%}), "
        f"{kept_by_time:.0%} by processor time"
    )
    print(f"  peak memory {memory:.0f} MB (at most {MEGABYTES:.0f})")
    return by_clock >= SHARE and kept >= KEPT and memory <= MEGABYTES


def speeds(yardstick: list[Cost], judged: list[Cost]) -> tuple[float, float]:
    """Returns the speed of judging as a part of a yardstick's, by the clock and by processor time: medians of pairs."""
    pairs = list(zip(yardstick, judged, strict=True))
    clock = statistics.median(one.seconds / other.seconds for one, other in pairs)
    return clock, statistics.median(one.spent / other.spent for one, other in pairs)


def of_small_tensors(folder: Path, tensors: int) -> bool:
    """Judges traces of many small tensors: few in many steps, and all in one step; says whether both figures hold."""
    fast = True
    for steps in (100, 1):
        weights = tensors // (2 * steps)
        one, other = (
            write_trace(folder / f"{side}-{steps}", steps, weights, (4,), moved)
            for side, moved in (("reference", 0.0), ("candidate", 1e-7))
        )
        cost = timed("judge", one, other)
        print(
            f"{tensors:,} tensors, {steps} steps of {2 * weights:,}: {cost.seconds:.1f} s (at most {SECONDS:g}), "
            f"{cost.spent:.1f} s of processor time, {cost.megabytes:.0f} MB"
        )
        fast = fast and cost.seconds <= SECONDS and cost.megabytes <= MEGABYTES
    return fast


if __name__ == "__main__":
    sys.exit(main())
