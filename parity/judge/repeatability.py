"""Judges each side against itself: the same steps from the same states, made twice."""

from collections import defaultdict
from collections.abc import Sequence
from math import inf, isfinite, sqrt
from typing import NamedTuple

import numpy as np

from parity.judge.metrics import distance, norm
from parity.trace import Trace, parse_key

# More than threads that add in another order can do to a sum, less than an op that draws anew in every run does.
COMPARABLE = 2.0**-10


class Repeat(NamedTuple):
    """How far a side is from itself.

    Fields:
      side: "reference" or "candidate".
      tensors: how many were compared.
      unequal: how many of them were not the same bit for bit.
      wanders: largest distance of a tensor from its repetition, over the norm of all of its quantity in that step; 0 where
        all are equal, infinite where one is finite only once.
      where: step and name of that tensor, e.g. "step 0, grad/w", or "".
    """

    side: str
    tensors: int
    unequal: int
    wanders: float
    where: str

    @property
    def sentence(self) -> str:
        """All of it in a sentence without a full stop."""
        if not self.unequal:
            return f"{self.side}: runs repeat bit for bit"
        return (
            f"{self.side}: run-to-run difference {self.wanders:.2g} ({self.where}; {self.unequal:,} of {self.tensors:,} "
            "tensors)"
        )

    @property
    def comparable(self) -> bool:
        """Whether its run-to-run difference is small enough for a difference from it to mean anything."""
        return self.wanders <= COMPARABLE


def judge_repeat(side: str, once: Trace, again: Trace, steps: Sequence[int]) -> Repeat:
    """Compares two runs of one side.

    Args:
      side: whose they are, for the report.
      once: a run.
      again: the same once more.
      steps: those that both have.
    """
    tensors = unequal = 0
    wanders, where = 0.0, ""
    for step in steps:
        one_file, other_file = once.step(step), again.step(step)
        apart: dict[str, float] = {}
        whole: dict[str, float] = defaultdict(float)
        for text in other_file.names():
            one, other = one_file.read(text), other_file.read(text)
            tensors += 1
            quantity = parse_key(text).quantity
            if one.dtype.kind == "f":
                # In units of all of a quantity: a gradient that is zero but for rounding is another number in every
                # threaded run.
                whole[quantity] += norm(one) ** 2
            # NaN at the same place is no difference here: what is not finite the levels judge.
            if not np.array_equal(one, other, equal_nan=one.dtype.kind == "f"):
                unequal += 1
                apart[text] = distance(one, other) if one.shape == other.shape else inf
        for text, length in apart.items():
            size = sqrt(whole[parse_key(text).quantity])
            # Where all of a quantity is zero, or a length is not finite, no share is small enough to go on.
            share = length / size if size > 0.0 and isfinite(length) else inf
            if share > wanders:
                wanders, where = share, f"step {step}, {text}"
    return Repeat(side, tensors, unequal, wanders, where)
