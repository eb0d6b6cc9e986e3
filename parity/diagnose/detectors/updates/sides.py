"""What both sides did in some steps: how each moved every variable, and which of these moves differ."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from parity.diagnose.agreement import ROUNDING
from parity.diagnose.detectors.updates.solver import Move, moves_of
from parity.diagnose.evidence import Evidence
from parity.judge.metrics import norm
from parity.judge.result import Explained, FirstDifference

MOST_STEPS = 3  # that a formula has to hold in: slots that start empty make many rules alike in the first
# of a move, from which on it differs: 9,000 roundings of float64
LEAST_DIFFERENCE_OF_MOVES = 1e-12

Moves = Mapping[str, Move]


class Sides(NamedTuple):
    """What both sides did in some steps.

    Fields:
      steps: their numbers, that of the first difference first.
      reference, candidate: for each step name to `Move`.
      names: the variables whose updates differ.
      known: epsilons that are written somewhere, the reference's first.
    """

    steps: list[int]
    reference: Sequence[Moves]
    candidate: Sequence[Moves]
    names: list[str]
    known: list[list[float]]

    @property
    def which(self) -> str:
        """The variables whose updates differ, in words."""
        whole = len(self.names) == len(self.reference[0])
        return f"all {len(self.names)} variables" if whole else ", ".join(self.names)


def sides_of(first: FirstDifference, evidence: Evidence) -> Sides:
    """Returns what both sides did in the step of the first difference and those behind it."""
    step = first.check.step
    # From the first difference on, the steps that follow it: earlier ones agree, and hold for any formula.
    steps = [step, *(each for each in evidence.steps if each > step)][:MOST_STEPS]
    reference = [moves_of(evidence, each, candidate=False) for each in steps]
    candidate = [moves_of(evidence, each, candidate=True) for each in steps]
    # Any step: in the first one slots are empty, and two rules may give the same move.
    names = [
        name for name in reference[0] if any(differs(r, c, name) for r, c in zip(reference, candidate, strict=True))
    ]
    return Sides(steps, reference, candidate, names, [_known_epsilons(evidence, each) for each in steps])


def differs(reference: Moves, candidate: Moves, name: str) -> bool:
    """Returns whether both sides move a variable, and not alike."""
    if name not in reference or name not in candidate:
        return False
    one, other = reference[name], candidate[name]
    # Of the move, and beside it ROUNDING of the weight: a move is what storing two weights leaves.
    return norm(other.move - one.move) > LEAST_DIFFERENCE_OF_MOVES * norm(one.move) + ROUNDING * norm(one.weight)


def _known_epsilons(evidence: Evidence, step: int) -> list[float]:
    reference, candidate = evidence.optimizers
    # The reference's first (`known[0]` below), then the candidate's: TensorFlow calls it epsilon, torch eps.
    values = [reference.get("epsilon", 0.0), candidate.get("eps", candidate.get("epsilon", 0.0))]
    plain = [float(each) for each in values if isinstance(each, int | float)]
    second = evidence.counter(step, "beta2_power")
    # torch's epsilon stands beside a root whose bias is corrected: seen from the uncorrected root it is epsilon sqrt(1
    # - beta2^t).
    inside = [each * float(np.sqrt(1 - second)) for each in plain] if second is not None else []
    return [*plain, *inside]


def select_moves(moves: Moves, names: Sequence[str]) -> list[Move]:
    """Returns the moves of some variables, of those that have one."""
    return [moves[name] for name in names if name in moves]


def explained_fully(first: FirstDifference) -> Explained:
    """Returns that a cause explains all of the first difference."""
    return Explained(first.check.step, first.check.key, 1.0)
