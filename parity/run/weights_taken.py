"""Looks at what is made of weights alone in front of the ops at which two forward passes part."""

from collections.abc import Iterator, Mapping

from parity.causes.of_weights import OfAWeight, other_function
from parity.judge.metrics import Array
from parity.judge.result import Cause
from parity.locate import Location
from parity.locate.reached import Pass


def cause_of_weights(place: Location, variables: Mapping[str, Array]) -> Cause | None:
    """Returns what the port makes of a weight otherwise than the reference before an op takes it, None where it does not.

    Args:
      place: where the passes part.
      variables: dict of the reference's variable to its value before the step.
    """
    found = (other_function(each) for each in weights_taken(place, variables))
    return next((cause for cause in found if cause is not None), None)


def weights_taken(place: Location, variables: Mapping[str, Array]) -> Iterator[OfAWeight]:
    """Yields what the ops at which the passes part take that may be made of a weight, with each weight that it may be of.

    Args:
      place: where the passes part.
      variables: dict of the reference's variable to its value before the step.
    """
    own, other = place.parting.reference, place.parting.candidate
    if own is None or other is None:
        return
    ops = place.passes[0].ops[own], place.passes[1].ops[other]
    lines = " / ".join(op.line.shown for op in ops[::-1] if op.line is not None)
    read = {name: variables[name] for name in ops[0].weights if name in variables}
    for one in _of_no_data(place.passes[0], own):
        for two in _of_no_data(place.passes[1], other):
            for name, value in read.items():
                if one.size == two.size == value.size:
                    gains = [each for key, each in read.items() if key != name and each.ndim == 1]
                    yield OfAWeight(name, value, one, two, lines, gains)


def _of_no_data(passed: Pass, number: int) -> Iterator[Array]:
    """Yields what an op takes that is no op's output, where it reads weights."""
    op = passed.ops[number]
    for at, operand in enumerate(op.operands if op.weights else ()):
        value = passed.operand(number, at) if operand.op is None else None
        if value is not None and value.size > 1 and value.dtype.kind == "f":
            yield value
