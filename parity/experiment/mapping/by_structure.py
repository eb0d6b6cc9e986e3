"""Tells which variables stand in one place of two graphs, before anything is known of what they are taken for.

Two paths that read the same map look alike to numbers that are tied. What reads them further on, and what they are joined
with, tells which is which: the kernels around each, the kernels around those, and so on.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from parity.locate.downstream import readers
from parity.mapping import Draft, Variable
from parity.mapping.units import Unit
from parity.trace import ForwardOp

KERNELS_AWAY = 4  # how many kernels away is looked at: past a separable convolution and what joins two paths behind it


class Structure:
    """Says how far apart the places are in which a variable and a unit stand.

    Args:
      draft: what is sure, and what is guessed.
      reference, candidate: the ops of both sides' passes.
    """

    def __init__(self, draft: Draft, reference: Sequence[ForwardOp], candidate: Sequence[ForwardOp]) -> None:
        numbers: dict[object, int] = {}
        ours, theirs = _weights(draft)
        self._reference, self._candidate = _labels(reference, ours, numbers), _labels(candidate, theirs, numbers)

    def __call__(self, variable: Variable, unit: Unit, /) -> float:
        """Returns 0 where all around is alike as far as is looked, to 1 where not even the weights are; 0 unknown."""
        one = self._reference.get(variable.name)
        other = next((self._candidate[name] for name in unit.names if name in self._candidate), None)
        if one is None or other is None:
            return 0.0
        return sum(mine != theirs for mine, theirs in zip(one, other, strict=True)) / len(one)


class _Weights(NamedTuple):
    """The weights of one side.

    Fields:
      like: by name what each is like by itself: its number of elements; of a pair that is sure, the pair.
      kernels: names of those with more than one axis, which vectors lie between.
    """

    like: dict[str, object]
    kernels: set[str]


class _Around(NamedTuple):
    """The kernels next to a weight.

    Fields:
      before, behind: those that are read next in front of it, and next behind it.
      siblings: those of what is first computed together with it, as a sum of two paths.
    """

    before: set[str]
    behind: set[str]
    siblings: set[str]


def _weights(draft: Draft) -> tuple[_Weights, _Weights]:
    parts = {part.name: part for guess in draft.guesses for unit, _ in guess.options for part in unit.parts}
    ours, theirs = (
        _Weights({each.name: math.prod(each.shape) for each in side}, {each.name for each in side if _is_kernel(each)})
        for side in (draft.reference, parts.values())
    )
    for name, pair in draft.sure.items():
        ours.like[name] = name
        theirs.like.update(dict.fromkeys(pair.candidate, name))
        if name in ours.kernels:
            theirs.kernels.update(pair.candidate)
    return ours, theirs


def _is_kernel(variable: Variable) -> bool:
    return sum(size != 1 for size in variable.shape) > 1


def _labels(ops: Sequence[ForwardOp], weights: _Weights, numbers: dict[object, int]) -> dict[str, list[int]]:
    """By weight a number for each round, which two weights share where all within so many kernels of them is alike."""
    around = _around(ops, weights.kernels)
    current = {name: numbers.setdefault(weights.like.get(name, 0), len(numbers)) for name in around}
    labels = {name: [label] for name, label in current.items()}
    for _ in range(KERNELS_AWAY):
        current = {
            name: numbers.setdefault(
                (current[name], *(tuple(sorted(current[each] for each in those)) for those in near)), len(numbers)
            )
            for name, near in around.items()
        }
        for name, label in current.items():
            labels[name].append(label)
    return labels


def _around(ops: Sequence[ForwardOp], kernels: set[str]) -> dict[str, _Around]:
    """By weight what is next to it, wherever it is read: but for single numbers, as are losses and terms of decay."""
    after = readers(ops)
    own = [{*op.weights} & kernels if math.prod(op.shape) > 1 else set() for op in ops]
    before, behind = nearest(own, ops)
    found: dict[str, _Around] = {}
    for number, op in enumerate(ops):
        if math.prod(op.shape) < 2:
            continue
        for name in op.weights:
            near = found.setdefault(name, _Around(set(), set(), set()))
            near.before.update(before[number])
            near.behind.update(behind[number])
            near.siblings.update(_siblings(number, own, before, after) | own[number] - {name})
    return found


def nearest(own: Sequence[set[str]], ops: Sequence[ForwardOp]) -> tuple[list[set[str]], list[set[str]]]:
    """Returns by op the weights that are read next in front of it, and next behind it, through what reads none.

    Args:
      own: by op the weights that it reads, of those that count.
      ops: of a pass, in an order of execution.
    """
    last = len(ops) - 1
    after = [[last - each for each in found] for found in reversed(readers(ops))]
    behind = _nearest_before(own[::-1], after)
    return _nearest_before(own, [op.inputs for op in ops]), behind[::-1]


def _nearest_before(own: Sequence[set[str]], inputs: Sequence[Sequence[int]]) -> list[set[str]]:
    found: list[set[str]] = []
    for taken in inputs:  # what comes before has been visited
        found.append(set().union(*(own[each] or found[each] for each in taken)))
    return found


def _siblings(
    number: int, own: Sequence[set[str]], before: Sequence[set[str]], after: Sequence[Sequence[int]]
) -> set[str]:
    """The kernels of what an op's output is first computed together with."""
    known = own[number] or before[number]
    found: set[str] = set()
    pending, seen = [*after[number]], {number}
    while pending:
        each = pending.pop()
        if each in seen or own[each]:
            continue
        seen.add(each)
        others = before[each] - known
        found |= others
        if not others:
            pending += after[each]
    return found
