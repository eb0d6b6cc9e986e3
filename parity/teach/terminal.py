"""Shows lessons in a terminal, step by step."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from parity.teach.lessons import Lesson
from parity.teach.play import Played
from parity.teach.text import steps

WIDTH = 100


def list_lessons(lessons: list[Lesson]) -> None:
    """Prints number, title and subject of every lesson."""
    from rich.markup import escape

    from parity.report.tables import plain_table, print_trimmed

    table = plain_table("lesson", "", "")
    for lesson in lessons:
        table.add_row(str(lesson.number), f"[bold]{escape(lesson.title)}[/]", escape(lesson.about))
    print_trimmed(_console(), table)
    print("\n`parity teach 1` runs the first; `parity teach 1 --html lesson.html` writes it as a page with a diagram.")


def show_lesson(played: Played, wait: Callable[[], bool]) -> None:
    """Prints a lesson.

    Args:
      played: with its numbers.
      wait: called between two steps; false ends the lesson.
    """
    from rich.markdown import Markdown
    from rich.markup import escape
    from rich.padding import Padding
    from rich.rule import Rule

    console = _console()
    lesson = played.lesson
    console.print(f"[bold]Lesson {lesson.number}: {escape(lesson.title)}[/]")
    console.print(f"with {', '.join(played.frameworks)}\n", style="dim")
    found = steps(played)
    for place, step in enumerate(found, 1):
        console.print(Rule(f"{place} of {len(found)}: {step.heading}", align="left"))
        console.print(Markdown(step.body, code_theme="ansi_light"))
        console.print()
        if place < len(found) and not wait():
            return
    console.print(Rule("What this run has shown", align="left"))
    for sentence in played.claims:
        console.print(Padding(f"[green]holds[/] {escape(sentence)}", (0, 0, 0, 2)))
    console.print(f"\nTo play with it: `parity teach {lesson.number} --html lesson.html --open`")


def pause() -> bool:
    """Waits for Enter where somebody sits at a terminal; returns False at Ctrl-D and Ctrl-C."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return True
    try:
        input("Enter goes on, Ctrl-D ends … ")
    except (EOFError, KeyboardInterrupt):
        print()
        return False
    return True


@contextmanager
def busy() -> Iterator[Callable[[str], None]]:
    """Yields a function that tells what is being done: on stderr, at a terminal only."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda what: None
        return
    with console.status("starting") as status:
        yield lambda what: status.update(what)


def _console() -> Any:
    from rich.console import Console

    console = Console(highlight=False)
    return Console(highlight=False, width=min(WIDTH, console.width))
