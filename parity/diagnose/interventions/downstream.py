"""Goes on behind the first difference: run again without it, what differs next?"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from parity.diagnose import Evidence, find_causes, gradients_at_once
from parity.diagnose.catalogue import Trait, causes_with, is_place_only
from parity.diagnose.interventions.protocol import RepeatsOnward
from parity.diagnose.interventions.search import ahead_of, find_by_experiment
from parity.diagnose.interventions.two_causes import one_of_two, with_its_change
from parity.diagnose.interventions.with_fix import Behind, Mended, allowed_at, mended, next_difference
from parity.judge.result import Cause, Check, Explained, FirstDifference
from parity.mapping.states import translated
from parity.trace import Trace
from parity.trace.arrays import Array
from parity.worker.failures import SideFailed

MOST_DIFFERENCES = 6  # layers that are given one after the other: each costs two runs of the step
MENDS = 2  # bugs that are mended one behind the other; each is a search by experiment of its own
FORWARD_QUANTITIES = ("act", "loss")


def find_onward(
    first: FirstDifference,
    known: list[Cause],
    again: RepeatsOnward,
    evidence: Evidence,
    checks: list[Check],
    mends: int = MENDS,
) -> list[Cause]:
    """Returns what is known of the first difference, and the causes of what differs behind it.

    Where an experiment mends it, the whole step is looked at with the mend. Otherwise the layer that differs is given the
    reference's values: layer by layer in the order of the trace, then the losses, then the gradients that need not pass a
    given layer.

    Args:
      first: the first difference.
      known: what is named already, what it was found to be first.
      again: runs steps of the recorded case once more.
      evidence: the float64 lockstep traces.
      checks: of level 1.
      mends: how many bugs to mend one after the other at most.
    """
    if first.check.run != "lockstep" or first.quantity not in FORWARD_QUANTITIES or evidence.states is None:
        return known
    found = known
    try:
        if mends and (not known or is_place_only(known[0].name)):
            found = ahead_of(known, list(one_of_two(first, again, evidence, checks) or ()))
        elif mends:
            found = with_its_change(first, known, again, evidence, checks)
        basis = mended(first, found[0], again, evidence) if found and mends else None
        if basis:
            found = found + _without_it(first, basis, checks, mends)
        else:
            found = found + _by_layers(first, again, evidence, checks)
    except SideFailed:
        pass  # the port does not take what was tried: what is named stays named
    behind = Explained(first.check.step, "the gradients")
    told = [cause if cause.explains or cause in known else replace(cause, explains=behind) for cause in found]
    return [cause for place, cause in enumerate(told) if cause.name not in {c.name for c in told[:place]}]


def _without_it(first: FirstDifference, basis: Mended, checks: list[Check], mends: int) -> list[Cause]:
    step, evidence = first.check.step, basis.evidence
    allowed = allowed_at(step, checks)
    following = next_difference(evidence, step, allowed, (*FORWARD_QUANTITIES, "tower_grad"))
    found: list[Cause] = []
    if following is not None:
        found = _causes_of(following, basis.again, evidence)
        if following.quantity in FORWARD_QUANTITIES:
            found = find_onward(following, found[:1], basis.again, evidence, checks, mends - 1)
        if following.quantity != "act":
            found = found + gradients_at_once(evidence, step)
    moving = next_difference(evidence, step, allowed, ("stat",))
    if moving is not None and (following is None or following.quantity != "act"):
        found = found + _causes_of(moving, basis.again, evidence)[:1]
    return found


def _by_layers(first: FirstDifference, again: RepeatsOnward, evidence: Evidence, checks: list[Check]) -> list[Cause]:
    step, allowed = first.check.step, allowed_at(first.check.step, checks)
    layers: list[str] = []
    found: list[Cause] = []
    after_a_loss, current = False, first
    for _ in range(MOST_DIFFERENCES):
        layers += [current.name] if current.quantity == "act" else []
        after_a_loss = after_a_loss or current.quantity == "loss"
        try:
            basis, given = _run_from(layers, step, again, evidence)
        except SideFailed:
            return found  # an output that cannot be given: what is named stays named
        looked = ("act", "tower_grad") if after_a_loss else (*FORWARD_QUANTITIES, "tower_grad")
        following = next_difference(basis, step, allowed, looked, layers)
        if following is None:
            return found
        causes = _causes_of(following, again, basis, given)
        # What differs behind a loss that does is its consequence, but for causes that tell towers or elements apart.
        if after_a_loss and following.quantity != "loss":
            causes = [cause for cause in causes if cause.name in causes_with(Trait.BESIDE_A_LOSS)]
        found += causes[:1]
        if following.quantity not in FORWARD_QUANTITIES:
            return found + gradients_at_once(basis, step)
        current = following
    return found


def _causes_of(
    following: FirstDifference, again: RepeatsOnward, basis: Behind, given: dict[str, Array] | None = None
) -> list[Cause]:
    causes = find_causes(following, basis)
    if following.quantity in (*FORWARD_QUANTITIES, "stat") and (not causes or is_place_only(causes[0].name)):
        tried = find_by_experiment(following, again, basis.join, basis.reference, basis.candidate, given)
        causes = ahead_of(causes, tried)
    return causes


def _run_from(
    layers: list[str], step: int, again: RepeatsOnward, evidence: Evidence
) -> tuple[Behind, dict[str, Array]]:
    file = evidence.reference.step(step)
    keys = [key for key in file.keys("act") if key.name in layers]
    given = translated(evidence.join, {str(key): np.asarray(file.read(key)) for key in keys})
    # Cut: no gradient passes what is given. A gradient that differs between the two runs has to pass it, and says
    # nothing.
    runs = [again.repeat(step, lambda batch: batch, lambda state: {**state, **given}, cut=cut) for cut in (True, False)]
    hidden = frozenset(_moved(evidence, step, *runs)) | getattr(evidence, "hidden", frozenset())
    basis = Behind(evidence.join, evidence.reference, runs[0], evidence.states, evidence.towers, hidden)
    return basis, given


def _moved(evidence: Evidence, step: int, cut: Trace, through: Trace) -> Iterator[str]:
    for key in evidence.reference.step(step).keys("tower_grad"):
        one, other = (evidence.join.read(key, run.step(step)) for run in (cut, through))
        if one is None or other is None or not np.array_equal(one, other):
            yield key.name
