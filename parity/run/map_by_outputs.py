"""Tells by what their layers give in the forward pass which variables belong together, where gradients cannot.

Behind a bug no gradient is the other side's, and in front of it none is either, for gradients come from behind. The outputs
in front of it are.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from parity.judge.numbers import Array
from parity.locate.behind import readers
from parity.locate.reached import TOLERANCE, Pass, alike, reach
from parity.mapping import Draft, Variable
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


def most_reached(draft: Draft, passes: Callable[[Draft], tuple[Pass, Pass] | None]) -> Draft:
    """Returns the draft with the layouts of flattened maps under which the candidate gives most of what the reference does.

    A state in which no guess counts does not show them, and behind a bug no gradient does; the outputs between a layer and a
    bug do, from weights as they are.

    Args:
      draft: with guesses of layouts that no number has verified, or without.
      passes: makes the forward passes of both sides under an assignment; None where they cannot be had.
    """
    for layer, layouts in _open_layouts(draft).items():
        tried = [_in_layout(draft, layer, layout) for layout in layouts]
        counts = [_reached(passes(each)) for each in tried]
        if max(counts) > counts[0]:
            draft = tried[counts.index(max(counts))]
    return draft


def _reached(found: tuple[Pass, Pass] | None) -> int:
    """Of how many of the candidate's outputs the reference has the numbers; at once, for the next pass replaces this one."""
    return len(reach(*found).candidate) if found else 0


def _open_layouts(draft: Draft) -> dict[str, list[str]]:
    """By layer of the candidate the flattened layouts that are open, the one that is guessed first."""
    layers: dict[str, list[str]] = {}
    for guess in draft.guesses:
        if guess.of_layout and not guess.verified:
            found = [_layout(text) for text in (guess.text, *(text for _, text in guess.options))]
            layers.setdefault(guess.unit.label.rpartition(".")[0], []).extend(found)
    unique = {layer: list(dict.fromkeys(found)) for layer, found in layers.items()}
    return {layer: found for layer, found in unique.items() if len(found) > 1}


def _in_layout(draft: Draft, layer: str, layout: str) -> Draft:
    guesses = []
    for guess in draft.guesses:
        fits = [text for unit, text in guess.options if unit == guess.unit and _layout(text) == layout]
        own = guess.of_layout and guess.unit.label.rpartition(".")[0] == layer
        guesses.append(guess._replace(text=fits[0]) if own and fits and guess.text not in fits else guess)
    return draft._replace(guesses=tuple(guesses))


def _layout(text: str) -> str:
    return next((part for part in text.split(" | ") if "flatten_hwc" in part), "")


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
