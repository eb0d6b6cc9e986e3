"""Tells which outputs of a pass may be those of a recurrent layer: all of them, a direction's, or the last ones."""

from collections.abc import Iterator, Sequence

from parity.diagnose.agreement import CLOSE_OUTPUT
from parity.diagnose.layers.recurrent_cells import Outputs
from parity.judge.metrics import norm
from parity.trace.arrays import Array

# From which on two rules give other numbers, relative: four decades above what a right one may be off, so that a value
# never counts for both.
LEAST_DIFFERENCE_OF_RULES = 1e-6
# Of the first steps, to be worth the whole layer: more than any right rule is off, by four decades
CLOSE_FIRST_STEPS = 1e-6


def is_among(made: Array, values: Sequence[Array]) -> bool:
    """Returns whether one of some values is what was made, to the last digits."""
    return any(value.shape == made.shape and norm(value - made) <= CLOSE_OUTPUT * norm(made) for value in values)


def parts_of(values: Sequence[Array], shape: tuple[int, int, int]) -> tuple[list[Array], list[Array]]:
    """Returns what may be all outputs of a layer, and what may be the last ones.

    Args:
      values: outputs of a pass.
      shape: of all outputs, ``[example, step, units]``.
    """
    return [part for value in values for part in _whole(value, shape)], [
        value for value in values if value.shape == (shape[0], shape[2])
    ]


def _whole(value: Array, shape: tuple[int, int, int]) -> Iterator[Array]:
    """Yields a value of three axes as all outputs of a layer, in either layout, and halves of two directions."""
    units = shape[2]
    # One direction, or two side by side along the last axis.
    if value.ndim == 3 and value.shape[2] in (units, 2 * units):
        for begin in range(0, value.shape[2], units):
            part = value[..., begin : begin + units]
            # Steps first, as torch has them.
            yield from (each for each in (part, part.swapaxes(0, 1)) if each.shape == shape)


def begins_one(made: Array, parts: Sequence[Array]) -> bool:
    """Returns whether the first examples and steps of one of some outputs are worth the whole layer."""
    fitting = (part for part in parts if part.shape == made.shape)
    return any(norm(part - made) <= CLOSE_FIRST_STEPS * norm(made) for part in fitting)


def shows(made: Outputs, value: Array, unlike: Outputs | None = None) -> bool:
    """Returns whether a value is all of some outputs, in either layout, one half of two directions, or the last of them.

    Args:
      made: the outputs.
      value: what may be them.
      unlike: outputs of another rule, that the value must not be: what both rules give tells neither.
    """
    examples, steps, units = made.steps.shape
    if value.ndim == 3:
        # What both rules give tells neither: at some step they have to be apart.
        told = _differ(made.steps, unlike.steps if unlike is not None else None)
        parts = _whole(value, (examples, steps, units))
        return told and any(norm(part - made.steps) <= CLOSE_OUTPUT * norm(made.steps) for part in parts)
    if value.shape != (examples, units) or steps < 2:
        return False
    others = unlike.last if unlike is not None else [None] * len(made.last)
    return any(_is_last(each, value, other) for each, other in zip(made.last, others, strict=False))


def _is_last(last: Array, value: Array, unlike: Array | None) -> bool:
    if last.shape != value.shape:
        return False
    near = CLOSE_OUTPUT * norm(last)
    return bool(
        # One number first: most values are told by it, without a pass over all of them.
        abs(value[0, 0] - last[0, 0]) <= near and last.any() and _differ(last, unlike) and norm(value - last) <= near
    )


def _differ(made: Array, other: Array | None) -> bool:
    return other is None or norm(made - other) > LEAST_DIFFERENCE_OF_RULES * norm(other)
