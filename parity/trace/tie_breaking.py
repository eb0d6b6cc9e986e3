"""Breaks ties by moving weights and inputs a little, by the same on every side, and returns whether gradients jump by it."""

import zlib
from typing import Dict, Mapping

import numpy as np

from parity.trace.arrays import Array, Tensors
from parity.trace.keys import batch_name, input_of, quantity_of

# Far above what float64 rounds, 2^-53, so that the move breaks a tie the same way on both sides though their sums round
# otherwise; far below half an ulp of float32, 2^-24, so that a run in float32 is judged by the same step.
TIE_BREAK = 2.0**-30
FELT = frozenset(["loss", "tower_grad", "grad", "clip"])
# Between the steps from weights moved there and back, 2 * 2^-30 of a weight, a smooth function moves by 2^-29 of
# itself, times its condition: 2^-26 leaves a condition of 8. Where one gradient of a million jumps, the sum moves by
# 2^-20.
JUMP = 2.0**-26
# Of the norm of the largest of its quantity: a structurally zero gradient is nothing but rounding and jumps with every
# move. With this floor it has to move by 2^-36 of the largest, 2^17 unit roundoffs of float64.
FAINTEST_JUMP = 2.0**-10


def break_ties(tensors: Mapping[str, Array], seed: int, towards: float = 1.0) -> Tensors:
    """Returns the tensors with every element of each weight moved by a random part of 2^-30 of itself, in float64.

    Each element goes by an amount of its own: equal ones that all went the same way would tie as before. The amounts
    depend on the name and the seed alone, and are drawn by `numpy.random.RandomState`, whose numbers no version of numpy
    changes: so one side may move its weights today and another in ten years.

    Args:
      tensors: dict of trace name to array. All but weights stay as they are.
      seed: of the draw; a step's number.
      towards: 1.0, or -1.0 for the opposite direction.
    """
    return {name: _moved(name, value, seed, towards) for name, value in tensors.items()}


def break_ties_of_inputs(tensors: Mapping[str, Array], seed: int, towards: float = 1.0) -> Tensors:
    """Returns the tensors with every element of each weight and of each fed array moved as `break_ties` does, zeros too.

    A zero goes by a part of 2^-30 of the tensor's largest element: so inputs that are there twice no longer tie, nor what
    zeros are multiplied with. A tensor of nothing but zeros stays: its products are exactly zero on every side, whatever
    rounding does. What is fed to several towers under one name is moved alike: what they share stays shared.

    Args:
      tensors: dict of trace name, that of a feed with its tower or without, to array. All else stays as it is, and so do
        fed numbers.
      seed: of the draw; a step's number.
      towards: 1.0, or -1.0 for the opposite direction.
    """
    moved = {}
    for name, value in tensors.items():
        fed = input_of(name) if np.ndim(value) else None
        key = batch_name(fed) if fed else name
        wanted = (fed or quantity_of(name) == "var") and np.asarray(value).dtype.kind == "f"
        moved[name] = _moved_by_scale(key, value, seed, towards) if wanted else value
    return moved


def jumps(one: Mapping[str, Array], other: Mapping[str, Array]) -> bool:
    """Tells whether a step from weights moved there and one from weights moved back are farther apart than smooth ones.

    A tie is broken the one way and then the other, so that gradients jump.

    Args:
      one: dict of trace name to array of the step.
      other: the same of the step from weights moved the opposite way.
    """
    # Activations do not count: they are continuous where the gradient of a ReLU or a maximum is not. Weights follow.
    names = [name for name in one if quantity_of(name) in FELT and np.asarray(one[name]).dtype.kind == "f"]
    sizes = {name: float(np.linalg.norm(np.ravel(one[name]))) for name in names}
    largest: Dict[str, float] = {}
    for name in names:
        quantity = quantity_of(name)
        largest[quantity] = max(largest.get(quantity, 0.0), sizes[name])
    return any(
        np.shape(one[name]) != np.shape(other[name])
        or np.linalg.norm(np.ravel(one[name] - other[name]))
        > JUMP * max(sizes[name], FAINTEST_JUMP * largest[quantity_of(name)])
        for name in names
    )


def _moved(name: str, value: Array, seed: int, towards: float) -> Array:
    value = np.asarray(value)
    if quantity_of(name) != "var" or value.dtype.kind != "f":
        return value
    return np.asarray(value.astype(np.float64) * (1.0 + towards * TIE_BREAK * _amounts(name, value, seed)))


def _moved_by_scale(name: str, value: Array, seed: int, towards: float) -> Array:
    value = np.asarray(value).astype(np.float64)
    largest = np.max(np.abs(value)) if value.size else 0.0
    reach = np.where(value == 0.0, largest, value)
    return np.asarray(value + towards * TIE_BREAK * _amounts(name, value, seed) * reach)


def _amounts(name: str, value: Array, seed: int) -> Array:
    # crc32 and not hash(): Python salts the latter anew in each process. In [-1, 1), of the shape of the tensor.
    random = np.random.RandomState((zlib.crc32(name.encode("utf-8")) + seed) % 2**32)
    return np.asarray(2.0 * random.random_sample(value.shape) - 1.0)
