"""What hypotheses about a difference are tested against."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from parity.judge.join import Join
from parity.judge.numbers import Array, norm
from parity.trace import Key, Trace, format_key

CLOSE = 1e-9


@dataclass(frozen=True)
class Evidence:
    """The float64 traces of both sides, made from the same state before every step.

    Attributes:
      join: names and layouts.
      reference, candidate: the traces.
      states: step k holds the state before step k, in the reference's names; None where the steps were not made from
        the same states.
      towers: their number.
    """

    join: Join
    reference: Trace
    candidate: Trace
    states: Trace | None
    towers: int

    def pairs(self, step: int, quantity: str, slot: str = "") -> Iterator[tuple[str, Array, Array]]:
        """Yields name, reference and candidate of every tensor of a quantity that both sides have."""
        one_file, other_file = self.reference.step(step), self.candidate.step(step)
        for key, text in self.join.ordered(one_file.names()):
            if key.quantity != quantity or key.slot != slot:
                continue
            one, other = one_file.read(text), self.join.read(key, other_file)
            if other is not None and other.shape == one.shape:
                yield key.name, np.asarray(one, np.float64), np.asarray(other, np.float64)

    def before(self, step: int, quantity: str, name: str, slot: str = "") -> Array | None:
        """Returns a part of the state before a step, or None where there is none."""
        text = format_key(Key("", quantity, "", slot, name))
        file = self.states.step(step) if self.states else None
        return np.asarray(file.read(text), np.float64) if file and text in file else None

    def counter(self, step: int, name: str) -> float | None:
        """Returns a counter before a step, or None where there is none."""
        file = self.states.step(step) if self.states else None
        return float(file.read(f"state/{name}")) if file and f"state/{name}" in file else None

    @property
    def optimizers(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The optimizers' facts: reference, candidate."""
        return self.reference.facts.get("optimizer", {}), self.candidate.facts.get("optimizer", {})


def common_factor(pairs: list[tuple[Array, Array]]) -> float | None:
    """Returns the factor that turns every reference into its candidate, or None where no single one does.

    Tensors that are zero but for rounding say nothing and are left out.
    """
    largest = max((norm(one) for one, _ in pairs), default=0.0)
    telling = [(one, other) for one, other in pairs if norm(one) > 1e-8 * largest]
    if not telling:
        return None
    square = sum(float(np.vdot(one, one)) for one, _ in telling)
    factor = sum(float(np.vdot(one, other)) for one, other in telling) / square
    if all(norm(other - factor * one) <= CLOSE * norm(one) * abs(factor) for one, other in telling):
        return factor
    return None


def is_close(one: float, other: float) -> bool:
    """Returns whether two factors are the same but for rounding."""
    return abs(one - other) <= CLOSE * abs(other)
