"""Draws the way of a batch through each side, as boxes and arrows, with the place marked where the sides differ first."""

from typing import Any, NamedTuple

from parity.judge.result import FirstDifference
from parity.report.difference import HEADINGS

# Which part of a step makes a quantity of the trace.
PARTS = {
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
WIDTH, LANES, GAP, BOX = 440, 4, 10, 42
STEP = BOX + 26
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
    part = ("start" if first.check.run in ("fresh", "init") else PARTS.get(first.quantity, "")) if first else ""
    mark = f" (the {HEADINGS[first.check.verdict].lower()} is made here)" if first else ""
    lane = int(first.tower.partition(".")[0]) if first and first.tower.partition(".")[0].isdigit() else None
    lanes = _lanes(side.copies)
    boxes: list[Box] = []
    arrows: list[tuple[float, float, float, float]] = []
    rows = _rows(side)
    for number, (name, words, wide) in enumerate(rows):
        y = 4 + number * STEP
        middles = [WIDTH / 2] if wide else [x + width / 2 for x, width, _ in lanes]
        if wide:
            boxes.append(Box(4, y, WIDTH - 8, BOX, (words,), name == part))
        else:
            for x, width, towers in lanes:
                marked = name == part and (lane is None or lane in towers)
                boxes.append(Box(x, y, width, BOX, (_called(side, towers), words), marked))
        if number + 1 < len(rows):
            middles = middles if not (wide and not rows[number + 1][2]) else [x + width / 2 for x, width, _ in lanes]
            arrows += [(x, y + BOX, x, y + STEP - 3) for x in middles]
    height = int(8 + (len(rows) - 1) * STEP + BOX)
    return Flow(_title(side), _told(side, rows, part, mark), boxes, arrows, WIDTH, height)


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
    width = (WIDTH - 8 - GAP * (shown - 1)) / shown
    groups = [range(n, n + 1) for n in range(shown)]
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
        combine=str(facts.get("combine", "not told")),
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
