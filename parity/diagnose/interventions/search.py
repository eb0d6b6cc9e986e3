"""Runs a step again with one thing changed: does the candidate then give what the reference gives?

For causes that no trace can show alone, such as what the port does to its inputs before the first recorded layer.
"""

from collections.abc import Iterator, Sequence

from parity.diagnose.catalogue import CAUSES, Trait, build_cause, causes_with, describe, is_place_only
from parity.diagnose.interventions.control import of_the_repetition, undone_by_chance
from parity.diagnose.interventions.evaluation import Evaluates, of_the_evaluation
from parity.diagnose.interventions.inputs import changes_of_the_inputs, changes_of_the_order
from parity.diagnose.interventions.probes import PROBE_STEP, Bench, ignored_input, less_precision, shifted_image
from parity.diagnose.interventions.protocol import Change, Repeats, Undone
from parity.diagnose.interventions.solve import knobs, solved
from parity.diagnose.interventions.state import changes_of_the_flatten, changes_of_the_gates, changes_of_the_state
from parity.diagnose.search import told_of
from parity.judge.metrics import distance, norm
from parity.judge.result import Cause, FirstDifference
from parity.mapping.trace_map import Join
from parity.trace import Trace, parse_key
from parity.trace.arrays import Tensors
from parity.worker.failures import SideFailed

POLICIES = {
    "first": "the first tower's",
    "last": "the last tower's",
    "all_ordered": "all towers', one after the other",
}


STALE = Change(*describe("stale_batch"), "fed with this step's batch once more", twice=True)


def ahead_of(known: Sequence[Cause], tried: list[Cause]) -> list[Cause]:
    """Returns what experiments found of a difference, and then what was known of it.

    What only says where a difference is, such as at the border of an image, is no cause beside one that explains all of it.

    Args:
      known: what the hypotheses name.
      tried: what experiments found, of the same difference.
    """
    whole = any(CAUSES[cause.name].complete for cause in tried)
    exact = {name for cause in tried for name in CAUSES[cause.name].refined_by}
    # What is proven of one op is the place itself, in the order in which it was found.
    of_an_op = [] if whole else [name for name in causes_with(Trait.OF_AN_OP) if is_place_only(name)]
    proven = [cause for cause in known if cause.name in exact or cause.name in of_an_op]
    return (
        proven + tried + [cause for cause in known if cause not in proven and not (whole and is_place_only(cause.name))]
    )


def find_by_experiment(
    first: FirstDifference,
    recorder: Repeats,
    join: Join,
    reference: Trace,
    candidate: Trace,
    given: Tensors | None = None,
) -> list[Cause]:
    """Returns the cause whose opposite makes the first difference go away, or nothing.

    Args:
      first: the first difference, found in lockstep.
      recorder: has recorded the case; its sides still run.
      join: names and layouts.
      reference: its float64 lockstep trace.
      candidate: its own.
      given: outputs that the candidate goes on from in place of its own.
    """
    found = _experiments(first, recorder, join, reference, candidate, given)
    return [told_of(first, cause) for cause in found]


def _experiments(
    first: FirstDifference,
    recorder: Repeats,
    join: Join,
    reference: Trace,
    candidate: Trace,
    given: Tensors | None,
) -> list[Cause]:
    if first.quantity == "stat" and first.check.run == "lockstep":
        return _of_the_statistics(first, recorder, join, candidate) or _of_the_inputs(
            Bench(first, recorder, join, reference, candidate)
        )
    if first.quantity == "eval" and first.check.run == "lockstep":
        return of_the_evaluation(first, recorder, join, reference, candidate) if isinstance(recorder, Evaluates) else []
    if first.check.run != "lockstep" or first.quantity not in ("act", "loss", "tower_grad", "metric"):
        return []
    if first.check.key not in reference.step(first.check.step):
        return []  # the candidate's alone: there is nothing that it should be
    bench = Bench(first, recorder, join, reference, candidate, given or {})
    try:
        # The control first: of a port that does not repeat itself no change says anything.
        wandering = None if given else of_the_repetition(bench)
        if wandering is not None:
            return [wandering]
        # First, for a port that keeps a batch for the next step gives any later experiment the result of the one
        # before.
        stale = undone(bench, STALE)
        if stale:
            return [stale]
        if _undone_by_building_anew(first, recorder, join, reference):
            return []
        joined = [] if given else _of_the_batch_norm(first, recorder, join, reference)
        if joined:
            return joined
        cause = (
            # From the most exact to the vaguest: a change that undoes all of it, an input without effect, a number that
            # is solved for, a shift, and last a precision.
            next((cause for change in changes_to_try(bench) if (cause := undone(bench, change))), None)
            or ignored_input(bench)
            or next((cause for knob in knobs(bench) if (cause := solved(bench, knob))), None)
            or shifted_image(bench)
            or less_precision(bench)
        )
    except SideFailed:
        return []  # the port does not take what was tried: no reason to lose the verdict over
    return [cause] if cause else []


def _undone_by_building_anew(first: FirstDifference, recorder: Repeats, join: Join, reference: Trace) -> bool:
    """Whether a port that is built anew gives the reference's, though nothing is changed.

    Then an earlier step left what no state holds, such as what it made of a parameter that only the port has, and whatever
    is tried in a port built anew would seem to undo it.
    """
    step = first.check.step
    if step == reference.step_numbers[0]:
        return False
    wanted = reference.step(step).read(first.check.key)
    got = join.read(parse_key(first.check.key), recorder.repeat_built_anew(step).step(step))
    return got is not None and got.shape == wanted.shape and distance(wanted, got) <= first.check.allowed


def undone(bench: Bench, change: Change) -> Cause | None:
    """Returns the cause where a change makes the first difference go away, to what rounding allows."""
    got = bench.candidate_with(change.batch, change.state, change.twice)
    if got is None:
        return None
    check = bench.first.check
    left = distance(bench.wanted, got)
    # What came in another shape was allowed nothing.
    allowed = check.allowed or PROBE_STEP * norm(bench.wanted)
    if not left <= allowed or undone_by_chance(bench, change):  # also where one of them is not a number
        return None
    # As of two tables that are exchanged, where the port looks up twice in one of them.
    if bench.makes_wrong(change.batch, change.state, change.twice):
        return None
    before = f"{check.multiple:.3g} times" if check.allowed else check.note
    evidence = (
        f"{change.what}, the candidate gives the reference's {check.key}: {left / allowed:.2g} "
        f"times what rounding allows, where it was {before}"
    )
    return Undone.by(change, evidence, bench.explains(left, bench.apart))


def changes_to_try(bench: Bench) -> Iterator[Change]:
    """Yields the changes that would undo usual mistakes in what is fed or carried over."""
    yield from changes_of_the_order(bench.recorder.towers)
    of_labels = bench.widths if bench.first.quantity == "loss" else set[int]()
    yield from changes_of_the_inputs(bench.batch, of_labels)
    yield from changes_of_the_flatten(bench.first, bench.reference, bench.state)
    yield from changes_of_the_gates(bench.state)
    yield from changes_of_the_state(bench.first, bench.state)


def _of_the_statistics(first: FirstDifference, recorder: Repeats, join: Join, candidate: Trace) -> list[Cause]:
    step = first.check.step
    got = join.read(parse_key(first.check.key), candidate.step(step))
    if recorder.towers == 1 or got is None:
        return []
    asked = recorder.batch_norm_updates
    for policy, survivor in POLICIES.items():
        if policy == asked:
            continue
        traced = recorder.repeat_reference(step, policy)
        if traced is None:
            return []
        wanted = traced.step(step).read(first.check.key)
        if wanted.shape == got.shape and distance(wanted, got) <= first.check.allowed:
            return [
                build_cause(
                    "statistics_of_another_tower",
                    evidence=f'with [tf] batch_norm_updates = "{policy}" the towers give the candidate\'s {first.check.key}',
                    survivor=survivor,
                    wanted=POLICIES.get(asked, asked),
                )
            ]
    return []


def _of_the_inputs(bench: Bench) -> list[Cause]:
    # A norm takes a shift of its input out again: only the moving mean still shows it.
    try:
        cause = next((cause for knob in knobs(bench) if (cause := solved(bench, knob))), None)
    except SideFailed:
        return []
    return [cause] if cause else []


def _of_the_batch_norm(first: FirstDifference, recorder: Repeats, join: Join, reference: Trace) -> list[Cause]:
    kinds = {entry.get("kind") for entry in reference.variables.values()}
    if recorder.towers == 1 or "statistic" not in kinds or first.quantity not in ("act", "loss"):
        return []
    step = first.check.step
    wanted = reference.step(step).read(first.check.key)
    for over_all_ranks, whose, where in ((None, "port", "each rank's own shard"), (True, "graph", "all ranks")):
        try:
            traced = recorder.repeat_with_batch_norm(step, over_all_ranks)
        except SideFailed:
            return []
        got = join.read(parse_key(first.check.key), traced.step(step))
        if got is not None and got.shape == wanted.shape and distance(wanted, got) <= first.check.allowed:
            return [
                build_cause(
                    "sync_batch_norm",
                    whose,
                    evidence=f"with batch norm over {where} the candidate gives the reference's {first.check.key}: "
                    f"{distance(wanted, got) / first.check.allowed:.2g} times what rounding allows, where it was "
                    f"{first.check.multiple:.3g} times",
                    towers=recorder.towers,
                )
            ]
    return []
