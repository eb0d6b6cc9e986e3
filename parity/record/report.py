"""Says on stderr what is recorded of a program: the plan with the first step, hazards and what is missing at the end."""

import sys
import time
from typing import Any

from parity.record.merge import Ranks
from parity.trace import Trace

LINE_SECONDS = 5.0


class Report:
    """Prints a few lines while a program is recorded, and when it has ended.

    Args:
      wanted: number of steps to record, or None for all.
    """

    def __init__(self, wanted: int | None) -> None:
        self._of = f" of {wanted}" if wanted is not None else ""
        self._printed = time.monotonic()

    def progress(self, ranks: Ranks) -> None:
        """Takes what there is after another step."""
        # Now and then: steps of a small model take milliseconds, and stderr may be a program's log.
        if ranks.steps() and time.monotonic() - self._printed > LINE_SECONDS:
            self._printed = time.monotonic()
            _line(f"record: step {len(ranks.steps())}{self._of}")

    def end(self, trace: Trace, whole: bool, ranks: Ranks, code: int) -> None:
        """Says what the trace holds."""
        state = "" if whole else f"; {_what_is_missing(ranks, code)}, so the trace says that it is not complete"
        _line(f"record: {len(trace.step_numbers)} steps of {ranks.world_size} ranks in {trace.directory}{state}")

    def nothing(self, ranks: Ranks, code: int) -> None:
        """Says that nothing was recorded."""
        _line("record: expected a training step of every rank, got none. No trace was written.")

    def hangs(self, ranks: Ranks, seconds: float) -> None:
        """Says that the program is ended because it hangs."""
        _line(f"record: expected another training step, got none for {seconds:.0f} s. The program is ended.")


def _what_is_missing(ranks: Ranks, code: int) -> str:
    if code:
        return f"the program ended with code {code}"
    ended = [str(each["rank"]) for each in ranks.facts if not each.get("closed")]
    missing = ranks.world_size - len(ranks.facts)
    if missing:
        return f"{missing} of {ranks.world_size} ranks recorded nothing"
    return f"rank {', '.join(ended)} did not end well" if ended else "the ranks made different numbers of steps"


def _line(text: str) -> None:
    sys.stderr.write(text + "\n")
    # At once: programs are watched while they train, and killed.
    sys.stderr.flush()


def plan_of(facts: dict[str, Any]) -> str:
    """Returns in one line what was seen of a program: ranks, wrapper, combination, optimizer."""
    wrappers = ", ".join(facts.get("wrappers", {})) or "no wrapper"
    combine = {"mean": "averaged", "sum": "summed", "none": "not combined"}.get(facts["combine"], facts["combine"])
    optimizer = facts["optimizer"]["name"].rpartition(".")[2]
    return f"{facts['ranks']} ranks, {wrappers}; gradients {combine}; applied by {optimizer}"
