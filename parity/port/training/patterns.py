"""Compares expressions with forms that are known: what a schedule or an optimizer of TensorFlow's looks like."""

from collections.abc import Iterator
from typing import NamedTuple

from parity.port.tower.ops import CONST, Tensor
from parity.port.tower.simplify import number_of

COMMUTATIVE = ("Add", "Mul", "Maximum", "Minimum")
SAME_KIND = {"AddV2": "Add", "AddN": "Add", "SelectV2": "Select"}
ROUNDING_OF_FLOAT64 = 1e-12  # of itself: numbers that a script computes in float64 from each other


class Number(NamedTuple):
    """A constant, kept under a name; the same one where the name stands twice."""

    name: str


class Anything(NamedTuple):
    """Any expression, kept under a name; the same one where the name stands twice."""

    name: str


# A form: a number that has to stand there, what is kept, or (kind, form, ...).
Form = float | Number | Anything | tuple[object, ...]
Kept = dict[str, "Tensor | float"]


def matches(tensor: Tensor, form: object, kept: Kept | None = None) -> Iterator[Kept]:
    """Yields what each way of reading an expression as a form keeps, by name.

    Args:
      tensor: the expression, folded.
      form: a `Form`.
      kept: what was kept elsewhere and has to be the same here.
    """
    kept = kept or {}
    if isinstance(form, float | int):
        number = number_of(tensor)
        if number is not None and close(number, form):
            yield kept
    elif isinstance(form, Number):
        number = number_of(tensor)
        before = kept.get(form.name)
        if number is not None and (before is None or (isinstance(before, float) and close(number, before))):
            yield {**kept, form.name: number}
    elif isinstance(form, Anything):
        if kept.get(form.name, tensor) == tensor:
            yield {**kept, form.name: tensor}
    elif isinstance(form, tuple) and _kind(tensor) == form[0] and tensor.kind != CONST:
        inputs = list(tensor.op.inputs)
        if len(inputs) != len(form) - 1:
            return
        yield from _of_inputs(inputs, form[1:], kept)
        if form[0] in COMMUTATIVE:
            yield from _of_inputs(inputs[::-1], form[1:], kept)


def _kind(tensor: Tensor) -> str:
    if tensor.kind == "Div":  # of whole numbers it leaves out the rest
        return "RealDiv" if tensor.dtype.startswith("float") else "FloorDiv"
    return SAME_KIND.get(tensor.kind, tensor.kind)


def _of_inputs(inputs: list[Tensor], forms: tuple[object, ...], kept: Kept) -> Iterator[Kept]:
    if not forms:
        yield kept
        return
    for found in matches(inputs[0], forms[0], kept):
        yield from _of_inputs(inputs[1:], forms[1:], found)


def close(one: float, other: float) -> bool:
    """Whether two numbers are the same but for rounding of float64."""
    return abs(one - other) <= ROUNDING_OF_FLOAT64 * max(abs(one), abs(other))
