"""What a scan gives: towers, findings, files that could not be read, effort and plan."""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Severity(enum.IntEnum):
    """How much a finding says, in ascending order; the names are those of SARIF."""

    NOTE = 1
    WARNING = 2
    ERROR = 3

    @property
    def word(self) -> str:
        """As it is printed and typed."""
        return self.name.lower()


class Place(NamedTuple):
    """A place in a file.

    Fields:
      path: as it is reported, with slashes.
      line: from 1; in a notebook of its code cells, written one behind the other, each behind a line with its number.
      column: from 1, in letters.
      end_column: behind the last letter that is meant, on the same line.
      text: the line.
    """

    path: str
    line: int
    column: int = 1
    end_column: int = 1
    text: str = ""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


class Fact(NamedTuple):
    """One thing that is known of a place where towers are built.

    Fields:
      what: e.g. "combination".
      value: in words.
      place: where it stands, or None.
    """

    what: str
    value: str
    place: Place | None = None


@dataclass(frozen=True)
class Towers:
    """A place where a script is spread over devices or processes.

    Attributes:
      kind: `TOWERS`, `EVALUATION`, `SERIAL`, `WRITTEN_OUT`, or the name of a library's way.
      place: where.
      function: that builds them, "" outside of any.
      facts: what is known of it.
    """

    kind: str
    place: Place
    function: str
    facts: tuple[Fact, ...] = ()

    def fact(self, what: str) -> str:
        """Returns a fact's value, "" where it is not known."""
        return next((each.value for each in self.facts if each.what == what), "")


TOWERS, EVALUATION, SERIAL = "towers", "towers for evaluation", "one device after the other"
WRITTEN_OUT = "towers that are written out"


@dataclass(frozen=True)
class Finding:
    """One thing that will go wrong, or has to be known.

    Attributes:
      rule: its identifier, e.g. "TP101".
      severity: of the rule, a lower one where less follows, or a note where the source does not decide it.
      place: where.
      message: what the code does here, with its names.
      fingerprint: the same while neither the line nor what is around it changes, wherever in the file it moves to.
    """

    rule: str
    severity: Severity
    place: Place
    message: str
    fingerprint: str = ""


class Unread(NamedTuple):
    """A file of which nothing, or not all, could be read.

    Fields:
      path: as it is reported.
      why: in words.
      line: where what is no Python begins, or 0.
    """

    path: str
    why: str
    line: int = 0


class Effort(NamedTuple):
    """How much work the port of one script is.

    Fields:
      path: of the script.
      size: "S", "M" or "L".
      reasons: what makes it so, each with its place.
      taken: layers and ops by name that `parity port` writes as they are.
    """

    path: str
    size: str
    reasons: tuple[Fact, ...]
    taken: tuple[str, ...]


class Plan(NamedTuple):
    """What to do next for one script.

    Fields:
      path: of the script that is started.
      commands: as they are typed.
      notes: what has to be filled in, or seen to first.
    """

    path: str
    commands: tuple[str, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Scan:
    """Everything.

    Attributes:
      roots: what was scanned.
      files: how many were looked at.
      lines: of those that were read.
      towers: by file and line.
      findings: by file and line; those that are suppressed are not among them.
      unread: files that could not be read whole.
      efforts: one for each script that trains with towers.
      plans: one for each script that is started.
      suppressed: how many findings a comment in the source or the baseline leaves out.
    """

    roots: Sequence[str]
    files: int
    lines: int
    towers: Sequence[Towers] = ()
    findings: Sequence[Finding] = ()
    unread: Sequence[Unread] = ()
    efforts: Sequence[Effort] = ()
    plans: Sequence[Plan] = ()
    suppressed: int = 0
    notes: Mapping[str, str] = field(default_factory=dict)

    def count(self, severity: Severity) -> int:
        """Returns the number of findings of a severity."""
        return sum(1 for each in self.findings if each.severity == severity)
