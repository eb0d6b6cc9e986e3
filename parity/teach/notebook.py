"""Writes a lesson as a Jupyter notebook: its text, its numbers, and its exercise in cells that check themselves."""

import json
from pathlib import Path
from typing import Any

from parity.report.atomic import appearing
from parity.teach.exercises.catalogue import EXERCISES
from parity.teach.exercises.exercise import starter
from parity.teach.play import Played
from parity.teach.show import steps

NOTEBOOK_VERSION = {"nbformat": 4, "nbformat_minor": 5}
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def write_notebook(played: Played, path: Path, count: int) -> None:
    """Writes the notebook to `path`, whole or not at all.

    Args:
      played: a lesson with its numbers.
      path: the file to make, in version 4 of the format.
      count: how many lessons there are.
    """
    with appearing(path) as file:
        file.write((json.dumps(notebook(played, count), indent=1, ensure_ascii=False) + "\n").encode("utf-8"))


def notebook(played: Played, count: int) -> dict[str, Any]:
    """Returns the notebook as JSON has it."""
    lesson = played.lesson
    frameworks = " and ".join(played.frameworks)
    texts: list[tuple[str, str]] = [
        (
            "markdown",
            f"# {lesson.title}\n\n{lesson.about}\n\n"
            f"Lesson {lesson.number} of {count}. Every number was measured with {frameworks}.",
        ),
        ("markdown", "The numbers of that run, by name. No framework is needed to read them."),
        ("code", f"import json\n\nNUMBERS = json.loads(r'''{_numbers(played)}''')\nsorted(NUMBERS)"),
    ]
    for step in steps(played):
        texts.append(("markdown", f"## {step.heading}\n\n{step.body}"))
    if lesson.number in EXERCISES:
        texts += _exercise(lesson.number)
    claims = "\n".join(f"- {sentence}" for sentence in played.claims)
    texts.append(("markdown", f"## What this run has shown\n\n{claims}"))
    cells = [_cell(f"cell-{place}", kind, text) for place, (kind, text) in enumerate(texts)]
    return {"cells": cells, "metadata": {"kernelspec": KERNEL, "language_info": {"name": "python"}}, **NOTEBOOK_VERSION}


def _numbers(played: Played) -> str:
    # In a raw string that ends at three quotes: JSON has a way to write each quote without one.
    return json.dumps(played.numbers, ensure_ascii=True).replace("'", "\\u0027")


def _exercise(number: int) -> list[tuple[str, str]]:
    names = [each.name for each in EXERCISES[number]]
    check = (
        "from parity.teach.exercises.check import check_functions\n\n"
        f"check_functions({number}, NUMBERS, {', '.join(names)})"
    )
    return [
        ("markdown", "Write your answer here, run this cell, and then the next, which says in one line what is wrong."),
        ("code", starter(EXERCISES[number]).rstrip("\n")),
        ("code", check),
    ]


def _cell(name: str, kind: str, text: str) -> dict[str, Any]:
    cell: dict[str, Any] = {"id": name, "cell_type": kind, "metadata": {}, "source": text.splitlines(keepends=True)}
    return {**cell, "execution_count": None, "outputs": []} if kind == "code" else cell
