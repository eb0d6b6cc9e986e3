"""The page's tables, packed: every check, tensors by steps, and the details of single tensors."""

import base64
import json
import math
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from parity.judge.result import Check, Level, Result
from parity.judge.tensor_details import Closer, Histogram
from parity.report.view import LEVEL_NUMBERS

Array = np.ndarray[Any, Any]
RUN_NAMES = {
    "fresh": "as the optimizers start",
    "init": "before training",
    "lockstep": "lockstep",
    "free": "free run",
    "train": "train()",
}
NUMBER_BYTES = 3  # of float64's eight: enough for a colour and three digits in a heat map


class Grid(NamedTuple):
    """The checks of one run of one level, tensors by steps.

    Fields:
      level: its name.
      run: "init", "lockstep" or "free".
      keys: the tensors in order of execution, one a row.
      steps: the steps' numbers, one a column.
      states: what a cell can be: its verdict and its note; the first is of a cell without a check.
      state: int64, rows x columns: which of `states`.
      difference, allowed: float64, rows x columns.
    """

    level: str
    run: str
    keys: list[str]
    steps: list[int]
    states: list[tuple[str, str]]
    state: Array
    difference: Array
    allowed: Array

    @property
    def label(self) -> str:
        """The run's name for a person, e.g. "1 function: lockstep"."""
        return f"{LEVEL_NUMBERS[self.level]} {self.level}: {RUN_NAMES.get(self.run, self.run)}"

    def as_json(self, numbers: dict[str, int]) -> dict[str, Any]:
        """Returns all but the numbers in it, names by their numbers, which `numbers` takes up: runs share their names."""
        keys = _stretches([numbers.setdefault(key, len(numbers)) for key in self.keys])
        return {"label": self.label, "keys": keys, "steps": self.steps, "states": self.states}


def grids(result: Result) -> list[Grid]:
    """Returns a grid for every run of every level that has checks, the runs in which training is judged first."""
    found = []
    for level in result.levels.values():
        runs = dict.fromkeys(check.run for check in level.checks)
        for run in sorted(runs, key=lambda run: run in ("fresh", "init")):
            found.append(_grid(level, run))
    return found


def packed(grid: Grid) -> str:
    """Returns a grid's numbers as text: zlib in base64, byte by byte of all cells in a row, which zlib likes.

    First the differences in three bytes each, then the allowances, then the states in as few bytes as they need, in the
    order of bytes from the lowest up.
    """
    width = _width(len(grid.states))
    planes = [_planes(shortened(grid.difference), NUMBER_BYTES), _planes(shortened(grid.allowed), NUMBER_BYTES)]
    # Mostly one byte: there are as many states as verdicts with different notes.
    planes.append(_planes(grid.state.ravel(), width))
    return _compressed(b"".join(planes))


def packed_names(names: Sequence[str]) -> str:
    """Returns the tensors' names as text: their JSON, zlib in base64, for they are long and much alike."""
    return _compressed(json.dumps(list(names)).encode("ascii"))


def _compressed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 6)).decode("ascii")


def _stretches(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Returns numbers as stretches that go up by one: the first of each, and how many they are."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and number == sum(found[-1]):
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((number, 1))
    return found


def shortened(numbers: Array) -> Array:
    """Returns the upper 24 of the 63 bits after the sign of numbers that are not negative, rounded.

    That is float64 with its whole range and 13 bits of mantissa: within 6.2e-5 of the number, infinity and NaN kept.

    Args:
      numbers: float64, any shape.

    Returns:
      int64, flat, 0 to 2^24 - 1.
    """
    # uint64 (cells,): as integers, floats of one sign are in order, so that adding half of the last bit kept rounds
    # them.
    bits = np.abs(np.ascontiguousarray(numbers, dtype=np.float64).ravel()).view(np.uint64)
    return ((bits + np.uint64(1 << 38)) >> np.uint64(39)).astype(np.int64)


def place(grids_: Sequence[Grid], level: Level, check: Check) -> tuple[int, int, int] | None:
    """Returns which grid, row and column a check of a level is in; None where it is in none."""
    for number, grid in enumerate(grids_):
        if (grid.level, grid.run) == (level.name, check.run) and check.key in grid.keys and check.step in grid.steps:
            return number, grid.keys.index(check.key), grid.steps.index(check.step)
    return None


def _grid(level: Level, run: str) -> Grid:
    checks = [check for check in level.checks if check.run == run]
    rows = {key: row for row, key in enumerate(dict.fromkeys(check.key for check in checks))}
    columns = {step: column for column, step in enumerate(sorted({check.step for check in checks}))}
    states: dict[tuple[str, str], int] = {("absent", ""): 0}
    # (checks,): which cell of the flattened rows x columns, and which state.
    cells = np.empty(len(checks), dtype=np.int64)
    found = np.empty(len(checks), dtype=np.int64)
    for number, check in enumerate(checks):
        cells[number] = rows[check.key] * len(columns) + columns[check.step]
        found[number] = states.setdefault((check.verdict, check.note), len(states))
    shape = len(rows), len(columns)
    state = _spread(cells, found, shape)
    difference = _spread(cells, np.array([check.difference for check in checks], dtype=np.float64), shape)
    allowed = _spread(cells, np.array([check.allowed for check in checks], dtype=np.float64), shape)
    return Grid(level.name, run, list(rows), list(columns), list(states), state, difference, allowed)


def _spread(cells: Array, values: Array, shape: tuple[int, int]) -> Array:
    # A cell without a check is 0, which is the state "absent".
    whole = np.zeros(shape[0] * shape[1], dtype=values.dtype)
    whole[cells] = values
    return whole.reshape(shape)


def _planes(codes: Array, width: int) -> bytes:
    # Lowest bytes of all cells, then the next: the upper ones hardly vary, and shrink to nothing.
    return b"".join(((codes >> (8 * byte)) & 255).astype(np.uint8).tobytes() for byte in range(width))


def _width(count: int) -> int:
    # Bytes of an index below `count`.
    return next(width for width in (1, 2, 3) if count <= 256**width)


def closer_of(result: Result, found: list[Grid]) -> list[dict[str, Any]]:
    """Returns a JSON value for each tensor that was looked at and is in the heat map, with its cell."""
    packed = []
    for each in result.closer:
        # For its place only: which cell this is has nothing to do with the verdict.
        check = Check(each.run, each.step, each.key, "same")
        where = place(found, result.levels[each.level], check)
        if where:
            packed.append({"place": where, **_packed(each)})
    return packed


def _packed(each: Closer) -> dict[str, Any]:
    return {
        "size": each.size,
        "finite": each.finite,
        "values": {**_range(each.reference), "counts": [each.reference.counts, each.candidate.counts]},
        "apart": {**_range(each.apart), "counts": [each.apart.counts]},
        "worst": [[_index(spot.index), _shown(spot.reference), _shown(spot.candidate)] for spot in each.worst],
    }


def _range(histogram: Histogram) -> dict[str, str]:
    return {"low": _short(histogram.low), "high": _short(histogram.high)}


def _index(index: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, index))}]"


def _shown(number: float) -> str:
    return f"{number:.9g}" if math.isfinite(number) else str(number)


def _short(number: float) -> str:
    return f"{number:.4g}"
