"""Looks for places and causes of a first difference, stage by stage, without the verdict resting on any of it."""

import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np

from parity.case import Case
from parity.diagnose import Evidence, find_causes, find_further, first_in_lockstep
from parity.diagnose.catalogue import is_place_only
from parity.diagnose.edits.edit import OTHER_OPERATION
from parity.diagnose.interventions import ahead_of, find_by_experiment, find_onward, with_cut, with_parting
from parity.diagnose.interventions.protocol import Repeats
from parity.diagnose.located.search import fitting, with_causes_at
from parity.experiment.layers import locate_first, place_at_own_loss, with_location
from parity.experiment.recording import Recorded
from parity.experiment.rejudge.ill_conditioned import but_for_rounding, of_the_optimizer
from parity.experiment.sides.rerun import Rerun
from parity.judge.result import Cause, FirstDifference, Level, own_first
from parity.locate.located import Located
from parity.trace import TraceError
from parity.worker.failures import SideFailed

T = TypeVar("T")
DEBUG = "PARITY_DEBUG"
# What searches raise where a graph or trace is not as they assume; nothing else is caught.
FAULTS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


def outliving(look: Callable[[], T]) -> tuple[T | None, list[str]]:
    """Returns what a search for causes finds, and no note; None, and a note, where it fails by its own fault or a side's.

    Args:
      look: searches.

    Raises:
      Exception: what the search met, where the environment has `PARITY_DEBUG`.
    """
    try:
        # What is tried in place of what was done may overflow, and then explains nothing: that is no news to users.
        with np.errstate(all="ignore"):
            return look(), []
    except SideFailed as error:
        if os.environ.get(DEBUG):
            raise
        return None, [f"the search for causes did not finish: {error} The verdict does not depend on it"]
    except TraceError as error:
        # What is there and refused; what is missing nobody gets here with. No fault of ours, and no reason to be silent.
        if os.environ.get(DEBUG):
            raise
        return None, [f"the search for causes did not finish: {error} The verdict does not depend on it"]
    except FAULTS as error:
        if os.environ.get(DEBUG):
            raise
        told = (str(error).splitlines() or [""])[0]
        return None, [
            f"the search for causes did not finish: {type(error).__name__}: {told}. The verdict does not depend on "
            f"it; this is a fault of parity, not of the port: please report it, with what {DEBUG}=1 shows"
        ]


def refine(level: Level, stages: Iterable[Callable[[Level], Level]]) -> Level:
    """Returns a level as one stage after the other leaves it; what the stages before one that fails found stays.

    Args:
      level: a decided one.
      stages: each returns the level with more that is known of its difference; none changes the verdict.

    Raises:
      Exception: what a stage met, where the environment has `PARITY_DEBUG`.
    """
    for stage in stages:
        refined, notes = outliving(partial(stage, level))
        if refined is None:
            return level.with_notes(*notes)
        level = refined
    return level


class Rejudged(NamedTuple):
    """Level 1 with what rounding decides judged again, before anybody has asked why it differs.

    Fields:
      recorded: what it was decided by.
      level: the verdict.
      rounded: records and judges once more, the port's hyper-parameters rounded to float32; a second call runs nothing.
    """

    recorded: Recorded
    level: Level
    rounded: Callable[[], tuple[Recorded, Level]]


def has_own_optimizer(case: Case) -> bool:
    """Returns whether the port brings its optimizer or its schedule."""
    return bool(case.torch.optimizer or case.torch.scheduler)


def evidence_of(case: Case, recorded: Recorded) -> Evidence:
    """Returns the float64 lockstep traces of a case as causes are looked for in them."""
    traces = recorded.lockstep
    return Evidence(recorded.join, traces.reference64, traces.candidate64, traces.states, case.towers)


def diagnose_case(case: Case, again: Rerun, rejudged: Rejudged) -> tuple[Level, Located | None]:
    """Returns level 1 with where its first difference is and what causes it, and what is known of its layer.

    Args:
      case: what was recorded.
      again: runs steps of it once more.
      rejudged: level 1 as it was decided.
    """
    recorded, level, _ = rejudged
    evidence, first = evidence_of(case, recorded), level.first_difference
    # What traces show by themselves costs no run, and spares the experiments where it is exact.
    causes, notes = outliving(lambda: find_causes(first, evidence)) if first is not None else ([], [])
    level = replace(level.with_notes(*notes), causes=causes or [])
    # By itself: where passes cannot be compared, experiments may still find a cause.
    located, notes = outliving(lambda: locate_first(first, again, recorded.join, evidence.reference))
    level = level.with_notes(*notes)
    losses = [part.loss for part in case.optimizers.values() if part.loss]
    # A gradient of a loss that another optimizer minimises follows from that loss, if it differs.
    placed, notes = outliving(lambda: place_at_own_loss(level, losses, evidence))
    level = level.with_notes(*notes)
    own, at_own_loss = placed.first_difference if placed is not None else first, None
    if own is not first:
        at_own_loss, notes = outliving(lambda: locate_first(own, again, recorded.join, evidence.reference))
        level = level.with_notes(*notes)
    # The order matters. Recomputing a layer first, for it is exact and needs no run of a side; then experiments; what
    # asks where gradients part only where these name nothing; further bugs last, for they start from what is known.
    stages: list[Callable[[Level], Level]] = [
        lambda level: replace(level, causes=with_causes_at(located, evidence, level.causes)),
        lambda level: with_experiments(level, first, again, evidence, located),
        lambda level: replace(level, first_difference=own),
        lambda level: _with_causes_at_own_loss(level, at_own_loss, evidence),
        # A cut the port shows by itself, `detach`; then one that only the reference has.
        lambda level: with_cut(level, again, evidence),
        lambda level: with_parting(level, again, evidence),
        lambda level: _with_onward(level, first, again, evidence),
        # In front of all that names further bugs: theirs may be in layers.
        lambda level: with_operations_of_the_loss(level, located),
        lambda level: _with_further(level, first, case, rejudged),
        lambda level: _with_causes_behind_the_start(level, first, case, again, rejudged),
        # Behind all that look at level 1's own first difference: it puts the layer in its place.
        lambda level: with_location(level, located or at_own_loss),
        # Of bugs behind the first one nobody is told before those of the first.
        lambda level: replace(level, causes=own_first(level.causes, level.first_difference)),
    ]
    return refine(level, stages), located


def with_experiments(
    level: Level, first: FirstDifference | None, again: Repeats, evidence: Evidence, located: Located | None
) -> Level:
    """Returns a level with the causes that experiments find, where nothing is known or only a place.

    Args:
      level: a decided one.
      first: its first difference as it was judged.
      again: runs steps once more.
      evidence: the float64 traces of the run that it is in.
      located: what `locate_first` returned.
    """
    if first is None or (level.causes and not is_place_only(level.causes[0].name)):
        return level
    # A cause that names a place only leaves open why: an experiment may say.
    tried = find_by_experiment(first, again, evidence.join, evidence.reference, evidence.candidate)
    return replace(level, causes=ahead_of(level.causes, fitting(tried, located, undone=True)))


def _with_causes_at_own_loss(level: Level, located: Located | None, evidence: Evidence) -> Level:
    """What the passes show that end at a loss of another optimizer's, where its gradients have not told what is wrong."""
    if located is None or (level.causes and not is_place_only(level.causes[0].name)):
        return level
    return replace(level, causes=with_causes_at(located, evidence, level.causes))


def with_operations_of_the_loss(level: Level, located: Located | None) -> Level:
    """Returns a level whose first op that the port computes otherwise is called another loss, where it is behind all layers.

    Args:
      level: a decided one, of which all causes were looked for.
      located: what `locate_first` returned.
    """
    if located is None or located.place.layer:
        return level
    named = [replace(each, name="loss_function") if each.name == OTHER_OPERATION else each for each in level.causes]
    return replace(level, causes=named)


def _with_onward(level: Level, first: FirstDifference | None, again: Rerun, evidence: Evidence) -> Level:
    if first is None:
        return level
    return replace(level, causes=find_onward(first, list(level.causes), again, evidence, list(level.checks)))


def _with_further(level: Level, first: FirstDifference | None, case: Case, rejudged: Rejudged) -> Level:
    if first is None:
        return level

    def find(each: Recorded) -> list[Cause]:
        return find_further(first, level.causes, evidence_of(case, each), level.checks)

    recorded, _, rounded = rejudged
    further = but_for_rounding(find, recorded, rounded, has_own_optimizer(case))
    return replace(level, causes=[*level.causes, *further])


def _with_causes_behind_the_start(
    level: Level, first: FirstDifference | None, case: Case, again: Rerun, rejudged: Rejudged
) -> Level:
    if first is None or first.check.run != "fresh":
        return level
    # In lockstep every step starts from the reference's slots: other values at the start explain nothing there.
    recorded, checks = rejudged.recorded, level.checks
    behind = first_in_lockstep(evidence_of(case, recorded), checks)
    if behind is not None and of_the_optimizer(behind) and has_own_optimizer(case):
        recorded, rounded = rejudged.rounded()
        checks = rounded.checks
        behind = first_in_lockstep(evidence_of(case, recorded), checks)
    if behind is None:
        return level
    evidence = evidence_of(case, recorded)
    of_behind = replace(level, causes=find_causes(behind, evidence), checks=checks)
    of_behind = with_experiments(of_behind, behind, again, evidence, None)
    of_behind = _with_onward(of_behind, behind, again, evidence)
    of_behind = _with_further(of_behind, behind, case, rejudged._replace(recorded=recorded))
    # One name once: the start's cause may be the step's as well, as of an epsilon in an accumulator.
    known = {cause.name for cause in level.causes}
    return replace(level, causes=[*level.causes, *(each for each in of_behind.causes if each.name not in known)])
