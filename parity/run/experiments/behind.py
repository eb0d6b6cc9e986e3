"""What a step looks like behind something that was taken out of the way, and where it differs next."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from parity.causes import Evidence
from parity.judge.metrics import Array, distance, norm, worst
from parity.judge.result import Check, FirstDifference

TINY = 1e-12


@dataclass(frozen=True)
class Behind(Evidence):
    """Evidence from a run in which something was taken out of the way.

    Attributes:
      hidden: variables whose gradient has to pass it, and is therefore none of its own.
    """

    hidden: frozenset[str] = frozenset()

    def pairs(self, step: int, quantity: str, slot: str = "", tower: str = "") -> Iterator[tuple[str, Array, Array]]:
        """Yields name, reference and candidate of every tensor that can be told."""
        for name, one, other in super().pairs(step, quantity, slot, tower):
            if quantity not in ("tower_grad", "grad") or name not in self.hidden:
                yield name, one, other


def allowed_at(step: int, checks: Iterable[Check]) -> dict[str, float]:
    """Returns by the reference's names what level 1 allows in a step of the lockstep."""
    return {check.key: check.allowed for check in checks if (check.run, check.step) == ("lockstep", step)}


def next_difference(
    basis: Behind, step: int, allowed: Mapping[str, float], quantities: Collection[str], layers: Collection[str] = ()
) -> FirstDifference | None:
    """Returns the first tensor of some quantities that differs, or None.

    Args:
      basis: the evidence.
      step: its number.
      allowed: by the reference's names the largest difference that counts as rounding; others are passed over.
      quantities: where to look.
      layers: outputs that are given, and passed over too.
    """
    one_file, other_file = basis.reference.step(step), basis.candidate.step(step)
    for key, text in basis.join.ordered(one_file.names()):
        given = key.quantity == "act" and key.name in layers
        if key.quantity not in quantities or given or (key.quantity == "tower_grad" and key.name in basis.hidden):
            continue
        one, other = one_file.read(text), basis.join.read(key, other_file)
        if other is None or other.shape != one.shape or text not in allowed:
            continue
        difference = distance(one, other)
        limit = allowed[text] or TINY * norm(one)  # what came in another shape was allowed nothing
        if difference > limit:
            check = Check("lockstep", step, text, "different", difference, limit)
            return FirstDifference(check, key.quantity, key.name, key.tower, worst(one, other))
    return None
