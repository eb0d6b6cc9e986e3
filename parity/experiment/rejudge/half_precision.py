"""Draws more rounding of half precision where a gradient jumps: few draws may all miss the point at which it does."""

from collections.abc import Callable, Sequence
from math import isfinite

from parity.experiment.rejudge.non_differentiable import CONTINUOUS
from parity.judge.levels.mixed import Halves, judge_mixed
from parity.trace import GRADIENTS, parse_key

# Rounding that carries one input of a ReLU past 0 with the chance p is missed by n draws, and met by the run that is judged,
# with the chance p (1 - p)^n: at most 0.08 for 4 draws, 0.01 for 32.
MOST_DRAWS = 32


def with_draws_where_gradients_jump(halves: Halves, more: Callable[[Halves, Sequence[int], int], Halves]) -> Halves:
    """Returns the runs with more draws of the steps in which gradients differ first, until none does or there are 32.

    Half precision moves what goes into a ReLU by so much that in many a step one of thousands passes 0, and its gradient
    appears or is gone. That is no fault of a port: another rounding would have done the same in its float32 run. What is
    computed forward has no such jumps: where that differs, no draw is made.

    Args:
      halves: what was recorded.
      more: takes the runs, the numbers of steps and how many draws to add; returns the runs with them.
    """
    while len(halves.draws) < MOST_DRAWS and (steps := _jumping(halves)):
        halves = more(halves, steps, len(halves.draws))
    return halves


def _jumping(halves: Halves) -> list[int]:
    different = [check for check in judge_mixed(halves) if check.verdict == "different"]
    quantities = [(check.step, parse_key(check.key).quantity, isfinite(check.difference)) for check in different]
    torn = {step for step, quantity, finite in quantities if quantity in CONTINUOUS or not finite}
    # What only the update makes differ, as an optimizer in half precision does, comes of no jump.
    return sorted({step for step, quantity, _ in quantities if quantity in GRADIENTS} - torn)
