"""Writes a learning rate that changes: by TensorFlow's schedules where it is one, else as a function of the step."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from parity.port.source.code import number
from parity.port.source.functions import Names
from parity.port.tower.fold import FOLDED
from parity.port.tower.ops import CONST, FEED, Op, Tensor, ops_of
from parity.port.training.patterns import Anything, Form, Kept, Number, close, matches
from parity.port.training.scalars import with_plain_numbers, written_statements
from parity.port.training.values import rewritten

STEP_ARGUMENT = "step"  # what the number of updates before this one is called
# More steps of a staircase than anybody writes by hand: a rate of more is a table, and written as one.
MOST_BOUNDARIES = 64
COMPARISONS_OF_STEPS = ("Less", "LessEqual", "Greater", "GreaterEqual", "Equal", "NotEqual")

_STEP, _RATE, _STEPS, _FACTOR = (
    Anything(STEP_ARGUMENT),
    Number("learning_rate"),
    Number("decay_steps"),
    Number("decay_rate"),
)
_PASSED = ("RealDiv", _STEP, _STEPS)
_BOUNDED = ("RealDiv", ("Minimum", _STEP, _STEPS), _STEPS)
_COSINE = ("Mul", 0.5, ("Add", 1.0, ("Cos", ("Mul", Number("pi"), _BOUNDED))))
# PolynomialDecay's cycle: one at step 0, where the quotient rounded up gives none.
_CYCLES = ("Mul", _STEPS, ("Select", ("Equal", _STEP, 0.0), 1.0, ("Ceil", _PASSED)))
_EXPONENTS: tuple[tuple[Form, bool | None], ...] = ((_PASSED, None), (("Floor", _PASSED), True))
_FRACTIONS: tuple[tuple[Form, bool | None], ...] = ((_BOUNDED, None), (("RealDiv", _STEP, _CYCLES), True))
_WARMING = ("Mul", _RATE, ("RealDiv", _STEP, Number("warm_up_steps")))
_IS_WARMING = ("Less", _STEP, Number("warm_up_steps"))
# BERT's: both branches, one of them times 0 and the other times 1.
_WARM_UP = (
    "Add",
    ("Mul", ("Sub", 1.0, ("Cast", _IS_WARMING)), Anything("after")),
    ("Mul", ("Cast", _IS_WARMING), _WARMING),
)


class Written(NamedTuple):
    """A schedule as source.

    Fields:
      expression: a function of the step, "" where it has a body instead.
      body: the statements of a function of `step`.
      unknown: types of ops that cannot be written.
    """

    expression: str
    body: list[str]
    unknown: list[str]


def written_schedule(rate: Tensor, names: Names) -> Written:
    """Returns a learning rate as a function of the step.

    Args:
      rate: folded, with the leaf `STEP_ARGUMENT` alone.
      names: where the script's own names come from.
    """
    raised = raised_schedule(rate)
    if raised:
        return Written(raised, [], [])
    (marked,) = with_plain_numbers([rate], lambda called: True)
    statements, (code,), unknown = written_statements([marked], {STEP_ARGUMENT: STEP_ARGUMENT}, names)
    # A power of floats is anything to a type checker: of a negative one it is complex.
    last = ["rate: float = " + code.text, "return rate"] if "**" in code.text else [f"return {code.text}"]
    return Written("", [*statements, *last], unknown)


def raised_schedule(rate: Tensor) -> str:
    """Returns the call of `like_tf` that makes the schedule, "" where it is none of those."""
    for found in _decays(rate):
        return found
    return _piecewise(rate)


def _decays(rate: Tensor) -> Iterator[str]:
    """Yields the calls that a rate can be read as."""
    for passed, staircase in _EXPONENTS:
        for kept in _of_step(rate, ("Mul", _RATE, ("Pow", Anything("base"), passed))):
            yield from _exponential(kept, staircase)
        for kept in _of_step(rate, ("RealDiv", _RATE, ("Add", 1.0, ("Mul", _FACTOR, passed)))):
            yield _call("inverse_time_decay", kept, "decay_steps", "decay_rate", staircase=staircase)
    for form in (_COSINE, ("Add", ("Mul", Number("rest"), _COSINE), Number("alpha"))):
        for kept in _of_step(rate, ("Mul", _RATE, form)):
            # float32 has 3.1415927 for pi, and what alpha leaves is a constant of its own.
            if abs(_float(kept, "pi") - math.pi) < 1e-6 and close(_float(kept, "rest", 1.0), 1 - _float(kept, "alpha")):
                yield _call("cosine_decay", kept, "decay_steps", *(["alpha"] if kept.get("alpha") else []))
    for passed, cycle in _FRACTIONS:
        power = ("Pow", ("Sub", 1.0, passed), Number("power"))
        for kept in _of_step(rate, ("Add", ("Mul", Number("range"), power), Number("end_learning_rate"))):
            # The graph holds the difference of both rates; the script wrote the first one.
            first = _short(_float(kept, "range") + _float(kept, "end_learning_rate"))
            named = ["decay_steps", "end_learning_rate", *(["power"] if kept["power"] != 1.0 else [])]
            yield _call("polynomial_decay", {**kept, "learning_rate": first}, *named, cycle=cycle)
    chosen = ("Select", _IS_WARMING, _WARMING, Anything("after"))
    for kept in [*_of_step(rate, _WARM_UP), *_of_step(rate, chosen)]:
        after = kept["after"]
        then = raised_schedule(after) if isinstance(after, Tensor) else ""
        constant = isinstance(after, Tensor) and after.is_number
        then = f"lambda step: {_number(float(after.value.flat[0]))}" if constant else then  # type: ignore[union-attr]
        if then:
            yield f"like_tf.linear_warm_up({_arguments(kept, 'learning_rate', 'warm_up_steps')}, schedule={then})"


def _exponential(kept: Kept, staircase: bool | None) -> Iterator[str]:
    base = kept["base"]
    if not isinstance(base, Tensor) or not base.is_number:
        return
    factor = float(base.value.flat[0])
    # natural_exp_decay is the same op with a base that the graph computes: exp(-decay_rate).
    # Twelve digits: the logarithm of a rounded exponential has the script's number in front, and noise behind.
    rate = _short(-math.log(factor)) if factor > 0 else 0.0
    natural = not base.op.attributes.get("written") and factor > 0 and close(math.exp(-rate), factor)
    kept = {**kept, "decay_rate": rate if natural else factor}
    name = "natural_exp_decay" if natural else "exponential_decay"
    yield _call(name, kept, "decay_steps", "decay_rate", staircase=staircase)


def _of_step(rate: Tensor, form: object) -> Iterator[Kept]:
    """Yields what a form keeps where what it takes for the step is the step."""
    for kept in matches(rate, form):
        step = kept[STEP_ARGUMENT]
        if isinstance(step, Tensor) and step.kind == FEED and step.op.name == STEP_ARGUMENT:
            yield kept


def _call(name: str, kept: Kept, *arguments: str, **flags: bool | None) -> str:
    set_flags = [f"{flag}={value}" for flag, value in flags.items() if value]
    return f"like_tf.{name}({', '.join([_arguments(kept, 'learning_rate', *arguments), *set_flags])})"


def _arguments(kept: Kept, first: str, *named: str) -> str:
    return ", ".join([_number(_float(kept, first)), *(f"{name}={_number(_float(kept, name))}" for name in named)])


def _float(kept: Kept, name: str, without: float = 0.0) -> float:
    found = kept.get(name, without)
    return found if isinstance(found, float) else without


def _number(value: float) -> str:
    return number(value).text


def _short(value: float) -> float:
    """A number without the last digits, which a sum or a logarithm of what was written has."""
    return float(f"{value:.12g}")


# A rate that is one number up to some step and another one behind it, however the script chooses.


def _piecewise(rate: Tensor) -> str:
    compared = _boundaries(rate)
    if not compared or len(compared) > MOST_BOUNDARIES:
        return ""
    # Invariant: between two neighbours of `places` no comparison changes, for steps are whole numbers.
    places = sorted({max(each + offset, 0) for each in compared for offset in (-1, 0, 1)} | {0})
    values = [_at(rate, place) for place in places]
    if any(each is None for each in values):
        return ""
    changes = [index for index in range(1, len(places)) if values[index] != values[index - 1]]
    if not changes:
        return ""
    # piecewise_constant takes the last step of a rate, as TensorFlow's own does: "x <= boundary".
    boundaries = [places[index] - 1 for index in changes]
    rates = [_number(float(each)) for each in [values[0], *(values[index] for index in changes)] if each is not None]
    return f"like_tf.piecewise_constant({boundaries}, [{', '.join(rates)}])"


def _boundaries(rate: Tensor) -> list[int]:
    """The whole numbers that the step is compared with; nothing where more is done with it."""
    found = []
    for op in ops_of([rate]):
        if not any(each.kind == FEED for each in op.inputs):
            continue
        others = [each for each in op.inputs if each.kind != FEED]
        if op.kind not in COMPARISONS_OF_STEPS or len(others) != 1 or not others[0].is_number:
            return []
        # Boundaries may be written as floats; steps are whole, so that what is behind the point decides nothing.
        found.append(math.floor(float(others[0].value.flat[0])))
    return found


def _at(rate: Tensor, step: int) -> float | None:
    """A rate at a step, None where an op is not known in numbers."""

    def compute(op: Op) -> Tensor | None:
        if op.kind == FEED:
            return _constant(op, np.float64(step))
        if op.kind in FOLDED and op.inputs and all(each.kind == CONST for each in op.inputs):
            return _constant(op, FOLDED[op.kind](op, [each.value for each in op.inputs]))
        return None

    (found,) = rewritten([rate], compute)
    return float(found.value.flat[0]) if found.is_number else None


def _constant(op: Op, value: object) -> Tensor:
    array = np.asarray(value)
    return Op(CONST, op.name, [], {"value": array}, [array.shape], [str(array.dtype)], op.place).output()


def step_plus(offset: int) -> Tensor:
    """Returns the step, or a counter that is so much ahead of it."""
    step = Op(FEED, STEP_ARGUMENT, [], {}, [()], ["int64"]).output()
    if not offset:
        return step
    return Op("AddV2", "counter", [step, _constant(step.op, np.float64(offset))], {}, [()], ["float32"]).output()
