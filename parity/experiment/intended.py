"""Says of every declared difference whether the port has it, by building the reference without it where the sides differ."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from parity.case import Case, declared_differences, without
from parity.diagnose.catalogue import build_cause
from parity.experiment.levels import judge_function
from parity.experiment.recorder import Recorder
from parity.experiment.spec import Progress
from parity.judge.result import DeclaredDifference, Found, Level
from parity.worker.launch import Sides

ABSENT = "declared_difference_absent"


def look_for_declared(
    case: Case, sides: Sides, out: Path, levels: Mapping[str, Level], live: bool, tick: Progress
) -> tuple[list[DeclaredDifference], dict[str, Level]]:
    """Returns the declared differences and what became of them, and the levels; an absent one is the first cause of its.

    Args:
      case: what was run, against a reference with all of them in it.
      sides: started processes.
      out: folder for further traces.
      levels: those that were decided, by name; causes are added to the first that is different.
      live: whether TensorFlow is at hand to build a reference without one of them.
      tick: told how far a run is.

    Raises:
      SideFailed: a side could not do its part.
    """
    declared = declared_differences(case)
    # Only where the sides differ: declared differences that are all there leave nothing to look for.
    different = next((level for level in levels.values() if level.verdict == "different"), None)
    # All of them hold where the port is the reference with all of them in it.
    found: Found = "holds" if all(level.verdict == "same" for level in levels.values()) else "not_known"
    absent: tuple[str, ...] = ()
    if different is not None and live:
        absent = _absent(case, sides, out, tuple(each.key for each in declared), tick)
    # First of all causes: it explains every tensor of the level.
    if absent and different is not None:
        texts = " and ".join(each.text for each in declared if each.key in absent)
        evidence = "against a reference without it the port is the same in every tensor of level 1"
        cause = build_cause(ABSENT, evidence=evidence, texts=texts)
        levels = {**levels, different.name: replace(different, causes=[cause, *different.causes])}
    became = [DeclaredDifference(*each, "absent" if each.key in absent else found) for each in declared]
    return became, dict(levels)


def _absent(case: Case, sides: Sides, out: Path, keys: tuple[str, ...], tick: Progress) -> tuple[str, ...]:
    # Each alone, then all together: pairs of more than two are not worth their runs.
    for tried in [*((key,) for key in keys), *([keys] if len(keys) > 1 else [])]:
        changed = without(case, tried)
        # Level 1 alone decides, without draws: whether it is another function is all that is asked.
        recorded = Recorder(changed, sides, out / f"without-{'-'.join(tried)}", False, tick).record()
        if judge_function(recorded, range(case.steps)).verdict == "same":
            return tried
    return ()
