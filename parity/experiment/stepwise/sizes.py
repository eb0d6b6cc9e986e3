"""Predicts what the runs of a case take on disk, from the number of its weights."""

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from parity.case import Case
from parity.experiment.runs import PERTURBED_RUNS, REPEATED, REPLICAS, drawn_steps
from parity.trace import parse_key, quantity_of


class BudgetError(ValueError):
    """A case does not fit into the bytes that it may take on disk."""


class Budget(NamedTuple):
    """What the runs of a case may take on disk.

    Fields:
      most: bytes up to which all runs are kept; beyond them steps are judged one by one.
      strict: whether that may not take more either: then traces are not left, and fewer steps are made.
    """

    most: int
    strict: bool = False


class Fit(NamedTuple):
    """How much of a case fits into its budget, step by step.

    Fields:
      steps: number of steps.
      keep: whether the reference's float32 run is left in the end.
      note: what the report says of what was left out; "" where that is nothing.
    """

    steps: int
    keep: bool
    note: str = ""


class Sizes(NamedTuple):
    """Numbers of elements.

    Fields:
      weights: of what is trained.
      state: of weights, statistics, slots and averages together.
      step: of what a step leaves in lockstep: that, and every tower's and the combined gradients. What depends on the batch,
        activations and feeds, is not counted.
    """

    weights: int
    state: int
    step: int

    @property
    def free_step(self) -> int:
        """Elements of what a step leaves in a free run: the combined gradients and the state."""
        return self.state + self.weights


def sizes_of(variables: Mapping[str, Mapping[str, Any]], slots: Iterable[str], case: Case) -> Sizes:
    """Returns how large a case is.

    Args:
      variables: of the reference, name to description.
      slots: trace names of what its optimizers keep.
      case: says how many towers there are, and whether averages are kept.
    """
    elements = {name: math.prod(entry["shape"]) for name, entry in variables.items()}
    weights = sum(elements[name] for name, entry in variables.items() if entry["kind"] == "weight")
    kept = sum(elements.get(parse_key(text).name, 0) for text in slots if quantity_of(text) == "slot")
    averages = weights if case.optimizer is not None and case.optimizer.ema is not None else 0
    state = sum(elements.values()) + kept + averages
    clipped = weights if case.optimizer is not None and case.optimizer.clip is not None else 0
    return Sizes(weights, state, state + weights * (case.towers * case.micro_batches + 1) + clipped)


def all_runs(sizes: Sizes, steps: int, float32: bool) -> int:
    """Returns the bytes that all runs of levels 1 and 2 take where every one of them is kept.

    Args:
      sizes: of the case.
      steps: their number.
      float32: whether level 2 is asked for.
    """
    again, drawn = min(REPEATED, steps), len(drawn_steps(range(steps)))
    single = 2 * (steps + again) * sizes.step + 4 * sizes.state  # each side's run and its repetition
    double = 2 * (steps * sizes.step + sizes.state) + (2 + REPLICAS) * (steps * sizes.free_step + sizes.state)
    states = 2 * (steps + 2) * sizes.state  # of both sides, and what they start from
    draws = 4 * PERTURBED_RUNS * (drawn * sizes.step + sizes.state) if float32 else 0
    return 4 * (single + states + draws) + 8 * double


def step_by_step(sizes: Sizes, steps: int, keep: bool) -> int:
    """Returns the most bytes that there are at a time where steps are judged one by one.

    Args:
      sizes: of the case.
      steps: their number.
      keep: whether the reference's float32 run is left in the end.
    """
    # A step of each side in each precision, the state before it, and what the reference starts from.
    lockstep = 24 * sizes.step + 4 * (sizes.weights + 2 * sizes.state)
    free = 8 * (steps * sizes.free_step + sizes.state + sizes.free_step) + 8 * sizes.state
    # The reference's float32 step or, where they are left, all of them; the candidate's; states, starts, copies for a draw.
    spread = 4 * (sizes.step * (steps if keep else 1) + sizes.step + 5 * sizes.state + 2 * sizes.weights)
    return max(lockstep, free, spread)


def fit(sizes: Sizes, steps: int, keep: bool, budget: Budget) -> Fit:
    """Returns how much of a case that goes step by step fits into its budget.

    Args:
      sizes: of the case.
      steps: that it asks for.
      keep: whether it asks for the reference's float32 run to be left.
      budget: of the case.

    Raises:
      BudgetError: a single step does not fit.
    """
    whole = step_by_step(sizes, steps, keep)
    if not budget.strict or whole <= budget.most:
        return Fit(steps, keep)
    needs = f"for it would take {whole / 1e9:.3g} GB on disk (--budget {budget.most / 1e9:g}GB)"
    if step_by_step(sizes, steps, keep=False) <= budget.most:
        return Fit(steps, False, f"the reference's float32 run was not left, {needs}")
    # What grows with the steps is the reference's free run.
    fitting = [count for count in range(1, steps) if step_by_step(sizes, count, keep=False) <= budget.most]
    if not fitting:
        least = step_by_step(sizes, 1, keep=False)
        raise BudgetError(
            f"--budget: expected at least {least / 1e9:.3g} GB for a step of {sizes.weights:,} weights, got "
            f"{budget.most / 1e9:.3g} GB. Give more."
        )
    kept = " and its float32 run was not left" if keep else ""
    return Fit(fitting[-1], False, f"{fitting[-1]} of {steps} steps were run{kept}, {needs}")
