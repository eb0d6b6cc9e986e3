"""Says on stderr what is recorded of a program: the plan with the first step, hazards and what is missing at the end."""

import math
import sys
import time
from collections.abc import Mapping
from typing import Any

from parity.record.combination import ONE_FACTOR
from parity.record.merge import Merging, Ranks
from parity.trace import Trace

LINE_SECONDS = 5.0
LOOKED_AT = 100  # steps in which optimizers are looked for that have not trained before
COMBINED = {
    "mean": "gradients averaged",
    "sum": "gradients added up",
    "none": "gradients NOT shared",
    "one rank's": "gradients of one rank",
    "other": "gradients combined in another way",
    "unknown": "gradients combined in a way that the numbers do not show",
}


class Report:
    """Prints a few lines while a program is recorded, and when it has ended.

    Args:
      wanted: number of steps to record, or None for all.
    """

    def __init__(self, wanted: int | None) -> None:
        self._of = f" of {wanted}" if wanted is not None else ""
        self._printed = time.monotonic()
        self._looked = 0
        self._planned: list[str] = []

    def progress(self, ranks: Ranks) -> None:
        """Takes what there is after another step."""
        steps = ranks.steps()
        if steps[self._looked :] and self._looked < LOOKED_AT:
            self._plan(Merging(ranks, steps[self._looked :]))
            self._looked = len(steps)
        # Now and then: steps of a small model take milliseconds, and stderr may be a program's log.
        if steps and time.monotonic() - self._printed > LINE_SECONDS:
            self._printed = time.monotonic()
            _line(f"record: step {len(steps)}{self._of}")

    def _plan(self, merging: Merging) -> None:
        # Each optimizer once, when it first trains: a GAN's second one may do so in a later step.
        new = [name for name in merging.trained if name not in self._planned]
        for name in new:
            merging.step(merging.first[name])
        facts = merging.facts()
        lines = plan_of({**facts, "sections": {name: _of_section(facts, name) for name in new}})
        # The first line says ranks and wrappers, which a second optimizer does not change.
        for line in lines[bool(self._planned) :] if new else []:
            _line(f"record: {line}")
        self._planned += new

    def end(self, trace: Trace, whole: bool, ranks: Ranks, code: int) -> None:
        """Says what the trace holds."""
        if not self._planned:
            for line in plan_of(trace.facts):
                _line(f"record: {line}")
        state = "" if whole else f"; {what_is_missing(ranks, code)}, so the trace says that it is not complete"
        _line(f"record: {_count(len(trace.step_numbers), 'step')} in {trace.directory}{state}")
        for hazard in trace.facts["hazards"]:
            _line(f"  hazard {hazard['name']}: {hazard['evidence']}.")
            _line(f"    {hazard['meaning']}")

    def nothing(self, ranks: Ranks, code: int) -> None:
        """Says that nothing was recorded."""
        got = (
            "none that all ranks ended"
            if ranks.all_there
            else f"those of {len(ranks.facts)} of {ranks.world_size} ranks"
            if ranks.facts
            else "no optimizer's step in any process of the command that Python's PYTHONPATH reaches"
        )
        _line(f"record: expected a training step of every rank, got {got}. No trace was written.")
        if not ranks.facts:
            _line(
                "  What stands behind -- is recorded as a PyTorch program; a TensorFlow script stands there without it."
            )

    def hangs(self, why: str) -> None:
        """Says that the program is ended because it hangs."""
        _line(f"record: expected another training step, got {why}. The program is ended.")


def _of_section(facts: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    own: Mapping[str, Any] = facts.get("sections", {}).get(name, facts)
    return own


def plan_of(facts: Mapping[str, Any]) -> list[str]:
    """Returns the lines that say what a program does in a training step."""
    sections = facts.get("sections") or {"": facts}
    wrappers = list(dict.fromkeys(_wrapper(each) for each in facts["wrappers"]))
    lines = [f"{_count(facts['ranks'], 'rank')}; {', '.join(wrappers) or 'no wrapper'}; {_precision(facts)}"]
    for name, section in sections.items():
        lines.append(f"{name or 'optimizer'}: {_update(section, facts)}")
    return lines


def _update(section: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    parts = [COMBINED.get(section["combine"], section["combine"]) + _by_whom(facts)] if facts["ranks"] > 1 else []
    if section["backward_passes"] > 1:
        held = ", no_sync before the last" if facts["passes"].get("no_sync") else ""
        parts.append(f"of {section['backward_passes']} backward passes each{held}")
    if not math.isclose(section.get("scaled", 1.0), 1.0, rel_tol=ONE_FACTOR):
        parts.append(f"multiplied by {section['scaled']:.4g} after that")
    if section["clipping"]:
        parts.append("clipped" + (f" {section['clipping']}" if facts["ranks"] > 1 else ""))
    schedules = ", ".join(dict.fromkeys(each["name"] for each in facts["schedules"]))
    optimizer = section["optimizer"]["name"].rpartition(".")[2]
    parts.append(f"applied by {optimizer}{f' with {schedules}' if schedules else ''}")
    return ", ".join(parts)


def _by_whom(facts: Mapping[str, Any]) -> str:
    own = ", ".join(facts["collectives"])
    hooks = [each["hook"] for each in facts["wrappers"] if each.get("hook")]
    return (f" by the hook {hooks[0]}" if hooks else "") + (f" by the program's own {own}" if own else "")


def _wrapper(described: Mapping[str, Any]) -> str:
    return f"{described['name']} of {described['model']}"


def _precision(facts: Mapping[str, Any]) -> str:
    autocast = "+".join(facts["autocast"])
    return str(facts["precision"]) + (f", autocast to {autocast}" if autocast else "")


def what_is_missing(ranks: Ranks, code: int) -> str:
    """Returns why a trace is not complete."""
    missing = ranks.world_size - len(ranks.facts)
    if missing:
        return f"{missing} of {ranks.world_size} ranks recorded nothing"
    ended = [str(each["rank"]) for each in ranks.facts if not each.get("closed")]
    if code:
        return f"the program ended with code {code}"
    return f"rank {', '.join(ended)} did not end well" if ended else "the ranks made different numbers of steps"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _line(text: str) -> None:
    sys.stderr.write(text + "\n")
    # At once: programs are watched while they train, and killed.
    sys.stderr.flush()
