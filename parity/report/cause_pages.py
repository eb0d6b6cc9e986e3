"""A page for each cause of the catalogue: what it means, what it looks like, how it is proven, and what to change.

`python -m parity.report.cause_pages docs` writes them, and the list, into the folder of the documentation.
"""

import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from string import Formatter
from typing import NamedTuple

from parity.diagnose.catalogue import CAUSES, FAMILIES, GENERAL, PLACE, CauseInfo, Proof, Wording
from parity.diagnose.catalogue.operations import OF_ANY

WIDTH = 100  # of a page in a terminal
PROOFS = {
    Proof.NUMBERS: "The recorded numbers of both sides fit it, up to rounding: what the port has is what the "
    "reference has, so changed.",
    Proof.RECOMPUTED: "The layer or op is computed again from what goes into it, which is the same on both sides: done as "
    "the graph does it gives the reference's numbers, done this way the port's.",
    Proof.ONE_CHANGE: "One op of a side's forward pass is changed and the pass computed on from there: it then gives the "
    "other side's numbers, to rounding.",
    Proof.RERUN: "The step is run again with this reverted, or with what would show it: both sides then give the same "
    "numbers, or the port gives what only this explains.",
    Proof.STRUCTURE: "The names, shapes and uses of the variables on both sides, as the mapping matches them.",
}


class Section(NamedTuple):
    """A part of a page.

    Fields:
      heading: its title.
      lines: sentences, or words of reports where `quoted`.
      quoted: whether the lines are what reports print, with fields in angle brackets.
    """

    heading: str
    lines: Sequence[str]
    quoted: bool = False


def sections_of(row: CauseInfo) -> list[Section]:
    """Returns the page of a cause, part by part."""
    wordings = list(_wordings(row))
    return [
        Section("What it means", [f"{row.meaning[0].upper()}{row.meaning[1:]}.", *_precedence(row)]),
        Section("What it looks like", _each_once(shown(each.title) for each in wordings), quoted=True),
        Section("How it is proven", [words for proof, words in PROOFS.items() if proof in row.proof]),
        Section("What to change", _each_once(shown(each.fix) for each in wordings), quoted=True),
        Section("Related causes", related(row)),
    ]


def related(row: CauseInfo) -> list[str]:
    """Returns what the catalogue says of a cause and others, in sentences that name these in backticks."""
    relations = [
        ("Not named beside it, because they follow from it", row.implies),
        ("May follow from it", row.doubts),
        ("May stay named beside it, because it leaves them open", row.refined_by),
        (
            "May itself follow from",
            [each.name for each in CAUSES.values() if row.name in (*each.implies, *each.doubts)],
        ),
        (f"Others of {_part(row)}", [each.name for each in FAMILIES[row.family] if each.name != row.name]),
    ]
    return [f"{words}: {', '.join(f'`{name}`' for name in names)}." for words, names in relations if names]


def shown(template: str) -> str:
    """Returns a title or fix with the names of its fields in angle brackets."""
    # As `str.format` reads it, double braces included, which a search for braces would take for fields.
    parts = Formatter().parse(template)
    return "".join(text + (f"<{name}>" if name and name != "where" else "") for text, name, _, _ in parts)


def as_text(name: str) -> str:
    """Returns the page of a cause for a terminal."""
    row = CAUSES[name]
    lines = [f"{name} ({row.family})"]
    for section in sections_of(row):
        begin = "* " if section.quoted else "  "
        lines += ["", section.heading, *(_wrapped(begin, line.replace("`", "")) for line in section.lines)]
    return "\n".join(lines)


def as_markdown(name: str) -> str:
    """Returns the page of a cause for the documentation."""
    row = CAUSES[name]
    lines = [f"# {name}", "", f"[All causes](../causes.md), of which this is one of: *{row.family}*."]
    for section in sections_of(row):
        marked = (
            [f"* `{line}`" for line in section.lines]
            if section.quoted
            else [*_paragraphs(_linked(line) for line in section.lines)]
        )
        lines += ["", f"## {section.heading}", "", *marked]
    return "\n".join(lines) + "\n"


def list_as_text() -> str:
    """Returns all causes for a terminal, by the part of a step in which they begin."""
    width = max(map(len, CAUSES))
    return "\n\n".join(
        "\n".join([family, *(f"  {row.name:<{width}}  {row.meaning}" for row in rows)])
        for family, rows in FAMILIES.items()
    )


def list_as_markdown() -> str:
    """Returns the tables of all causes for the documentation."""
    tables = []
    for family, rows in FAMILIES.items():
        lines = [f"| [`{row.name}`](causes/{row.name}.md) | {row.meaning} |" for row in rows]
        tables.append("\n".join([f"## {family}", "", "| cause | what it says |", "|---|---|", *lines]))
    return "\n\n".join(tables) + "\n"


def pages(folder: Path) -> dict[Path, str]:
    """Returns what the list and the page of each cause hold, by file; what the list begins with stays as it is.

    Args:
      folder: of the documentation.
    """
    # Up to the first heading it is written by hand.
    begins = (folder / "causes.md").read_text(encoding="utf-8").partition("\n## ")[0]
    written = {folder / "causes.md": f"{begins}\n{list_as_markdown()}"}
    return written | {folder / "causes" / f"{name}.md": as_markdown(name) for name in CAUSES}


def write_pages(folder: Path) -> None:
    """Writes the list and the pages, and removes those of causes that are gone."""
    written = pages(folder)
    (folder / "causes").mkdir(exist_ok=True)
    for path in set((folder / "causes").glob("*.md")) - set(written):
        path.unlink()
    for path, text in written.items():
        path.write_text(text, encoding="utf-8")


def _wordings(row: CauseInfo) -> Iterator[Wording]:
    yield from row.wordings.values()
    if Proof.ONE_CHANGE in row.proof:
        yield OF_ANY["one change"]


def _precedence(row: CauseInfo) -> Iterator[str]:
    if row.specificity == PLACE:
        yield "It says where the trouble is rather than what it is: what is more exact is named before it."
    if row.specificity == GENERAL:
        yield "It holds beside many a more exact cause, and is named where the numbers show nothing more exact."
    if not row.complete:
        yield "It need not be all of the difference."


def _wrapped(begin: str, line: str) -> str:
    return textwrap.fill(
        line, WIDTH, initial_indent=begin, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def _part(row: CauseInfo) -> str:
    return f'"{row.family}"'


def _each_once(lines: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(lines))


def _paragraphs(lines: Iterable[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        if number:
            yield ""
        yield line


def _linked(line: str) -> str:
    return re.sub(r"`(\w+)`", lambda name: f"[{name[1]}]({name[1]}.md)" if name[1] in CAUSES else name[0], line)


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]))
