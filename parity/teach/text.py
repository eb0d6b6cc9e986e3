"""Fills a lesson's page of text with the numbers of a run, and cuts it into steps."""

import ast
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from parity.teach.errors import TeachError
from parity.teach.play import Played


class Step(NamedTuple):
    """One step of a lesson: a heading, and what stands below it as Markdown."""

    heading: str
    body: str


def steps(played: Played) -> list[Step]:
    """Returns the text of a lesson, step by step, with this run's numbers in it.

    Raises:
      jinja2.UndefinedError: the text asks for a number that the lesson does not find.
    """
    from jinja2 import Environment, StrictUndefined

    # Markdown, not HTML: who turns it into HTML escapes it.
    environment = Environment(autoescape=False, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(n=number, e=exponent, percent=percent, mib=megabytes)
    template = environment.from_string(played.lesson.source("text.md"))
    names = {
        **played.numbers,
        "frameworks": " and ".join(played.frameworks),
        "code": lambda file, *names: code(played.lesson.source(file), file, names),
    }
    whole = template.render(names)
    found = re.split(r"^## (.+)$", whole, flags=re.MULTILINE)
    return [Step(found[at].strip(), found[at + 1].strip()) for at in range(1, len(found), 2)]


def code(source: str, file: str, names: Iterable[str]) -> str:
    """Returns functions of a file as a fenced block, so that a text shows the very lines that ran.

    Raises:
      TeachError: the file has no such function.
    """
    nodes = {node.name: node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}
    found = []
    for name in names:
        if name not in nodes:
            raise TeachError(f"text: expected a function {name} in {file}, got none. Mend the lesson's text.")
        found.append(ast.get_source_segment(source, nodes[name]))
    return "```python\n" + "\n\n\n".join(text for text in found if text) + "\n```"


def number(value: Any, digits: int = 5) -> str:
    """Returns a number, or a list of them, in a few digits."""
    if isinstance(value, (list, tuple)):
        return ", ".join(number(item, digits) for item in value)
    if isinstance(value, (bool, str)):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.{digits}g}"


def exponent(value: float) -> str:
    """Returns a small number as a power of ten, and zero as 0."""
    return f"{value:.1e}" if value else "0"


def percent(value: float) -> str:
    """Returns a fraction in per cent."""
    return f"{100 * value:.3g} %"


def megabytes(value: float) -> str:
    """Returns bytes in MiB."""
    return f"{value / 2**20:.3g} MiB"
