"""Adds to levels what only the traces know: mixed precision, histograms and losses, variables that one side lacks."""

from collections.abc import Sequence
from dataclasses import replace

from parity.diagnose import Evidence
from parity.diagnose.catalogue import is_place_only
from parity.diagnose.detectors.mixed_precision import find_mixed_causes
from parity.diagnose.variables import (
    Read,
    read_in_place,
    shared_by_uses,
    structural_causes,
    structural_check,
    trained_extras,
)
from parity.experiment.layers import LOCATED_QUANTITIES
from parity.experiment.recording import Recorded
from parity.experiment.runs import NOISY_RUNS
from parity.judge.level import level_from, reason_from, shown
from parity.judge.levels.mixed import Halves, all_skipped, judge_mixed, judge_scale
from parity.judge.result import Check, Explained, FirstDifference, Level, Result, decide
from parity.judge.tensor_details import MOST_ELEMENTS, Pairs, look_closer, losses_of
from parity.locate.layer_names import layer_names
from parity.locate.located import Located
from parity.mapping import MappingError, Structure
from parity.mapping.trace_map import Join
from parity.trace import SKIPPED, Trace, parse_key

# Level 4: decides what the port did at its level of mixed precision beside its own float32.


HALF = "{judged:,} tensors; at most {highest:.2g} of what half precision may round"


def judge_halves(halves: Halves) -> Level:
    """Decides level 4."""
    checks = judge_scale(halves) + judge_mixed(halves)
    reason, verdict = reason_from(checks, HALF), decide(checks)
    # Every check of a skipped step is "not run", and none would say that nothing was trained.
    if all_skipped(halves.mixed):
        reason, verdict = (
            "every step is skipped: the gradients overflow at every loss scale that was tried",
            "different",
        )
    first = mixed_difference(halves, checks)
    causes = find_mixed_causes(first, halves)
    return level_from("mixed", checks, reason, first=first, causes=causes, notes=_notes(halves), verdict=verdict)


def mixed_difference(halves: Halves, checks: Sequence[Check]) -> FirstDifference | None:
    """Returns the first tensor that is not the same, in the order of the steps and of computation."""
    found = [check for check in checks if check.verdict in ("different", "incomparable")]
    if not found:
        return None
    # Lockstep first: a free run follows from it.
    check = min(found, key=lambda each: (each.run != "lockstep", each.step))
    scale = parse_key(check.key).quantity == "state"  # it is told by its note
    return shown(None, check, {} if scale else {"lockstep": (halves.full, halves.mixed)})


def _notes(halves: Halves) -> list[str]:
    notes = [f"{halves.opt_level} in {halves.dtype}; the names are the port's"]
    for what, trace in (("lockstep", halves.mixed), ("free run", halves.free)):
        count = sum(_skipped(trace, step) for step in trace.step_numbers)
        if count:
            total = len(list(trace.step_numbers))
            notes.append(f"{what}: {count} of {total} steps were skipped because gradients overflowed")
    if len(halves.draws) > NOISY_RUNS:
        notes.append(
            f"rounding was drawn {len(halves.draws)} times instead of {NOISY_RUNS} where gradients differed first: at a "
            "non-differentiable point, such as a ReLU's of 0, they jump"
        )
    return notes


def _skipped(trace: Trace, step: int) -> bool:
    file = trace.step(step)
    return SKIPPED in file and bool(file.read(SKIPPED))


# Adds to a result what only the traces know: how the values of tensors that differ are spread, and the losses.


def look_at_levels(result: Result, recorded: Recorded) -> None:
    """Looks closer at each level of a case that was decided, while its traces are there."""
    traces = recorded.lockstep
    exact = (traces.reference64, traces.candidate64)
    pairs: dict[str, Pairs] = {
        "function": {
            "init": exact,
            "lockstep": exact,
            **({} if recorded.quick else {"free": (recorded.reference_free, recorded.candidate_free)}),
        },
        "float32": {"lockstep": (traces.reference32, traces.candidate32)},
    }
    for name, each in pairs.items():
        look_at_level(result, name, recorded.join, each)


def look_at_level(result: Result, name: str, join: Join, pairs: Pairs) -> None:
    """Looks closer at one level, within what may be read for all of them together."""
    level = result.levels[name]
    if not level.checks:
        return
    # What earlier levels and parts have read counts: the limit is for the whole comparison.
    left = MOST_ELEMENTS - sum(each.size for each in result.closer)
    result.closer += look_closer(join, level, pairs, left)
    losses = losses_of(level, pairs)
    result.losses += [losses] if losses else []


# Puts into level 1 that the two sides do not hold the same variables.

EFFECTLESS = (
    "{} of the port: the reference has nothing like it, and no gradient but rounding reaches it: nothing came of it"
)


def with_structure(
    level: Level, structure: Structure, question: MappingError | None, located: Located | None, evidence: Evidence
) -> Level:
    """Returns level 1 with what it says of variables that only one side has.

    Where outputs or losses differ, the first difference stays where they do, and what is read there names the cause; else
    the parameters themselves are the first difference.

    Args:
      level: level 1.
      structure: what one side holds and the other does not.
      question: the error that asks for lines of a mapping.
      located: where the forward passes part, or None.
      evidence: the float64 lockstep traces.

    Raises:
      MappingError: nothing differs, though the reference has variables that nothing of the port belongs to.
    """
    if not structure:
        return level
    first = level.first_difference
    read = _read(located, evidence) if located is not None else None
    # Of several variables that only one side has, those are named first that are read where passes part.
    structure = read_in_place(structure, read) if read is not None else structure
    sizes = structure.missing or structure.resized
    # Nothing differs: what the port has beyond the reference takes no part in any result.
    if first is None and not structure.untied and not trained_extras(structure, evidence) and (question or not sizes):
        if sizes and question is not None:
            raise question
        return level.with_notes(EFFECTLESS.format(", ".join(part.name for part in structure.extra)))
    # The check that parameters are missing stands beside the others, so that no count calls the level the same.
    check = structural_check(structure, evidence)
    if check is not None:
        level = replace(level, checks=[*level.checks, check], verdict="different")
    # An update has moved what the port trains more before a later step begins, so that all of that comes behind it.
    behind = first is not None and first.check.step > 0 and bool(trained_extras(structure, evidence))
    if first is None or first.quantity not in LOCATED_QUANTITIES or behind:
        if check is None:
            return level
        first = FirstDifference(check, "state", "parameters", "", None)
        return replace(
            level, first_difference=first, causes=[*structural_causes(structure, evidence, None), *level.causes]
        )
    here = structural_causes(structure, evidence, read) if read is not None else []
    # What is told of the place comes first, then what the numbers say, then what only one side holds elsewhere.
    known = [*here, *level.causes]
    if located is not None and all(is_place_only(cause.name) for cause in known[:1]):
        # A parameter of two uses can hold one variable's values only: where the other is used nothing else is right.
        key = Explained(first.check.step, first.check.key)
        ops = located.place.passes[0].ops, located.place.passes[1].ops
        shared = shared_by_uses(structure, evidence, ops, key)
        here = [*([shared] if shared else []), *here]
    names = {cause.name for cause in here}
    elsewhere = [cause for cause in structural_causes(structure, evidence, None) if cause.name not in names]
    return replace(level, causes=[*here, *level.causes, *elsewhere])


def _read(located: Located, evidence: Evidence) -> Read:
    first, place = located.first, located.place
    shapes = {name: tuple(entry["shape"]) for name, entry in evidence.reference.variables.items()}
    of_layer = [name for name, layer in layer_names(shapes).items() if layer == place.layer]
    there = [*(place.port.weights if place.port else []), *(place.extra.op.weights if place.extra else [])]
    return Read(frozenset([*place.op.weights, *of_layer]), frozenset(there), first.check.key, first.check.step)
