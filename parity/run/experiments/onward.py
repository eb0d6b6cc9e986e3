"""Goes on behind the first layer that differs: run again from the reference's layers, what differs next?"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from parity.causes import VAGUE, Evidence, find_causes
from parity.judge.numbers import Array, distance, worst
from parity.judge.result import Cause, Check, FirstDifference
from parity.run.again import Again
from parity.run.experiments.find import find_by_experiment
from parity.run.states import translated
from parity.sides import SideFailed
from parity.trace import Trace, parse_key

ROUNDS = 4
# What differs behind a loss that does is that loss's consequence, but for causes that tell towers or elements apart.
BEHIND_A_LOSS = frozenset(["some_towers", "clipping", "rows_without_gradient", "stale_gradient", "reduced_precision"])


@dataclass(frozen=True)
class Behind(Evidence):
    """Evidence from a run that went on from given layers.

    Attributes:
      hidden: variables whose gradient has to pass a given layer, and is therefore none of its own.
    """

    hidden: frozenset[str] = frozenset()

    def pairs(self, step: int, quantity: str, slot: str = "", tower: str = "") -> Iterator[tuple[str, Array, Array]]:
        """Yields name, reference and candidate of every tensor that can be told."""
        for name, one, other in super().pairs(step, quantity, slot, tower):
            if quantity not in ("tower_grad", "grad") or name not in self.hidden:
                yield name, one, other


def find_onward(
    first: FirstDifference, known: list[Cause], again: Again, evidence: Evidence, checks: list[Check]
) -> list[Cause]:
    """Returns the causes of what differs behind the first layer that does, once it is given the reference's values.

    Layer by layer in the order of the trace, then the losses, then the gradients that need not pass a given layer.

    Args:
      first: the first difference.
      known: what is named already.
      again: runs steps of the recorded case once more.
      evidence: the float64 lockstep traces.
      checks: of level 1.
    """
    if first.check.run != "lockstep" or first.quantity not in ("act", "loss") or evidence.states is None:
        return []
    step, names = first.check.step, {cause.name for cause in known}
    allowed = {check.key: check.allowed for check in checks if (check.run, check.step) == ("lockstep", step)}
    layers: list[str] = []
    found: list[Cause] = []
    after_a_loss, current = False, first
    for _ in range(ROUNDS):
        layers += [current.name] if current.quantity == "act" else []
        after_a_loss = after_a_loss or current.quantity == "loss"
        try:
            basis, given = _run_from(layers, step, again, evidence)
        except SideFailed:
            return found  # an output that cannot be given: what is named stays named
        following = _next(basis, step, layers, after_a_loss, allowed)
        if following is None:
            return found
        causes = find_causes(following, basis)
        if following.quantity in ("act", "loss") and (not causes or causes[0].name in VAGUE):
            tried = find_by_experiment(following, again, basis.join, basis.reference, basis.candidate, given)
            causes = tried + causes
        causes = [
            cause for cause in causes if not after_a_loss or cause.name in BEHIND_A_LOSS or following.quantity == "loss"
        ]
        for cause in causes[:1]:
            if cause.name not in names:
                names.add(cause.name)
                found.append(cause)
        if following.quantity not in ("act", "loss"):
            return found
        current = following
    return found


def _run_from(layers: list[str], step: int, again: Again, evidence: Evidence) -> tuple[Behind, dict[str, Array]]:
    file = evidence.reference.step(step)
    texts = [text for text in file.names() if text.startswith("act/") and parse_key(text).name in layers]
    given = translated(evidence.join, {text: np.asarray(file.read(text)) for text in texts})
    runs = [again.repeat(step, lambda batch: batch, lambda state: {**state, **given}, cut=cut) for cut in (True, False)]
    hidden = frozenset(_moved(evidence, step, *runs))
    basis = Behind(evidence.join, evidence.reference, runs[0], evidence.states, evidence.towers, hidden)
    return basis, given


def _moved(evidence: Evidence, step: int, cut: Trace, through: Trace) -> Iterator[str]:
    for text in evidence.reference.step(step).names():
        key = parse_key(text)
        if key.quantity != "tower_grad":
            continue
        one, other = (evidence.join.read(key, run.step(step)) for run in (cut, through))
        if one is None or other is None or not np.array_equal(one, other):
            yield key.name


def _next(
    basis: Behind, step: int, layers: list[str], after_a_loss: bool, allowed: Mapping[str, float]
) -> FirstDifference | None:
    one_file, other_file = basis.reference.step(step), basis.candidate.step(step)
    for key, text in basis.join.ordered(one_file.names()):
        if key.quantity not in ("act", "loss", "tower_grad") or (key.quantity == "act" and key.name in layers):
            continue
        if (key.quantity == "loss" and after_a_loss) or (key.quantity == "tower_grad" and key.name in basis.hidden):
            continue
        one, other = one_file.read(text), basis.join.read(key, other_file)
        if other is None or other.shape != one.shape or text not in allowed:
            continue
        difference = distance(one, other)
        if difference > allowed[text]:
            check = Check("lockstep", step, text, "different", difference, allowed[text])
            return FirstDifference(check, key.quantity, key.name, key.tower, worst(one, other))
    return None
