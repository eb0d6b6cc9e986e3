"""A layer whose output differs, though its inputs and weights do not, and the rules that it may be computed by."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from parity.diagnose.agreement import reproduces, same_values
from parity.diagnose.ops.activations import FUNCTIONS, SLOPES
from parity.trace.arrays import Array

Rule = Callable[[Array], Array]
ALL_ONE = 1e-6  # relative: a scale or variance that still is what it began as, but for a perturbation in float32


class Layer(NamedTuple):
    """A layer whose output differs, though its inputs and weights do not.

    Fields:
      name: of the layer.
      kind: of the reference's op, e.g. "Relu".
      inputs: what goes into it.
      reference, candidate: what comes out, in one layout, channels last.
      variables: dict of name to value of the weights in its scope.
      statistics: the same of the moving statistics.
      op: name of the reference's first op that differs.
      output: what that op gives, or None where it is not known.
      norms: pairs of vectors of one layer, either of which may be the scale and the other the shift of a norm behind it.
      learned: whether that op takes a weight: what it multiplies by is no constant of the graph.
    """

    name: str
    kind: str
    inputs: Sequence[Array]
    reference: Array
    candidate: Array
    variables: Mapping[str, Array]
    statistics: Mapping[str, Array]
    op: str = ""
    output: Array | None = None
    norms: Sequence[tuple[Array, Array]] = ()
    learned: bool = False


def functions() -> Iterator[tuple[str, Rule]]:
    """Yields activation functions with their names."""
    yield from FUNCTIONS.items()
    # `slope=slope`: each function keeps its own, and not the loop's last.
    for slope in SLOPES:
        yield f"leaky ReLU of slope {slope:g}", lambda x, slope=slope: np.where(x > 0, x, slope * x)  # type: ignore[misc]


def number(value: float) -> str:
    """A factor, with the root that it is where it is one."""
    # Attention divides by the root of a width: then the square of the factor, or 1 over it, is a whole number.
    inverse = 1 / value**2 if value else 0.0
    for square, words in ((value**2, "the square root of {}"), (inverse, "1 over the square root of {}")):
        whole = round(square)
        # Not where the factor is whole itself: 2 is said as 2, and not as the root of 4.
        if whole > 1 and abs(square - whole) <= ALL_ONE * whole and value > 0 and round(value) != value:
            return f"{value:.6g}, {words.format(whole)},"
    return f"{value:.6g}"


def gives(rule: Rule, x: Array, wanted: Array) -> bool:
    """Whether a rule makes an output of what goes in, down to rounding."""
    with np.errstate(all="ignore"):
        # CLOSE of the norm; a rule that does not apply gives NaN, which is near to nothing.
        return same_values(wanted, rule(x))


def explains_all(made: Array, layer: Layer) -> bool:
    """Whether an output is the candidate's, and so explains all that differs."""
    return reproduces(made, layer.reference, layer.candidate)
