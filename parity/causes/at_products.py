"""Computes a product with a matrix again: what goes into it flattened in another order, the matrix transposed or turned."""

from collections.abc import Iterator
from itertools import permutations
from typing import NamedTuple

from parity.causes.evidence import reproduces, same_values
from parity.judge.metrics import Array
from parity.judge.result import Cause

AXES = {3: ("steps", "units"), 4: ("rows", "columns", "channels")}


class Product(NamedTuple):
    """A product with a matrix whose output differs, though what goes in and the matrix do not.

    Fields:
      name: of its layer.
      given: ``[n, ...]``, what goes in before it is flattened.
      matrix: ``[d, out]``.
      reference, candidate: ``[..., out]``, what comes out, with or without a bias.
    """

    name: str
    given: Array
    matrix: Array
    reference: Array
    candidate: Array


def other_product(product: Product) -> Cause | None:
    """Returns the cause where the product taken otherwise gives the candidate's output, or None."""
    wide = product.matrix.shape[1]
    if (
        product.matrix.ndim != 2
        or product.reference.shape[-1:] != (wide,)
        or product.given.size % product.matrix.shape[0]
    ):
        return None
    wanted, got = (each.reshape(-1, wide) for each in (product.reference, product.candidate))
    own = product.given.reshape(-1, product.matrix.shape[0])
    if len(own) != len(wanted):
        return None
    bias = (wanted - own @ product.matrix).mean(axis=0)
    if not same_values(wanted, own @ product.matrix + bias):
        return None
    for name, words, made, fix in _ways(product, own):
        if reproduces(made + bias, wanted, got):
            text = "computed so from what goes in, which is the same on both sides, it gives the candidate's output"
            return Cause(name, f"{product.name} {words} in the candidate", text, fix)
    return None


def _ways(product: Product, own: Array) -> Iterator[tuple[str, str, Array, str]]:
    given, matrix = product.given, product.matrix
    names = AXES.get(given.ndim, ())
    if names and given[0].size == len(matrix):
        for order in list(permutations(range(len(names))))[1:]:
            flat = given.transpose(0, *(1 + axis for axis in order)).reshape(own.shape)
            there, here = (", ".join(each) for each in ([names[axis] for axis in order], names))
            words = f"takes what goes in flattened as {there} in place of {here}"
            yield (
                "flatten_order",
                words,
                flat @ matrix,
                "flatten in the graph's order, or say it in the mapping's transform",
            )
    yield "reversed_input", "takes what goes in backwards", own[:, ::-1] @ matrix, "leave out the flip"
    if matrix.shape[0] == matrix.shape[1]:
        yield (
            "transposed_kernel",
            "has its matrix transposed",
            own @ matrix.T,
            "carry it over transposed, as Linear has it",
        )
