"""Writes a lesson as one page that opens from disk, with no network: text, numbers, and a diagram to play with."""

import base64
import hashlib
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from parity.report.appearing import appearing
from parity.teach.play import Played
from parity.teach.text import steps


def write_lesson(played: Played, path: Path, count: int) -> None:
    """Writes the page to `path`, whole or not at all.

    Args:
      played: a lesson with its numbers.
      path: the HTML file to make.
      count: how many lessons there are.
    """
    page = lesson_page(played, count).encode("utf-8")
    with appearing(path) as file:
        file.write(page)


def lesson_page(played: Played, count: int) -> str:
    """Returns the page; nothing in it may load or send anything."""
    style = _part("lesson.css")
    script = "\n".join([_part("kit.js"), played.lesson.source("diagram.js")])
    return str(
        _template().render(
            lesson=played.lesson,
            count=count,
            steps=[(step.heading, _html(step.body)) for step in steps(played)],
            claims=list(played.claims),
            frameworks=played.frameworks,
            numbers=played.numbers,
            style=style,
            script=script,
            style_hash=_hash(style),
            script_hash=_hash(script),
        )
    )


def _html(markdown: str) -> str:
    from markdown_it import MarkdownIt

    # Markup in the text stays text: html is off.
    return str(MarkdownIt("commonmark", {"html": False}).enable("table").render(markdown))


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def _part(name: str) -> str:
    return files("parity.teach").joinpath("page", name).read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def _template() -> Any:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(_part("lesson.html"))
