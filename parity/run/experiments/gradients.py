"""Compares the towers' losses and gradients of a step that is run once more with the reference's."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from parity.causes import Evidence
from parity.judge.metrics import distance, is_finite, norm
from parity.judge.result import Check, FirstDifference
from parity.run.experiments.behind import TINY, allowed_at
from parity.trace import Trace


class GradientsOfStep(NamedTuple):
    """Losses and gradients of the towers that have to come out of a step.

    Fields:
      evidence: the float64 lockstep traces.
      step: its number.
      allowed: by the reference's names the largest difference that counts as rounding.
    """

    evidence: Evidence
    step: int
    allowed: dict[str, float]

    @classmethod
    def of(cls, evidence: Evidence, first: FirstDifference, checks: Sequence[Check]) -> "GradientsOfStep":
        """Returns those of the step of a first difference, with what level 1 allows."""
        return cls(evidence, first.check.step, allowed_at(first.check.step, checks))

    def multiples(self, run: Trace) -> Iterator[tuple[str, float]]:
        """Yields by the reference's name how many times what is allowed a run is off; without end where it has none."""
        file, made = self.evidence.reference.step(self.step), run.step(self.step)
        for key, text in self.evidence.join.ordered(file.names()):
            if key.quantity not in ("loss", "tower_grad"):
                continue
            one, other = file.read(text), self.evidence.join.read(key, made)
            if other is None or other.shape != one.shape or not is_finite(other):
                yield text, float("inf")
            else:
                limit = self.allowed.get(text) or TINY * max(norm(one), TINY)
                yield text, distance(one, other) / limit

    def multiples_of_the_candidate(self) -> Iterator[tuple[str, float]]:
        """Yields the same of the step as it was recorded."""
        return self.multiples(self.evidence.candidate)
