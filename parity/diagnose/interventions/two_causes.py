"""Finds two causes in one tensor, and the change that undoes what is named already."""

from parity.diagnose import Evidence, find_causes
from parity.diagnose.catalogue import Trait, causes_with
from parity.diagnose.interventions.inputs import changes_of_the_inputs, changes_of_the_order
from parity.diagnose.interventions.probes import Bench
from parity.diagnose.interventions.protocol import RepeatsOnward, Undone
from parity.diagnose.interventions.search import STALE, changes_to_try, undone
from parity.diagnose.interventions.solve import knobs, solved
from parity.diagnose.interventions.state import changes_of_the_flatten, changes_of_the_gates
from parity.diagnose.interventions.with_fix import allowed_at, mended, next_difference
from parity.judge.result import Cause, Check, FirstDifference
from parity.worker.failures import SideFailed


def with_its_change(
    first: FirstDifference, known: list[Cause], again: RepeatsOnward, evidence: Evidence, checks: list[Check]
) -> list[Cause]:
    """Returns what is named of a difference, the first with the change that undoes it where an experiment has one.

    What is told where an input is read says what is done to it, and not how a step is run without that. Where a change
    leaves of the difference what something else explains, that comes behind it.

    Args:
      first: the first difference.
      known: what is named of it, one cause at least.
      again: runs steps of the recorded case once more.
      evidence: the float64 lockstep traces.
      checks: of level 1.
    """
    cause, rest = known[0], known[1:]
    if isinstance(cause, Undone):
        return known
    bench = Bench(first, again, evidence.join, evidence.reference, evidence.candidate)
    try:
        found = _alone(bench, cause.name)
        both = None if found is not None else one_of_two(first, again, evidence, checks, cause.name)
    except SideFailed:
        return known  # the port does not take what was tried: what is named stays named
    if both is not None:
        found, other = both
        rest = [other, *(each for each in rest if each.name != other.name)]
    if found is None:
        return known
    return [Undone(cause.name, cause.title, cause.evidence, cause.fix, cause.explains, found.change), *rest]


def _alone(bench: Bench, name: str) -> Undone | None:
    """What undoes all of the difference by itself."""
    tried = (undone(bench, change) for change in changes_to_try(bench) if change.name == name)
    turned = (solved(bench, knob) for knob in knobs(bench) if knob.name == name)
    found = (each for tries in (tried, turned) for each in tries)
    return next((each for each in found if isinstance(each, Undone)), None)


def one_of_two(
    first: FirstDifference, again: RepeatsOnward, evidence: Evidence, checks: list[Check], name: str = ""
) -> tuple[Undone, Cause] | None:
    """Returns the change that leaves of the first difference what something else explains, and that cause; else None.

    Neither alone explains the difference: the change leaves some of it, and the other does not hold without the change. The
    other is a hypothesis, or a change of the weights beside one of the inputs.

    Args:
      first: the first difference, which nothing explains.
      again: runs steps of the recorded case once more.
      evidence: the float64 lockstep traces.
      checks: of level 1.
      name: of the cause that the change undoes, where that is known.
    """
    step, key = first.check.step, first.check.key
    allowed = allowed_at(step, checks)
    bench = Bench(first, again, evidence.join, evidence.reference, evidence.candidate)
    left_over = causes_with(Trait.FITS_WHAT_IS_LEFT)
    for change in (STALE, *changes_to_try(bench)):
        if name not in ("", change.name):
            continue
        undone = Undone.by(change, "")
        # The step with the change made, and what of this very tensor is left in it.
        basis = mended(first, undone, again, evidence)
        left = next_difference(basis.evidence, step, allowed, (first.quantity,)) if basis else None
        if basis is None or left is None:
            continue
        cause = next((each for each in find_causes(left, basis.evidence) if each.name in left_over), None)
        if cause is not None:
            text = f"{change.what}, what is left of {key} is explained: {cause.title}; neither explains it alone"
            return Undone.by(change, text, cause.explains), cause
    return _two_changes(bench, name)


def _two_changes(bench: Bench, name: str) -> tuple[Undone, Cause] | None:
    of_the_batch = [*changes_of_the_order(bench.recorder.towers), *changes_of_the_inputs(bench.batch)]
    of_the_state = [
        *changes_of_the_flatten(bench.first, bench.reference, bench.state),
        *changes_of_the_gates(bench.state),
    ]
    # Every change of the batch with every one of the weights: neither makes the difference go away alone.
    for one in [each for each in of_the_batch if name in ("", each.name)]:
        for other in of_the_state:
            both = one._replace(what=f"{one.what} and {other.what}", state=other.state)
            cause = undone(bench, both)
            if cause is not None:
                text = f"{cause.evidence}; neither does it alone"
                return Undone.by(both, text, cause.explains), other.described.cause(text, cause.explains)
    return None
