"""What became of one case among several."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from parity.exit_codes import ExitCode

# What weighs more comes first: a difference is worth more than what could not be compared, and a bug here more than both.
HEAVIEST_FIRST = (
    ExitCode.INTERRUPTED,
    ExitCode.INTERNAL_ERROR,
    ExitCode.DIFFERENT,
    ExitCode.INCOMPARABLE,
    ExitCode.UNFINISHED,
    ExitCode.SAME,
)


class Outcome(NamedTuple):
    """One case.

    Fields:
      label: the case as it was named.
      code: its exit code; None where it was not run.
      result: what its JSON report says, {} where there is none.
      seconds: that it took.
      markdown, junit: its reports as text, "" where there is none.
      printed: what it printed on standard error.
    """

    label: str
    code: int | None
    result: dict[str, Any]
    seconds: float = 0.0
    markdown: str = ""
    junit: str = ""
    printed: str = ""

    @property
    def verdict(self) -> str:
        """The verdict; "not run" where there is none."""
        if self.code is None:
            return "not run"
        return str(self.result.get("verdict", "incomparable"))

    @property
    def why(self) -> str:
        """The first difference and its cause, or why nothing could be compared, in one line; "" where all is the same."""
        error, first = self.result.get("error"), self.result.get("first_difference")
        if error:
            return " ".join(str(error["message"]).split())
        if first:
            causes = self.result.get("causes") or [{"title": "no cause is named"}]
            return f"step {first['step']}, {first['key']}: {causes[0]['title']}"
        if self.code and self.verdict != "same":
            return " ".join(self.printed.split())[-200:] or f"it ended with {self.code}"
        return "; ".join(self.result.get("qualifiers", []))


def label_of(case: Path) -> str:
    """Returns a case as it is named in a file's name: what it is called, without what separates folders."""
    parts = [part for part in case.with_suffix("").parts if part not in ("/", ".", "..")]
    return "-".join(parts) or case.resolve().name


def worst_code(outcomes: Iterable[Outcome]) -> ExitCode:
    """Returns the exit code of all: that of the outcome which weighs most."""
    codes = {outcome.code for outcome in outcomes}
    known = next((code for code in HEAVIEST_FIRST if code in codes), ExitCode.SAME)
    # A process that a signal ended has a code that no command gives.
    return ExitCode.INTERNAL_ERROR if codes - {None, *HEAVIEST_FIRST} and known != ExitCode.INTERRUPTED else known
