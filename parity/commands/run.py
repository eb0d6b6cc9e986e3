"""Run a case on both sides, compare, report."""

import argparse
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LEVEL_NAMES = {"1": "function", "2": "float32", "3": "trajectory", "4": "mixed"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this verb's arguments."""
    parser.add_argument("case", type=Path, help="a case.toml, or the folder that holds one")
    parser.add_argument(
        "--levels", type=_levels, default=["function", "float32"], metavar="1,2", help="levels to decide"
    )
    parser.add_argument("--steps", type=int, help="instead of the case's")
    parser.add_argument("--towers", type=int, help="instead of the case's")
    parser.add_argument(
        "--tf-python", metavar="PATH", help="interpreter with TensorFlow, e.g. of a Python 3.7 environment"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep the traces here")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result for machines")
    parser.add_argument(
        "--timeout", type=float, default=300.0, metavar="S", help="seconds without a sign of life allowed"
    )
    parser.add_argument("--mapping", action="store_true", help="also print which variable became which")


def run(arguments: argparse.Namespace) -> int:
    """Runs the case and prints the report; returns the exit code."""
    from rich.console import Console

    from parity.case import load_case
    from parity.report import print_facts, print_mapping, print_result, write_json
    from parity.run import open_sides, run_case

    overrides = {name: getattr(arguments, name) for name in ("steps", "towers")}
    case = load_case(arguments.case, **{name: value for name, value in overrides.items() if value is not None})
    python = arguments.tf_python or os.environ.get("PARITY_TF_PYTHON") or case.tf.python
    console = Console(highlight=False, soft_wrap=True)
    with _progress() as tick, open_sides(python, arguments.timeout) as sides:
        result = run_case(case, sides, arguments.levels, arguments.out, tick)
    print_result(result, case.name, console)
    if result.verdict != "same":
        console.print()
        print_facts(result, console)
    if arguments.mapping:
        console.print()
        print_mapping(result.pairs, console)
    if arguments.json:
        write_json(result, arguments.json)
    return result.exit_code


@contextlib.contextmanager
def _progress() -> Iterator[Any]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:<24}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        tasks: dict[str, Any] = {}

        def tick(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = progress.add_task(what, total=total)
            progress.update(tasks[what], completed=done, visible=done < total)

        yield tick


def _levels(text: str) -> list[str]:
    names = []
    for part in text.split(","):
        name = LEVEL_NAMES.get(part.strip(), part.strip())
        if name not in LEVEL_NAMES.values():
            raise argparse.ArgumentTypeError(f"expected levels among 1, 2, 3, 4, got {part!r}")
        names.append(name)
    return names
