"""Compares two recorded traces without running anything."""

import contextlib
import gc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from parity.case import load_mapping
from parity.diagnose import Evidence, find_causes
from parity.diagnose.located.search import fitting
from parity.experiment.diagnosis import outliving
from parity.experiment.layers import KeptPasses, locate_first, with_location
from parity.experiment.level_details import look_at_level
from parity.experiment.levels import not_run
from parity.experiment.mapping.of_traces import mapping_of_traces
from parity.experiment.session import LEVELS
from parity.experiment.spec import Progress, silent
from parity.judge.level import first_difference, level_from
from parity.judge.levels.fixed_tolerance import judge_plain, starts_apart
from parity.judge.output_layouts import take_layouts
from parity.judge.result import Check, Result
from parity.mapping.trace_map import Join, Renaming
from parity.trace import Trace, trace_name

NO_FLOAT64 = "neither trace is in float64"
OF_FLOAT32 = 1e-4  # of outputs that one side has in float32: what differs by less is not located
UNMEASURED = (
    "no float64 shadow of either side is at hand, so tolerances are not measured: weaker evidence than `parity run`"
)


def compare_traces(
    reference: Path,
    candidate: Path,
    mapping_file: Path | None = None,
    in_detail: bool = False,
    tick: Progress = silent,
) -> Result:
    """Judges two traces step by step.

    Args:
      reference: a trace folder.
      candidate: another.
      mapping_file: a case or a file with its [mapping] tables; by default names and shapes decide.
      in_detail: look closer at tensors that differ, and keep the losses: for reports that show them.
      tick: told how far it is: what, done, total.

    Raises:
      TraceError: a folder is not a whole trace.
      MappingError: the variables do not join.
    """
    with _without_collecting():
        one, other = Trace(reference), Trace(candidate)
        entries, named = load_mapping(mapping_file) if mapping_file else ({}, {})
        mapping = mapping_of_traces(one, other, entries)
        names = {quantity: Renaming(quantity, found) for quantity, found in named.items()}
        return compare_joined(one, other, Join(mapping, names, other.facts.get("slots") or []), in_detail, tick)


@contextlib.contextmanager
def _without_collecting() -> Iterator[None]:
    # Of 100,000 tensors a million objects stay, none of them in a cycle; looking through them again and again is a fifth
    # of the time that judging takes.
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def compare_joined(one: Trace, other: Trace, join: Join, in_detail: bool = False, tick: Progress = silent) -> Result:
    """Judges two traces step by step whose names and layouts are known.

    Args:
      one: the reference.
      other: the candidate.
      join: names and layouts.
      in_detail: as of `compare_traces`.
      tick: as of `compare_traces`.

    Raises:
      DamagedError: a file of one of them is not what was written.
    """
    with one.following(), other.following():
        return _compared(one, other, join, in_detail, tick)


def _compared(one: Trace, other: Trace, join: Join, in_detail: bool, tick: Progress) -> Result:
    # In the reference's order; steps that one side lacks are named below, and not judged.
    steps = [step for step in one.step_numbers if step in set(other.step_numbers)]
    layouts = take_layouts(join, one, other)
    checks = judge_plain(join, one, other, steps, lambda done: tick("judge steps", done, len(steps)))
    for step in sorted(set(one.step_numbers) ^ set(other.step_numbers)):
        whose = "candidate" if step in one.step_numbers else "reference"
        checks.append(
            Check("free", step, trace_name("loss", tower=0), "incomparable", note=f"the {whose} has no step {step}")
        )
    first = first_difference(join, checks, {"free": (one, other)})
    towers = int(one.facts.get("towers") or one.facts.get("ranks") or 1)  # null is as good as none
    evidence = Evidence(join, one, other, None, towers)
    # A missing tensor has no cause in numbers.
    different = first if first is not None and first.check.verdict == "different" else None
    causes, notes = outliving(lambda: find_causes(different, evidence)) if different is not None else ([], [])
    # By the precision of the recording: what float64 shows no float32 tolerance may cover.
    name = "function" if one.facts.get("precision") == "float64" else "float32"
    # What was set aside, as a counter that one side keeps alone, proves nothing.
    judged = sum(check.verdict != "not_run" for check in checks)
    reason, agree = f"{judged:,} tensors of {len(steps)} steps", other.facts.get("ranks_agree", True)
    level = level_from(name, checks, reason, first=first, causes=causes or [], notes=notes, ranks_agree=agree)
    unequal = starts_apart(join, one, other)
    # Later steps start from other weights on each side: there every layer differs.
    if first and first.check.step in steps[:1] and not unequal:
        passes = KeptPasses(one, other)
        located, notes = outliving(lambda: locate_first(first, passes, join, one, "free", OF_FLOAT32))
        level = replace(level.with_notes(*notes), causes=fitting(level.causes, located))
        level = with_location(level, located)
    result = Result(
        levels={each: level if each == name else not_run(each, "two traces decide one level") for each in LEVELS},
        reference={**one.facts, "producer": one.producer},
        candidate={**other.facts, "producer": other.producer},
        pairs=join.mapping.texts(),
        unjudged=[] if name == "function" else [f"level function: {NO_FLOAT64}"],
        notes=[UNMEASURED, *layouts, *_other_start(unequal, len(join.mapping.pairs))],
    )
    if in_detail:
        look_at_level(result, name, join, {"free": (one, other)})
    return result


def _other_start(apart: list[str], variables: int) -> list[str]:
    if not apart:
        return []
    return [
        f"the two start from other values of {len(apart)} of {variables} variables, first of {apart[0]}: "
        "what differs later may follow from that alone; start both from the same checkpoint"
    ]
