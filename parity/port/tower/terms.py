"""Splits a loss into the terms of its sum, finds weight decay among it, and compares towers by it."""

from collections.abc import Sequence
from typing import Any

from parity.port.tower.ops import CONST, FEED, LOOP_MEMBERS, OPEN, SETTING, VARIABLE, Op, Tensor
from parity.port.tower.simplify import number_of

DECAY = "WeightDecay"
Factor = float | Tensor


def terms_of(loss: Tensor) -> list[Tensor]:
    """Returns the numbers that a loss is the sum of."""
    # Of single numbers alone: a sum of losses for each example is one term, whose mean comes behind it.
    if loss.kind in ("Add", "AddV2", "AddN") and all(each.shape == () for each in loss.op.inputs):
        return [term for each in loss.op.inputs for term in terms_of(each)]
    return [loss]


def with_decay(terms: Sequence[Tensor]) -> list[Tensor]:
    """Returns the terms with those that are half a weight's squared norm, times the same number, joined.

    A number that is computed, as one that depends on the epoch, is what the joined term takes first.
    """
    found: list[Tensor] = []
    groups: dict[Factor, list[tuple[Tensor, Op]]] = {}
    for term in terms:
        decays = _decays(term)
        if decays is None:
            found.append(term)
        for factor, weight in decays or ():
            groups.setdefault(factor, []).append((weight, term.op))
    for factor, group in groups.items():
        last = max((op for _, op in group), key=lambda op: op.place)
        taken = [factor] if isinstance(factor, Tensor) else []
        taken += [weight for weight, _ in group]
        known = {"factor": None if isinstance(factor, Tensor) else factor}
        found.append(Op(DECAY, last.name, taken, known, [()], last.dtypes, last.place).output())
    return found


def _decays(term: Tensor) -> list[tuple[Factor, Tensor]] | None:
    """The weights whose squared norms a term is the sum of, each with its factor; None of anything else."""
    if term.kind == "L2Loss":
        return [(1.0, term.op.inputs[0])] if term.op.inputs[0].kind == VARIABLE else None
    if term.kind == "Mul":
        for summed, factor in (term.op.inputs, term.op.inputs[::-1]):
            number, inside = number_of(factor), _decays(summed)
            if inside is None or (number is None and factor.shape != ()):
                continue
            if number is None and all(own == 1 for own, _ in inside):
                return [(factor, weight) for _, weight in inside]
            numbers = [(own, weight) for own, weight in inside if not isinstance(own, Tensor)]
            if number is not None and len(numbers) == len(inside):
                # As written: 2 * 0.5 * 0.001 is no number of the script's, but products of one factor are.
                return [(number if own == 1 else number * own, weight) for own, weight in numbers]
    if term.kind in ("Add", "AddV2", "AddN"):
        parts = [_decays(each) for each in term.op.inputs]
        if all(each is not None for each in parts):
            return [pair for each in parts for pair in each or ()]
    return None


def in_first_only(first: Sequence[Tensor], second: Sequence[Tensor]) -> list[Tensor] | None:
    """Returns the terms of the first tower that the second lacks; None where the towers differ otherwise."""
    known: dict[Any, int] = {}
    ids: dict[Any, int] = {}
    for each in second:
        key = key_of(each, ids)
        known[key] = known.get(key, 0) + 1
    only = []
    for each in first:
        key = key_of(each, ids)
        if known.get(key, 0):
            known[key] -= 1
        else:
            only.append(each)
    return None if any(known.values()) else only


def key_of(tensor: Tensor, ids: dict[Any, int]) -> tuple[int, int]:
    """Returns a key that two tensors share exactly if the same is computed of the same feeds and variables.

    Args:
      tensor: of whatever tower.
      ids: numbers of what was seen before; grows.
    """
    done: dict[Op, int] = {}
    pending = [tensor.op]
    while pending:
        op = pending[-1]
        missing = [each.op for each in op.inputs if each.op not in done]
        if op not in done and missing:
            pending += missing
            continue
        pending.pop()
        inputs = tuple((done[each.op], each.number) for each in op.inputs)
        done[op] = ids.setdefault((_own(op), inputs), len(ids))
    return done[tensor.op], tensor.number


def _own(op: Op) -> tuple[Any, ...]:
    if op.kind in (FEED, SETTING, VARIABLE):
        return op.kind, op.name
    if op.kind == CONST:
        return op.kind, tensor_bytes(op)
    return op.kind, repr(sorted((name, repr(value)) for name, value in op.attributes.items() if name not in TOWERS_OWN))


TOWERS_OWN = (
    "draw",
    "mean",
    "variance",
    "mean_biased",
    "mean_step",
    "variance_biased",
    "variance_step",
    "decay",
    "borrowed",
    "batch",
    "seed",
    "seed2",
    "_class",
    "frame_name",
    "tensor_array_name",
    "shared_name",
    "container",
    LOOP_MEMBERS,
    OPEN,
)  # attributes that name a tower, or say what only one of them does


def tensor_bytes(op: Op) -> tuple[Any, ...]:
    """Returns shape, dtype and bytes of a constant."""
    value = op.output().value
    return value.shape, str(value.dtype), value.tobytes()
