"""The fenced blocks of README and docs, with the marks that say what a test does with them.

A mark is a comment on the line before a block:

``<!-- not run: REASON -->``   nothing runs it
``<!-- run by: TEST -->``      the test of this file runs it
``<!-- stands in: NAME -->``   a file of stand_ins/ makes what the page takes for the reader's own: a shell script runs
                               first, a program holds the block at its line "# the block"
``<!-- file: NAME -->``        it is saved as NAME in the folder in which the page's commands run
``<!-- more of: NAME -->``     it is appended to that file
``<!-- prints: TEXT -->``      what it prints holds TEXT
``<!-- exits: CODE -->``       a shell block ends with that code, not with 0
"""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")))
FENCE = re.compile(r"^((?:<!-- [^\n]*? -->\n)*)^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARK = re.compile(r"<!-- (.*?)(?:: (.*?))? -->\n")
KNOWN = {"not run", "run by", "stands in", "file", "more of", "prints", "exits"}


class Block(NamedTuple):
    """One fenced block: the page and line it begins at, its language, its text, and its marks."""

    page: str
    line: int
    language: str
    text: str
    marks: dict[str, str]

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks_of(page: str) -> list[Block]:
    """Returns the blocks of a page, from top to bottom."""
    text = text_of(page)
    found = []
    for match in FENCE.finditer(text):
        line = text.count("\n", 0, match.start(2)) + 1
        found.append(Block(page, line, match[2], match[3], dict(MARK.findall(match[1]))))
    return found


def commands(text: str) -> list[tuple[str, str]]:
    """Splits a console block into its commands, each with the output that it shows."""
    found = []
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        found.append((command, output))
    return found


def roughly(text: str) -> str:
    """Leaves out what differs between machines: the digits of measured numbers and of versions, and seconds."""
    text = re.sub(r"\d+(\.\d+)+(\+\w+)?|\d+(\.\d+)?e[-+]?\d+", "#", text)
    return " ".join(text.split())
