"""What is wrong with a case, and where."""

import difflib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from parity.trace.escape import one_line


class CaseError(ValueError):
    """A case cannot be run; the message lists every problem with its place and what to write."""


class Problem(NamedTuple):
    """One thing that is wrong.

    Fields:
      key: path of the key, e.g. ("torch", "opt_level").
      expected: what should have been there.
      got: what was.
      write: what to write instead, a sentence.
    """

    key: tuple[str, ...]
    expected: str
    got: str
    write: str


def suggest(name: str, known: Iterable[str]) -> str:
    """Returns "Did you mean 'towers'?", or the known names where none is near."""
    names = sorted(known)
    # 0.6 is difflib's own: "tower" for "towers" is near (0.91), "seed" for "steps" is not (0.44).
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return f"Did you mean {near[0]!r}?" if near else f"Write one of {', '.join(names)}, or leave it out."


def shown(value: Any) -> str:
    """Returns a value as a message shows it, cut where it is long."""
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    # A line of a terminal; a table given in the place of a word may be pages.
    return text if len(text) <= 80 else text[:77] + "..."


def describe(where: str, problems: Sequence[tuple[str, Problem]]) -> str:
    """Returns the text of a `CaseError`: a heading, and a line for each problem with its place in front.

    Args:
      where: the file.
      problems: pairs of place ("case.toml:12" or "--towers") and problem.
    """
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    lines = [f"case: expected {where} to be a case, got {count}. Fix what is listed."]
    for place, problem in problems:
        key = one_line(".".join(problem.key)) or "the file"
        lines.append(f"  {place}: {key}: expected {problem.expected}, got {problem.got}. {problem.write}")
    return "\n".join(lines)
