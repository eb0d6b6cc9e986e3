"""Draws the losses of both sides over the steps, and how far apart they are against what is allowed."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from parity.judge.tensor_details import Losses
from parity.report.html_grid import RUNS
from parity.report.tables import NUMBERS

WIDTH, HEIGHT = 520, 230
LEFT, RIGHT, TOP, BOTTOM = 64, 10, 10, 26
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
    """Returns the drawings of a run's losses: their course with the allowance about it, and their difference."""
    every = max(1, math.ceil(len(losses.steps) / MOST_POINTS))
    columns = (losses.steps, losses.reference, losses.candidate, losses.allowed)
    rows = list(zip(*(column[::every] for column in columns), strict=True))
    label = f"{NUMBERS[losses.level]} {losses.level}: {RUNS.get(losses.run, losses.run)}"
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
    return Chart("line: reference; dashed: candidate; band: what is allowed", told, lines, ticks, _steps(rows))


def _difference(rows: Sequence[tuple[int, float, float, float]]) -> Chart:
    apart = [(step, abs(other - one), most) for step, one, other, most in rows]
    known = [math.log10(value) for _, *both in apart for value in both if value > 0 and math.isfinite(value)]
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
    told = f"Difference of the losses, logarithmic: at most {max(multiples, default=0.0):.3g} times what is allowed"
    return Chart("line: difference; dashed: allowed; zero is drawn at the foot", told, lines, ticks, _steps(rows))


def _range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values, default=0.0), max(values, default=1.0)
    margin = (high - low) * 0.05 or abs(high) * 0.05 or 1.0
    return low - margin, high + margin


def _across(rows: Sequence[tuple[int, float, float, float]]) -> Callable[[float], float]:
    first, last = rows[0][0], rows[-1][0]
    wide = WIDTH - LEFT - RIGHT
    return lambda step: LEFT + wide * ((step - first) / (last - first) if last > first else 0.5)


def _up(low: float, high: float) -> Callable[[float], float]:
    tall = HEIGHT - TOP - BOTTOM
    return lambda value: HEIGHT - BOTTOM - tall * (value - low) / (high - low)


def _steps(rows: Sequence[tuple[int, float, float, float]]) -> list[tuple[float, str]]:
    x = _across(rows)
    return [(x(step), str(step)) for step in dict.fromkeys((rows[0][0], rows[len(rows) // 2][0], rows[-1][0]))]


def _text(points: Points) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
