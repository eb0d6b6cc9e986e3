"""Rounding of half precision is drawn more often where a gradient jumps, and nowhere else."""

import numpy as np
import pytest
from made_pairs import trace

from parity.experiment.rejudge.half_precision import with_draws_where_gradients_jump
from parity.judge.levels.mixed import Halves, judge_mixed

JUMP = 0.2


class Drawing:
    """Draws of one step, of which one with a given number jumps."""

    def __init__(self, folder, full, jumping, step=0):
        self.folder, self.full, self.jumping, self.step, self.asked = folder, full, jumping, step, []

    def draw(self, number):
        jumped = self.full["grad/w"] + (JUMP if number == self.jumping else 0.0)
        folder = self.folder / f"draw-{number}"
        return trace(folder, {**self.full, "grad/w": jumped}), trace(folder / "states", {})

    def more(self, halves, steps, count):
        self.asked.append((list(steps), count))
        first = len(halves.draws)
        return halves._replace(draws=[*halves.draws, *map(self.draw, range(first, first + count))])


def drawn(tmp_path, mixed, jumping):
    full = {"loss/0": np.ones(1), "grad/w": np.ones(3), "slot/m/w": np.ones(3)}
    drawing = Drawing(tmp_path, full, jumping)
    states = trace(tmp_path / "states", {})
    runs = trace(tmp_path / "full", full), *(trace(tmp_path / name, {**full, **mixed}) for name in ("mixed", "free"))
    halves = Halves(*runs, [drawing.draw(number) for number in range(4)], states, "float16", "O1")
    found = with_draws_where_gradients_jump(halves, drawing.more)
    return drawing.asked, {check.key: check.verdict for check in judge_mixed(found)}


@pytest.mark.parametrize(
    ("jumping", "counts", "verdict"),
    [(2, [], "same"), (5, [4], "same"), (9, [4, 8], "same"), (31, [4, 8, 16], "same"), (40, [4, 8, 16], "different")],
)
def test_more_is_drawn_until_one_draw_jumps_as_far(tmp_path, jumping, counts, verdict):
    asked, verdicts = drawn(tmp_path, {"grad/w": np.ones(3) + JUMP}, jumping)
    assert asked == [([0], count) for count in counts]
    assert verdicts == {"loss/0": "same", "grad/w": verdict, "slot/m/w": "same"}


@pytest.mark.parametrize(
    "mixed",
    [
        {},
        {"loss/0": np.ones(1) + JUMP, "grad/w": np.ones(3) + JUMP},
        {"grad/w": np.full(3, np.nan)},
        {"slot/m/w": np.ones(3) + JUMP},
    ],
)
def test_nothing_more_is_drawn_where_no_gradient_differs_or_what_is_before_it(tmp_path, mixed):
    assert drawn(tmp_path, mixed, 40)[0] == []


def test_a_draw_says_nothing_of_steps_that_it_has_not(tmp_path):
    one, other = ({"grad/w": np.ones(3) + off} for off in (0.0, JUMP))
    runs = [trace(tmp_path / name, tensors) for name, tensors in (("full", one), ("mixed", other), ("free", other))]
    none, states = trace(tmp_path / "none"), trace(tmp_path / "states", {})
    halves = Halves(*runs, [(none, none)], states, "float16", "O1")
    assert [check.verdict for check in judge_mixed(halves)] == ["different"]
