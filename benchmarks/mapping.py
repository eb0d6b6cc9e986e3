"""Measures how long `parity map` takes for two traces of many variables, of which many have one and the same shape.

Launch: ``python benchmarks/mapping.py [--repeats N]``. Traces are written to a temporary folder and removed. The whole
command is timed, in a process of its own: reading, joining, proposing, printing. Beside it stands how long names and values
take where each pair of one shape is looked at by itself, by `difflib` and numpy; a tenth of these pairs is made. Returns 0
when 10,000 variables with 1,000 of one shape take less than 10 s, whatever joins them.
"""

import argparse
import difflib
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from typing import NamedTuple

import numpy as np

from parity.trace import TraceWriter

SECONDS = 10.0
SIZES = ((2_500, 300), (10_000, 1_000))  # variables, and those of one shape
SHAPE = (16, 24)
PART = 10  # one in so many of the plain alternative's pairs is made
# Names of the reference and of the candidate, by what joins them.
NAMES = {
    "names": ("layer_{}/kernel", "layer{}.weight"),
    "numbers": ("model/block_{}/dense/kernel", "layers.{}.fc.weight"),
    "numbers, names say nothing": ("Variable_{}", "p{}x"),
}


class Cost(NamedTuple):
    """What a command took.

    Fields:
      seconds: by the clock.
      spent: seconds of processor time.
    """

    seconds: float
    spent: float


def write_traces(folder: Path, count: int, alike: int, names: tuple[str, str]) -> list[np.ndarray]:
    """Writes two traces of the same values, one side's kernels turned; returns the values of those of one shape."""
    draw = np.random.default_rng(0)
    shapes = [SHAPE if at % (count // alike) == 0 else (4, 25 + at // 16) for at in range(count)]
    drawn = [[draw.standard_normal(shape, dtype=np.float32) for shape in shapes] for _ in range(2)]
    for side, name in zip(("reference", "candidate"), names, strict=True):
        values, gradients = (
            {
                name.format(at): each if side == "reference" else np.ascontiguousarray(each.T)
                for at, each in enumerate(of)
            }
            for of in drawn
        )
        described = {n: {"shape": list(v.shape), "dtype": "float32", "kind": "weight"} for n, v in values.items()}
        writer = TraceWriter(folder / side, {"package": "benchmark"}, {"precision": "float32"}, described)
        writer.init({f"var/{each}": value for each, value in values.items()})
        writer.step(0, {f"grad/{each}": value for each, value in gradients.items()})
        writer.close()
    return [value for value, shape in zip(drawn[0], shapes, strict=True) if shape == SHAPE]


def timed(folder: Path) -> Cost:
    """Runs the command once."""
    before = getrusage(RUSAGE_CHILDREN)
    began = time.perf_counter()
    command = [sys.executable, "-m", "parity.cli", "map", str(folder / "reference"), str(folder / "candidate")]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    seconds, after = time.perf_counter() - began, getrusage(RUSAGE_CHILDREN)
    return Cost(seconds, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)


def plain(values: list[np.ndarray], names: tuple[str, str]) -> float:
    """Returns the seconds that names and values of every pair take where each is looked at by itself."""
    ones, others = ([name.format(at) for at in range(len(values))] for name in names)
    began = time.perf_counter()
    for one, value in zip(ones[::PART], values[::PART], strict=True):
        for other, held in zip(others, values, strict=True):
            difflib.SequenceMatcher(None, one, other, autojunk=False).ratio()
            np.linalg.norm(value - held) / (np.linalg.norm(value) + np.linalg.norm(held))
    return PART * (time.perf_counter() - began)


def main() -> int:
    """Runs the benchmark; returns 0 when every figure of the largest size holds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3, help="of each command, of which the median counts")
    repeats = parser.parse_args().repeats
    slowest = 0.0
    for count, alike in SIZES:
        print(f"{count:,} variables, {alike:,} of one shape; medians of {repeats}")
        for joined_by, names in NAMES.items():
            with tempfile.TemporaryDirectory(prefix="mapping-") as folder:
                values = write_traces(Path(folder), count, alike, names)
                costs = [timed(Path(folder)) for _ in range(repeats)]
            clock, spent = (statistics.median(found) for found in zip(*costs, strict=True))
            print(
                f"  joined by {joined_by}: {clock:.1f} s, {spent:.1f} s of processor time; "
                f"each pair by itself: {plain(values, names):.0f} s for names and values once"
            )
            slowest = max(slowest, clock) if count == SIZES[-1][0] else slowest
    print(f"the slowest of {SIZES[-1][0]:,}: {slowest:.1f} s (at most {SECONDS:g})")
    return 0 if slowest <= SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
