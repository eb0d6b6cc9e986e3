"""The command: see the package."""

import argparse
import dataclasses
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .cells import Outcome, chosen, run_cell
from .commands import Inputs
from .faults import what_is_missing

OWN_MOUNTS = "FAULTS_OWN_MOUNTS"


def main(arguments: list[str] | None = None) -> int:
    """Runs cells, prints their table, and returns 0 where all hold, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description="Faults times moments of the commands.")
    parser.add_argument(
        "--only", action="append", default=[], metavar="PATTERN", help="e.g. 'run/*/kill'; may be repeated"
    )
    parser.add_argument("--list", action="store_true", help="print the cells' names and run nothing")
    parser.add_argument("-j", dest="workers", type=int, default=1, metavar="N", help="cells at a time (default: 1)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="leave the outcomes here, a line of JSON each")
    parser.add_argument(
        "--inputs", type=Path, metavar="DIR", help="keep the commands' inputs here, or take them from there"
    )
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave what cells have left")
    asked = parser.parse_args(arguments)
    found = chosen(asked.only)
    if asked.list:
        print("\n".join(cell.name for cell in found))
        return 0
    _mount_apart()
    with tempfile.TemporaryDirectory(prefix="faults-") as name:
        scratch = asked.keep or Path(name)
        inputs = Inputs((asked.inputs or Path(name) / "inputs").resolve())
        for cell in found:
            cell.command.words(inputs, Path(name))  # makes them, before several ask at once

        def run(number: int) -> Outcome:
            outcome = run_cell(found[number], inputs, scratch / f"cell-{number}", bool(asked.keep))
            _tell(outcome, asked.out)
            return outcome

        with ThreadPoolExecutor(asked.workers) as pool:
            outcomes = list(pool.map(run, range(len(found))))
    Console(width=None if sys.stdout.isatty() else 200).print(table(outcomes))
    print(summary(outcomes))
    return int(any(outcome.faults for outcome in outcomes))


def _mount_apart() -> None:
    """Goes on in a mount namespace of its own, where there can be one: nothing that is mounted is left, whatever happens."""
    if os.environ.get(OWN_MOUNTS) or what_is_missing("mount"):
        return
    program = shutil.which("unshare")
    assert program is not None
    os.environ[OWN_MOUNTS] = "1"
    os.execv(program, [program, "-m", sys.executable, "-m", "tests.faults", *sys.argv[1:]])


def _tell(outcome: Outcome, out: Path | None) -> None:
    if outcome.faults:
        print(f"{outcome.cell}: {'; '.join(outcome.faults)}", file=sys.stderr, flush=True)
    if out:
        with out.open("a") as file:
            file.write(json.dumps(dataclasses.asdict(outcome)) + "\n")


def table(outcomes: Iterable[Outcome]) -> Table:
    """Returns a row for each outcome."""
    shown = Table(show_lines=False)
    for name in ("cell", "exit code", "seconds", "message", "processes", "temporary", "partial", "holds"):
        shown.add_column(name, overflow="fold", justify="right" if name in ("exit code", "seconds") else "left")
    for each in outcomes:
        holds = f"skipped: {each.skipped}" if each.skipped else "yes" if not each.faults else "; ".join(each.faults)
        counts = [str(len(found)) if found else "" for found in (each.processes, each.temporary, each.partial)]
        code = "" if each.code is None else str(each.code)
        shown.add_row(each.cell, code, f"{each.seconds:.1f}", Text(each.message[:100]), *counts, Text(holds))
    return shown


def summary(outcomes: list[Outcome]) -> str:
    """Returns one line on all of them."""
    skipped = sum(bool(each.skipped) for each in outcomes)
    failed = [each for each in outcomes if each.faults]
    hung = sum(any("hangs" in fault for fault in each.faults) for each in failed)
    orphans = sum(bool(each.processes) for each in outcomes)
    claims = sum(bool(each.claims) for each in outcomes)
    temporary = sum(bool(each.temporary) for each in outcomes)
    return (
        f"{len(outcomes)} cells: {len(outcomes) - skipped - len(failed)} hold, {len(failed)} do not, {skipped} skipped; "
        f"{hung} hang, {orphans} leave processes, {claims} leave what looks whole and is not, "
        f"{temporary} leave temporary files"
    )


if __name__ == "__main__":
    sys.exit(main())
