"""Finds the one number by which something is off: a factor of an input, a shift, an addition to the forget gate's bias."""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from parity.diagnose.agreement import rounds_to_one
from parity.diagnose.catalogue import Description, describe
from parity.diagnose.edits.edit import is_mask
from parity.diagnose.fitting import is_written
from parity.diagnose.interventions.probes import Bench
from parity.diagnose.interventions.protocol import Change, Undone
from parity.judge.metrics import norm
from parity.judge.result import Cause
from parity.trace import batch_input, parse_key
from parity.trace.arrays import Array, Tensors

MOST_ROUNDS = 10
FIRST_STEP = 1e-3  # of the number that is turned: the first difference quotient is of this width
FEWEST_WANTED = 8  # numbers that have to become right: one number can always be met by turning another


class Knob(NamedTuple):
    """One thing that can be turned by a number x; at 0 it changes nothing.

    Fields:
      cause: in words, of the number that was found.
      what: the evidence of it.
      batch: what becomes of a whole batch at x.
      state: what becomes of the state at x.
      tells: whether a number is told from one that changes nothing by the digits it is named with.
      number: what the port would have in its source.
    """

    cause: Callable[[float], Description]
    what: Callable[[float], str]
    batch: Callable[[Tensors, float], Tensors] = lambda batch, x: batch
    state: Callable[[Tensors, float], Tensors] = lambda state, x: state
    tells: Callable[[float], bool] = lambda x: True
    number: Callable[[float], float] = lambda x: x

    @property
    def name(self) -> str:
        """Of the cause."""
        return self.cause(0.0).name


def knobs(bench: Bench) -> Iterator[Knob]:
    """Yields what may be off by a number in a case."""
    for text, value in bench.batch.items():
        # Nobody scales a mask: what seems so is a weight of what it takes.
        if value.dtype.kind == "f" and value.ndim > 1 and not is_mask(value):
            yield from _of_an_input(text, batch_input(text))
    biases = [text for text in bench.state if re.search("bias_hh", text) and not bench.state[text].size % 4]
    for text in biases:
        yield _of_the_forget_gate(text)


def solved(bench: Bench, knob: Knob) -> Cause | None:
    """Returns the cause where a number makes the first difference go away: found by Newton steps along the difference."""
    if bench.wanted.size < FEWEST_WANTED:
        return None
    x = _root(lambda x: _residual(bench, knob, x), bench.first.check.allowed)
    if x is None or not knob.tells(x):
        return None
    # A number that nobody would write, and that leaves the loss wrong, is what the first difference happens to come to: what
    # a learned weight does to the input may be a factor of it in one place.
    if not is_written(knob.number(x)) and not bench.losses_right_with(
        lambda batch: knob.batch(batch, x), lambda state: knob.state(state, x)
    ):
        return None
    change = Change(
        *knob.cause(x),
        knob.what(x),
        lambda batch: knob.batch(batch, x),
        lambda state: knob.state(state, x),
    )
    if bench.makes_wrong(change.batch, change.state):
        return None
    check = bench.first.check
    evidence = (
        f"{knob.what(x)}, the candidate gives the reference's {check.key} within what rounding allows, where it was "
        f"{check.multiple:.3g} times off"
    )
    return Undone.by(change, evidence, bench.explains(check.allowed, check.difference))


def _root(residual: Callable[[float], Array | None], allowed: float) -> float | None:
    # Gauss-Newton in one unknown: r(x) is what the candidate gives less what is wanted, slope = (r(x + h) - r(x)) / h,
    # and h' = -<slope, r> / <slope, slope> makes the linear r(x + h') smallest. `here` is always r(x), at the last x
    # that was accepted; steps of more than 2 are cut, as nothing that is scaled or shifted is off by more in one step.
    x, step = 0.0, FIRST_STEP
    here = residual(x)
    for _ in range(MOST_ROUNDS):
        there = residual(x + step)
        if here is None or there is None:
            return None
        if norm(there) <= allowed:
            return x + step
        slope = (there - here) / step
        steep = float(np.vdot(slope, slope))
        # What does not move with x is not off by it.
        if steep == 0.0 or not np.isfinite(steep):
            return None
        x, here = x + step, there
        step = float(np.clip(-float(np.vdot(slope, here)) / steep, -2.0, 2.0))
        # A step of rounding: no number makes it vanish.
        if abs(step) < 1e-15:
            return None
    return None


def _residual(bench: Bench, knob: Knob, x: float) -> Array | None:
    got = bench.candidate_with(lambda batch: knob.batch(batch, x), lambda state: knob.state(state, x))
    return None if got is None else np.asarray(got, np.float64) - bench.wanted


def _of_an_input(text: str, plain: str) -> Iterator[Knob]:
    def changed(batch: Tensors, change: Callable[[Array], Array]) -> Tensors:
        return {**batch, text: change(batch[text].astype(np.float64))}

    yield Knob(
        lambda x: describe("input_scale", "factor", input=plain, factor=1 / (1 + x)),
        lambda x: f"with {plain} times {1 + x:.9g}",
        batch=lambda batch, x: changed(batch, lambda value: value * (1 + x)),
        tells=lambda x: not rounds_to_one(1 / (1 + x)),
        number=lambda x: 1 + x,
    )
    yield Knob(
        lambda x: describe("input_shift", "mean", input=plain, shift=-x),
        lambda x: f"with {x:.9g} added to {plain}",
        batch=lambda batch, x: changed(batch, lambda value: value + x),
    )


def _of_the_forget_gate(text: str) -> Knob:
    def added(state: Tensors, x: float) -> Tensors:
        value = state[text].astype(np.float64)
        # torch's gates are i, f, g, o: the second quarter is the forget gate's.
        value[len(value) // 4 : len(value) // 2] += x
        return {**state, text: value}

    return Knob(
        lambda x: describe("forget_bias", "off", amount=-x),
        lambda x: f"with {x:.9g} added to the forget gate's part of {parse_key(text).name}",
        state=added,
    )
