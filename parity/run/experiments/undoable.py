"""Finds the change that undoes what is named already, so that the step can be looked at without it."""

from parity.causes import Evidence
from parity.judge.result import Cause, Check, FirstDifference
from parity.run.experiments.change import Undone
from parity.run.experiments.find import changes_to_try, undone
from parity.run.experiments.probes import Bench
from parity.run.experiments.repeats import RepeatsOnward
from parity.run.experiments.solve import knobs, solved
from parity.run.experiments.two_in_one import one_of_two
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
