"""Runs a row of the table: each command in a process of its own, as a user runs it; its sides are forks."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from snapshots.table import Edit, Row

ROOT = Path(__file__).parents[2]
JUDGING = {"run", "replay", "compare"}
TIMEOUT = 300
COMMAND = "import sys; sys.executable = {python!r}; from parity.cli import main; sys.exit(main())"


class Done(NamedTuple):
    """What a command printed, wrote and ended with."""

    command: str
    code: int
    printed: str
    result: Any


def run_row(row: Row, folder: Path, python: str) -> list[Done]:
    """Copies the row's folder into `folder` and does its steps there, one after the other; sides are started by `python`."""
    copy = folder / "copy"
    shutil.copytree(ROOT / row.folder, copy, ignore=shutil.ignore_patterns("lessons", "__pycache__"))
    done = []
    for step in row.steps:
        if isinstance(step, Edit):
            _edit(copy, step)
        else:
            done.append(_run(step, copy / row.within, folder / f"{len(done)}.json", python))
    return done


def _edit(copy: Path, edit: Edit) -> None:
    file = copy / edit.file
    text = file.read_text()
    assert edit.old in text, f"{edit.file} has no {edit.old!r}"
    file.write_text(text.replace(edit.old, edit.new) if edit.old else text + edit.new)


def _run(command: str, folder: Path, result: Path, python: str) -> Done:
    words = command.split()
    words[1:1] = ["--json", str(result)] if words[0] in JUDGING else []
    hidden = ("PARITY_", "TF_", "CUBLAS_", "NO_COLOR", "FORCE_COLOR", "STEPS")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    environment = {**kept, "PYTHONPATH": str(ROOT), "COLUMNS": "1000", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", COMMAND.format(python=python), *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    printed = done.stdout + (done.stderr if done.returncode == 2 else "")
    return Done(command, done.returncode, printed, json.loads(result.read_text()) if result.exists() else None)
