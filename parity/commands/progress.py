"""Shows how far a command is, on a terminal and nowhere else."""

import argparse
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

Tick = Callable[[str, int, int], None]


def add_amount(parser: argparse.ArgumentParser) -> None:
    """Adds --quiet and --verbose."""
    amount = parser.add_mutually_exclusive_group()
    amount.add_argument("--quiet", action="store_true", help="print the line of the verdict only, and no progress")
    amount.add_argument(
        "--verbose", action="store_true", help="also print all facts and notes, the ten worst tensors and the mapping"
    )


@contextlib.contextmanager
def progress(quiet: bool = False) -> Iterator[Tick]:
    """Gives a function that is told what is being done, how much of it is done, and of how much.

    It draws a bar for each thing that is under way, on standard error where that is a terminal, and leaves nothing behind.

    Args:
      quiet: draw nothing.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda what, done, total: None
        return
    columns = (TextColumn("{task.description:<24}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as shown:
        tasks: dict[str, Any] = {}

        def tick(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = shown.add_task(what, total=total)
            shown.update(tasks[what], completed=done, visible=done < total)

        yield tick
