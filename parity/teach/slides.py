"""Writes a lesson as slides: one HTML file that loads nothing, turned by keys."""

import re
from pathlib import Path

from parity.report.atomic import appearing
from parity.report.html.template import render
from parity.teach.play import Played
from parity.teach.show import Step, html_of, page_part, steps

LINES = 15  # of a slide: what a projector shows without scrolling
COLUMNS = 90  # of prose in a line


def write_slides(played: Played, path: Path, count: int) -> None:
    """Writes the slides to `path`, whole or not at all.

    Args:
      played: a lesson with its numbers.
      path: the HTML file to make.
      count: how many lessons there are.
    """
    with appearing(path) as file:
        file.write(slides_page(played, count).encode("utf-8"))


def slides_page(played: Played, count: int) -> str:
    """Returns the slides as a page; nothing in it may load or send anything."""
    style, script = page_part("lesson.css") + page_part("slides.css"), page_part("slides.js")
    return render(
        page_part("slides.html"),
        style,
        script,
        lesson=played.lesson,
        count=count,
        frameworks=played.frameworks,
        slides=[(slide.heading, html_of(slide.body)) for slide in slides(played)],
    )


def slides(played: Played) -> list[Step]:
    """Returns the slides behind the title: the steps of the lesson, those that are too long in several, and the claims."""
    claims = Step("What this run has shown", "\n".join(f"- {sentence}" for sentence in played.claims))
    made = []
    for step in [*steps(played), claims]:
        parts = _parts(step.body)
        for place, body in enumerate(parts, 1):
            made.append(Step(step.heading + (f" ({place} of {len(parts)})" if len(parts) > 1 else ""), body))
    return made


def _parts(body: str) -> list[str]:
    """Returns a text in parts of at most `LINES`, cut between its blocks; a block that is longer is a part by itself."""
    parts: list[list[str]] = [[]]
    for block in _blocks(body):
        if parts[-1] and sum(map(_lines, parts[-1])) + _lines(block) > LINES:
            parts.append([])
        parts[-1].append(block)
    return ["\n\n".join(blocks) for blocks in parts]


def _blocks(body: str) -> list[str]:
    """Returns the blocks of a Markdown text; code is one, with the empty lines in it."""
    pieces = re.split(r"(^```.*?^```$)", body, flags=re.MULTILINE | re.DOTALL)
    blocks = [
        each for piece in pieces for each in ([piece] if piece.startswith("```") else re.split(r"\n\s*\n", piece))
    ]
    return [block.strip("\n") for block in blocks if block.strip()]


def _lines(block: str) -> int:
    rows = block.splitlines()
    if block.startswith(("```", "|", "- ")):
        return len(rows) + 1
    return len(" ".join(rows)) // COLUMNS + 2
