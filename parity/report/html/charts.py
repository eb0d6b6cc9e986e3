"""The page's drawings: the data flow of one step, and the losses over the steps."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from parity.judge.result import FirstDifference
from parity.judge.tensor_details import Losses
from parity.report.html.grid import RUN_NAMES
from parity.report.view import HEADINGS, LEVEL_NUMBERS

# Which part of a step makes a quantity of the trace.
PART_OF_QUANTITY = {
    "feed": "shard",
    "noise": "forward",
    "act": "forward",
    "stat": "forward",
    "loss": "forward",
    "metric": "forward",
    "eval": "forward",
    "tower_grad": "backward",
    "tower_clip": "backward",
    "grad": "combine",
    "clip": "combine",
    "state": "update",
    "slot": "update",
    "var": "update",
    "ema": "update",
}
# Units of the drawing: its width, lanes at most, what is between two, the height of a box.
FLOW_WIDTH, LANES, GAP, BOX = 440, 4, 10, 42
STEP = BOX + 26  # from one row to the next, an arrow between them
FITS = 12  # letters that a box of one of four lanes is wide


class Box(NamedTuple):
    """A part of the step: its place in units of the drawing, its words, and whether the first difference is made here."""

    x: float
    y: float
    width: float
    height: float
    words: tuple[str, ...]
    marked: bool


class Flow(NamedTuple):
    """One side's step.

    Fields:
      title: who it is.
      told: the same in words, for those who cannot see it.
      boxes, arrows: what to draw; an arrow is x1, y1, x2, y2.
      width, height: of the drawing.
    """

    title: str
    told: str
    boxes: list[Box]
    arrows: list[tuple[float, float, float, float]]
    width: int
    height: int


class Side(NamedTuple):
    """What a drawing needs to know of a side."""

    towers: bool
    copies: int
    combine: str
    optimizer: str
    variables: str


def flow_of(facts: dict[str, Any], first: FirstDifference | None) -> Flow:
    """Returns the drawing of a side: towers that one optimizer serves, or ranks that each hold the weights."""
    side = _side(facts)
    part = (
        ("start" if first.check.run in ("fresh", "init") else PART_OF_QUANTITY.get(first.quantity, "")) if first else ""
    )
    mark = f" (the {HEADINGS[first.check.verdict].lower()} is made here)" if first else ""
    # "0.1" is micro-batch 1 of tower 0: drawn in the lane of its tower.
    lane = int(first.tower.partition(".")[0]) if first and first.tower.partition(".")[0].isdecimal() else None
    lanes = _lanes(side.copies)
    boxes: list[Box] = []
    arrows: list[tuple[float, float, float, float]] = []
    rows = _rows(side)
    for number, (name, words, wide) in enumerate(rows):
        y = 4 + number * STEP
        middles = [FLOW_WIDTH / 2] if wide else [x + width / 2 for x, width, _ in lanes]
        if wide:
            boxes.append(Box(4, y, FLOW_WIDTH - 8, BOX, (words,), name == part))
        else:
            for x, width, towers in lanes:
                marked = name == part and (lane is None or lane in towers)
                boxes.append(Box(x, y, width, BOX, (_called(side, towers), words), marked))
        if number + 1 < len(rows):
            middles = middles if not (wide and not rows[number + 1][2]) else [x + width / 2 for x, width, _ in lanes]
            arrows += [(x, y + BOX, x, y + STEP - 3) for x in middles]
    height = int(8 + (len(rows) - 1) * STEP + BOX)
    return Flow(_title(side), _told(side, rows, part, mark), boxes, arrows, FLOW_WIDTH, height)


def _rows(side: Side) -> list[tuple[str, str, bool]]:
    lanes = [("forward", "forward, loss", False), ("backward", "gradients", False)]
    if side.towers:
        return [
            ("start", f"variables, shared, on {side.variables}", True),
            ("shard", f"the batch, split by {side.copies}", True),
            *lanes,
            ("combine", f"combine the towers: {side.combine}", True),
            ("update", f"apply once: {side.optimizer}", True),
        ]
    step = f"{side.optimizer} step"
    return [
        ("start", "weights, a copy on every rank", True),
        ("shard", f"the batch, shard by shard to {side.copies}", True),
        *lanes,
        ("combine", f"all-reduce: {side.combine}", True),
        ("update", step if len(step) <= FITS else "own step", False),
    ]


def _lanes(count: int) -> list[tuple[float, float, range]]:
    shown = min(count, LANES)
    # 4 units of margin on either side, of which the lanes and the gaps between them take the rest.
    width = (FLOW_WIDTH - 8 - GAP * (shown - 1)) / shown
    groups = [range(n, n + 1) for n in range(shown)]
    # The last lane stands for all further towers.
    if count > shown:
        groups[-1] = range(shown - 1, count)
    return [(4 + number * (width + GAP), width, group) for number, group in enumerate(groups)]


def _called(side: Side, towers: range) -> str:
    noun = "tower" if side.towers else "rank"
    return f"{noun} {towers[0]}" if len(towers) == 1 else f"{noun}s {towers[0]} to {towers[-1]}"


def _side(facts: dict[str, Any]) -> Side:
    towers = "towers" in facts
    count = facts.get("towers", facts.get("ranks", 1))
    name = (facts.get("optimizer") or {}).get("name") or "optimizer"
    return Side(
        towers=towers,
        copies=max(1, count) if isinstance(count, int) else 1,
        combine=str(facts.get("combine", "unknown")),
        optimizer=str(name).rpartition(".")[2].removesuffix("Optimizer"),
        variables=str(facts.get("variables_on", "one device")).replace("_", " "),
    )


def _title(side: Side) -> str:
    noun = "tower" if side.towers else "rank"
    return f"{side.copies} {noun}{'' if side.copies == 1 else 's'}, {side.optimizer}"


def _told(side: Side, rows: list[tuple[str, str, bool]], part: str, mark: str) -> str:
    each = "each tower: " if side.towers else "each rank: "
    told = [f"{'' if wide else each}{words}{mark if name == part else ''}" for name, words, wide in rows]
    return f"{_title(side)}; " + "; then ".join(told)


LOSSES_WIDTH, LOSSES_HEIGHT = 520, 230
LEFT_LANE, RIGHT, TOP, BOTTOM = 64, 10, 10, 26  # margins; the left one holds the numbers of the vertical axis
TICKS = 5
MOST_POINTS = 1000  # of a line; beyond it every n-th step is drawn

Points = list[tuple[float, float]]


class Line(NamedTuple):
    """One line: its class in the style sheet, and what is drawn, as the text of a polyline's points."""

    kind: str
    points: str


class Chart(NamedTuple):
    """One drawing.

    Fields:
      caption: under it, with what each line is.
      told: the same in words and figures, for those who cannot see it.
      lines: from the back to the front.
      ticks: of the vertical axis, as place and text.
      steps: of the horizontal one.
    """

    caption: str
    told: str
    lines: list[Line]
    ticks: list[tuple[float, str]]
    steps: list[tuple[float, str]]


class Drawn(NamedTuple):
    """The drawings of one run, and the same as a table of step, reference, candidate, difference and allowed."""

    label: str
    charts: list[Chart]
    rows: list[tuple[str, ...]]


def draw_losses(losses: Losses) -> Drawn:
    """Returns the drawings of a run's losses: their course with the tolerance about it, and their difference."""
    every = max(1, math.ceil(len(losses.steps) / MOST_POINTS))
    columns = (losses.steps, losses.reference, losses.candidate, losses.allowed)
    rows = list(zip(*(column[::every] for column in columns), strict=True))
    label = f"{LEVEL_NUMBERS[losses.level]} {losses.level}: {RUN_NAMES.get(losses.run, losses.run)}"
    label += f", {losses.section}" if losses.section else ""
    table = [
        (str(step), *(f"{number:.6g}" for number in (*both, abs(both[1] - both[0]), most)))
        for step, *both, most in rows
    ]
    return Drawn(label, [_course(rows), _difference(rows)], table)


def _course(rows: Sequence[tuple[int, float, float, float]]) -> Chart:
    known = [value for _, one, other, most in rows for value in (one - most, one + most, other) if math.isfinite(value)]
    low, high = _range(known)
    x, y = _across(rows), _up(low, high)
    # Up one side and back along the other: a polygon.
    band = [(x(step), y(one + most)) for step, one, _, most in rows if math.isfinite(one + most)]
    band += [(x(step), y(one - most)) for step, one, _, most in reversed(rows) if math.isfinite(one + most)]
    lines = [
        Line("envelope", _text(band)),
        Line("reference", _text([(x(step), y(one)) for step, one, _, _ in rows if math.isfinite(one)])),
        Line("candidate", _text([(x(step), y(other)) for step, _, other, _ in rows if math.isfinite(other)])),
    ]
    ticks = [(y(value), f"{value:.4g}") for value in (low + (high - low) * n / (TICKS - 1) for n in range(TICKS))]
    first, last = rows[0], rows[-1]
    told = (
        f"Losses over {len(rows)} steps: the reference's from {first[1]:.4g} to {last[1]:.4g}, the candidate's from "
        f"{first[2]:.4g} to {last[2]:.4g}"
    )
    return Chart("line: reference; dashed: candidate; band: tolerance", told, lines, ticks, _steps(rows))


def _difference(rows: Sequence[tuple[int, float, float, float]]) -> Chart:
    apart = [(step, abs(other - one), most) for step, one, other, most in rows]
    known = [math.log10(value) for _, *both in apart for value in both if value > 0 and math.isfinite(value)]
    # Whole powers of ten; zero has no logarithm, and is drawn at the foot.
    low, high = math.floor(min(known, default=-1.0)), math.ceil(max(known, default=0.0))
    high = max(high, low + 1)
    x, height = _across(rows), _up(low, high)

    def y(value: float) -> float:
        return height(min(max(math.log10(value), low), high) if value > 0 else low)

    lines = [
        Line("allowed", _text([(x(step), y(most)) for step, _, most in apart if math.isfinite(most)])),
        Line("difference", _text([(x(step), y(found)) for step, found, _ in apart if math.isfinite(found)])),
    ]
    every = max(1, math.ceil((high - low) / TICKS))
    ticks = [(height(power), f"1e{power}") for power in range(low, high + 1, every)]
    multiples = [found / most for _, found, most in apart if most > 0 and math.isfinite(found)]
    told = f"Difference of the losses, logarithmic: at most {max(multiples, default=0.0):.3g} times the tolerance"
    return Chart("line: difference; dashed: tolerance; zero is drawn at the foot", told, lines, ticks, _steps(rows))


def _range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values, default=0.0), max(values, default=1.0)
    # Losses that never move still need a height to be drawn in.
    margin = (high - low) * 0.05 or abs(high) * 0.05 or 1.0
    return low - margin, high + margin


def _across(rows: Sequence[tuple[int, float, float, float]]) -> Callable[[float], float]:
    first, last = rows[0][0], rows[-1][0]
    wide = LOSSES_WIDTH - LEFT_LANE - RIGHT
    return lambda step: LEFT_LANE + wide * ((step - first) / (last - first) if last > first else 0.5)


def _up(low: float, high: float) -> Callable[[float], float]:
    tall = LOSSES_HEIGHT - TOP - BOTTOM
    # Upside down: y grows downwards in SVG.
    return lambda value: LOSSES_HEIGHT - BOTTOM - tall * (value - low) / (high - low)


def _steps(rows: Sequence[tuple[int, float, float, float]]) -> list[tuple[float, str]]:
    x = _across(rows)
    # First, middle and last, each once: a run of one step has them all in one place.
    return [(x(step), str(step)) for step in dict.fromkeys((rows[0][0], rows[len(rows) // 2][0], rows[-1][0]))]


def _text(points: Points) -> str:
    # A tenth of a unit is finer than a pixel, and keeps a thousand points in a few kilobytes.
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
