"""Tells by what their layers give in the forward pass which variables belong together, where gradients cannot.

Behind a bug no gradient is the other side's, and in front of it none is either, for gradients come from behind. The outputs
in front of it are.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from parity.judge.numbers import Array
from parity.locate.behind import readers
from parity.locate.reached import TOLERANCE, Pass, alike
from parity.mapping import Variable
from parity.mapping.gradients import Gradients
from parity.mapping.units import Unit
from parity.trace import ForwardOp

LIKELY = 1e-4  # said of a pair whose outputs are equal and whose gradients are not: near, and yet not verified
# Outputs do not show a layout: of several that of the nearest gradient, which has to weigh more than which is usual.
OF_LAYOUT = 1e-3
FURTHER = 6  # ops behind the one that reads a variable that may belong to its layer: the rest of a norm, an activation


class Outputs(NamedTuple):
    """Measures pairs by gradients, and where these are not equal by whether the layers give the same.

    Fields:
      gradients: of both sides, from one state.
      reference, candidate: their forward passes from that state.
    """

    gradients: Gradients
    reference: Pass
    candidate: Pass

    def __call__(self, variable: Variable, unit: Unit, text: str, /) -> float | None:
        """Returns how far apart the two are, 0 equal to 1 unrelated; None where nothing is known."""
        apart = self.gradients(variable, unit, text)
        if apart is None or apart > LIKELY:
            given = [*_given(self.candidate, set(unit.names))]
            if any(_equal(one, other) for one in _given(self.reference, {variable.name}) for other in given):
                return LIKELY + OF_LAYOUT * min(apart or 0.0, 1.0)
        return apart


def _equal(one: Array, other: Array) -> bool:
    return one.size == other.size and alike(one, other, TOLERANCE)


def _given(passed: Pass, names: set[str]) -> Iterator[Array]:
    """Yields, sorted, what the ops give that read some weights, and what is computed of it alone."""
    for number in _of_layer(passed.ops, names):
        value = passed.value(number)
        if value is not None and value.size > 1 and np.isfinite(value).all() and np.ptp(value) > 0.0:
            yield np.sort(np.asarray(value, np.float64), axis=None)


def _of_layer(ops: Sequence[ForwardOp], names: set[str]) -> list[int]:
    after, found = readers(ops), [number for number, op in enumerate(ops) if names & set(op.weights)]
    for number in found:  # which grows
        if len(found) < FURTHER:
            found += [each for each in after[number] if each not in found and not ops[each].weights]
    return found
