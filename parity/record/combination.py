"""Infers from numbers how the gradients of the ranks were combined, and whether they were clipped before or after that."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from parity.trace import ROW_INDICES, ROW_VALUES, parse_key, select
from parity.trace.arrays import Array, Tensors, dense_rows
from parity.trace.keys import GRADIENTS

# Sum and mean of two towers are a factor of two from each other; float16 rounds each gradient by 2^-11, half of this limit.
SAME_COMBINATION = 1e-3
# bfloat16 rounds by 2^-9 at most, and a mean of a few values that are rounded by less than twice that.
ROUNDED_COMBINATION = 1e-2
ONE_FACTOR = 1e-6  # as far as float32's rounding leaves two gradients from one multiple of each other
IN_HALF_PRECISION = 1e-5  # float32 adds up some ranks to 1e-7, float16 rounds by 3e-4 on average


class Combination(NamedTuple):
    """How the ranks' gradients became what an optimizer was given.

    Fields:
      kind: "mean", "sum", "none" (each rank keeps its own), "one rank's", "other" or "unknown".
      of: dict of variable to its kind.
      clipped_first: whether each rank clipped its own before they were combined.
      weights: of "other", what each rank's gradient was multiplied by before all were added up, one number for all of its
        variables; () where no such numbers give what was combined.
      rounded: the largest distance of a mean or sum from that of the ranks' gradients, relative to its norm, where that is
        more than float32's.
    """

    kind: str
    of: dict[str, str]
    clipped_first: bool
    weights: tuple[float, ...] = ()
    rounded: float = 0.0


def combination_of(ranks: Sequence[Mapping[str, Any]]) -> Combination:
    """Infers the combination of one section in one step.

    Args:
      ranks: of each rank a dict of trace name without section to array.
    """
    dense = _dense(ranks)
    clipped_first = _clipped_before_combining(dense)
    of, rounded = {}, 0.0
    # Each variable by itself: a parameter outside of the wrapper is not shared while all others are.
    for name in sorted(_variables(dense[0], "grad")):
        kind, distance = _kind(_parts(dense, name, clipped_first), _gradient(dense, name, clipped_first))
        if kind:
            of[name] = kind
            rounded = max(rounded, distance if distance > IN_HALF_PRECISION else 0.0)
    kinds = set(of.values())
    kind = "unknown" if not kinds else kinds.pop() if len(kinds) == 1 else "other"
    other = [name for name, each in of.items() if each == "other"]
    return Combination(kind, of, clipped_first, _weights(dense, other, clipped_first) if other else (), rounded)


def _weights(ranks: Sequence[Tensors], names: Sequence[str], clipped_first: bool) -> tuple[float, ...]:
    """What each rank's gradients were multiplied by, where one number for each rank gives those that were combined."""
    # [ranks, numbers in all variables], float64, and [numbers in all variables].
    parts = [_parts(ranks, name, clipped_first) for name in names]
    local = np.stack([np.concatenate([np.ravel(each[rank]) for each in parts]) for rank in range(len(ranks))])  # type: ignore[arg-type]
    combined = np.concatenate([np.ravel(_gradient(ranks, name, clipped_first)[0]) for name in names])  # type: ignore[arg-type]
    # Of variables that are "other" every rank has a gradient of one shape, or `_kind` would have said nothing of them.
    # As many unknowns as ranks: the numbers that are left over decide whether the weights that are fitted mean
    # anything.
    weights = np.linalg.lstsq(local.T, combined, rcond=None)[0]
    return tuple(float(each) for each in weights) if _near(weights @ local, combined) else ()


def settle_clipping(tensors: Tensors, clipped_first: bool, same_before: bool = True) -> Tensors:
    """Returns a step of one section with its clipped gradients under the names that say when they were clipped.

    A rank records what it clipped as its own, what it had before as `grad`, and what its optimizer was given as `clip`.

    Args:
      tensors: of one section, all ranks.
      clipped_first: whether each rank clipped its own gradients before they were combined.
      same_before: whether the ranks had one gradient before clipping, or still had their own behind it.
    """
    if not clipped_first:
        given = select(tensors, "clip")
        if given and not same_before:
            # It was not clipped: the ranks' gradients became one only after they were looked at, and dense it may be.
            changed = {parse_key(text).variable for text in given}
            before = {text for text in select(tensors, "grad") if parse_key(text).variable in changed}
            tensors = {text: value for text, value in tensors.items() if text not in {*given, *before}}
            tensors = {**tensors, **{_of(text, "grad"): value for text, value in given.items()}}
        return {text: value for text, value in tensors.items() if text not in select(tensors, "tower_clip")}
    kept = {text: value for text, value in tensors.items() if text not in {*select(tensors, "grad", "clip")}}
    return {**kept, **{_of(text, "grad"): value for text, value in select(tensors, "clip").items()}}


def given_as_clipped(tensors: Tensors) -> Tensors:
    """Returns a step's tensors with what the optimizer was given as clipped gradients, where clipping has left no others."""
    given = {_of(text, "clip"): value for text, value in select(tensors, "grad").items()}
    return {**given, **tensors}


def same_before_clipping(ranks: Sequence[Mapping[str, Any]]) -> bool:
    """Whether what the ranks had before it was changed is as equal among them as what their optimizers were given."""
    before, given = ([select(each, quantity) for each in ranks] for quantity in ("grad", "clip"))
    return _equal(before) or not _equal(given)


def scaled_behind(tensors: Tensors, passes: int) -> float:
    """Returns the number by which a program multiplies all gradients behind their combination; 0.0 where it clips them.

    Clipping by a norm multiplies by one number too: one that is at most 1, and that no count of the program's gives.

    Args:
      tensors: of one section, all ranks.
      passes: number of backward passes of a step.
    """
    texts = [text for text in select(tensors, "clip") if not text.endswith(ROW_INDICES)]
    before, given = (
        [np.asarray(tensors[name], np.float64).ravel() for name in names]
        for names in ([_of(text, "grad") for text in texts], texts)
    )
    if not texts or any(one.shape != other.shape for one, other in zip(before, given, strict=True)):
        return 0.0
    one, other = np.concatenate(before), np.concatenate(given)
    square = float(one @ one)
    factor = float(one @ other) / square if square else 0.0
    # Not finite, or not one number for all: neither is below the limit.
    if not float(np.linalg.norm(other - factor * one)) <= ONE_FACTOR * abs(factor) * float(np.sqrt(square)):
        return 0.0
    ranks = len({parse_key(text).tower.partition(".")[0] for text in select(tensors, "tower_grad")})
    counted = any(abs(factor * count - 1) <= ONE_FACTOR for count in (1, passes, ranks, passes * ranks))
    return factor if counted or factor > 1 else 0.0


def _equal(ranks: Sequence[Mapping[str, Any]]) -> bool:
    return all(
        set(each) == set(ranks[0]) and all(np.array_equal(value, ranks[0][text]) for text, value in each.items())
        for each in ranks[1:]
    )


def _of(text: str, quantity: str) -> str:
    return str(parse_key(text).of(quantity))


def _clipped_before_combining(ranks: Sequence[Tensors]) -> bool:
    """Whether what each rank clipped was its own gradient still, and others were given to the optimizers."""
    if len(ranks) < 2 or not all(select(each, "tower_clip") for each in ranks):
        return False
    # Both are needed. A rank that clips its own gradient and shares nothing is given just what it clipped: not moved.
    # One that clips what is combined already has clipped none of its own.
    own, moved = True, False
    for name in _variables(ranks[0], "grad"):
        local = [_local(each, name) for each in ranks]
        before = [_array(each, "grad", name) for each in ranks]
        given = [_array(each, "clip", name) for each in ranks]
        for mine, clipped in zip(local, before, strict=True):
            own = own and mine is not None and clipped is not None and _near(clipped, mine)
        moved = moved or any(
            one is None or other is None or not _near(one, other)
            for one, other in zip(given, _clipped(ranks, name), strict=True)
        )
    return own and moved


def _clipped(ranks: Sequence[Tensors], name: str) -> "list[Array | None]":
    return [_array(each, "tower_clip", name) for each in ranks]


def _parts(ranks: Sequence[Tensors], name: str, clipped_first: bool) -> "list[Array | None]":
    return _clipped(ranks, name) if clipped_first else [_local(each, name) for each in ranks]


def _gradient(ranks: Sequence[Tensors], name: str, clipped_first: bool) -> "list[Array | None]":
    late = clipped_first or not same_before_clipping(ranks)
    return [_array(each, "clip" if late and select(each, "clip") else "grad", name) for each in ranks]


def _kind(local: "list[Array | None]", combined: "list[Array | None]") -> tuple[str, float]:
    """The kind, and how far the gradient is from what that kind gives, relative to its norm."""
    first = combined[0]
    if len(local) < 2 or first is None or any(each is None or each.shape != first.shape for each in local):
        return "", 0.0
    parts = [np.asarray(each, np.float64) for each in local]
    total = np.sum(parts, axis=0)
    # A step that a loss scale skips, and gradients of zero, fit every kind.
    if not np.isfinite(total).all() or not np.any(total):
        return "", 0.0
    # Ranks that see the same data have one gradient: then mean and nothing are the same.
    alone = all(_near(each, parts[0]) for each in parts[1:])
    for kind, factor in (() if alone else (("mean", 1 / len(parts)),)) + (("sum", 1.0),):
        distance = _distance(first, factor * total)
        if distance is not None:
            return kind, distance
    if alone:
        return "", 0.0
    # Only here all ranks' are looked at: mean and sum are known by the first, and whether the others have them too is a
    # matter of the weights (`weights_differ`).
    if all(other is not None and _near(other, own) for own, other in zip(parts, combined, strict=True)):
        return "none", 0.0
    return ("one rank's" if any(_near(first, each) for each in parts) else "other"), 0.0


def _distance(combined: Array, expected: Array) -> float | None:
    """How far one is from the other, relative to its norm; None where that is more than rounding."""
    square = float(np.sum(expected * expected))
    # The least squares factor between the two; `combined - factor * expected` is orthogonal to `expected`.
    factor = float(np.sum(expected * combined)) / square
    # What is left when the common factor is taken out is noise, as rounding is; a wrong factor leaves none.
    noise = float(np.linalg.norm(combined - factor * expected)) / np.sqrt(square)
    # Else a factor may be as far from 1 as the noise that comes with it: what was rounded and then scaled is not half
    # any more.
    most = ROUNDED_COMBINATION if _is_half(combined) else max(noise, SAME_COMBINATION)
    if abs(factor - 1) > most or noise > ROUNDED_COMBINATION:
        return None
    return float(np.linalg.norm(combined - expected)) / float(np.sqrt(square))


def _is_half(values: Array) -> bool:
    """Whether every number is one that float16 or bfloat16 has, but for its exponent: 10 and 7 of float32's 23 bits."""
    return not np.any(np.ascontiguousarray(values, np.float32).view(np.uint32) & np.uint32((1 << 13) - 1))


def _near(one: Array, other: Array) -> bool:
    # To a vanishing gradient nothing but zeros is near: it has no size to compare with.
    scale = float(np.linalg.norm(other))
    return one.shape == other.shape and float(np.linalg.norm(one - other)) <= SAME_COMBINATION * scale


def _local(tensors: Tensors, name: str) -> Array | None:
    """A rank's own gradient of a variable, its micro-batches added up."""
    found = _all_of(tensors, "tower_grad", name)
    return np.sum(found, axis=0) if found else None


def _array(tensors: Tensors, quantity: str, name: str) -> Array | None:
    return next(iter(_all_of(tensors, quantity, name)), None)


def _all_of(tensors: Tensors, quantity: str, name: str) -> list[Array]:
    return [value for text, value in select(tensors, quantity).items() if parse_key(text).name == name]


def _dense(ranks: Sequence[Mapping[str, Any]]) -> list[Tensors]:
    """Returns the gradients of all ranks in float64, of sparse ones the sums of their rows in the order of indices.

    Of a variable that has rows on one rank, all ranks' gradients have as many rows.
    """
    found = [{text: each[text] for text in select(each, *GRADIENTS)} for each in ranks]
    rows: dict[str, int] = {}
    for each in found:
        for text, value in each.items():
            key = parse_key(text)
            # Of indices the largest, and of what is dense all: as many rows as nobody needs would cost memory.
            if key.name.endswith(ROW_INDICES):
                rows[key.variable] = max(rows.get(key.variable, 0), int(np.max(value, initial=-1)) + 1)
            elif not key.name.endswith(ROW_VALUES) and np.ndim(value):
                rows[key.name] = max(rows.get(key.name, 0), len(value))
    return [_without_rows(each, rows) for each in found]


def _without_rows(tensors: Mapping[str, Any], rows: Mapping[str, int]) -> Tensors:
    found: Tensors = {}
    for text, value in tensors.items():
        key = parse_key(text)
        if key.name.endswith(ROW_INDICES):
            continue
        wide = np.asarray(value, np.float64)
        if key.name.endswith(ROW_VALUES):
            indices = np.asarray(tensors[text.removesuffix(ROW_VALUES) + ROW_INDICES])
            shape = (rows[key.variable], *wide.shape[1:])
            found[str(key._replace(name=key.variable))] = dense_rows(wide, indices, shape)
        else:
            found[text] = wide
    return found


def _variables(tensors: Tensors, quantity: str) -> set[str]:
    return {parse_key(text).name for text in select(tensors, quantity)}
