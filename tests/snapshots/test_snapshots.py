"""What commands print and write, against what is kept in `expected/`; PARITY_GOLDEN=1 writes it anew.

    PARITY_GOLDEN=1 python -m pytest tests/snapshots -m ''

Without digits that another processor changes (`normal.py`), so a change here is one of verdicts, causes, places or words.
"""

import os
from pathlib import Path

import pytest

from snapshots.commands import ROOT, Done, run_row
from snapshots.normal import normal_result, normal_text
from snapshots.table import TABLE

EXPECTED = Path(__file__).parent / "expected"


def printed(done: list[Done], folder: Path) -> str:
    """Returns what the commands of a row print, and their exit codes."""
    shown = [f"$ parity {each.command}\n{normal_text(each.printed, folder, ROOT)}\n[{each.code}]\n" for each in done]
    return "\n".join(shown)


def written(done: list[Done], folder: Path) -> str:
    """Returns the JSON that the commands of a row write."""
    results = [{"command": each.command, "result": each.result} for each in done if each.result is not None]
    return normal_result(results, folder, ROOT) + "\n"


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if row.fast else pytest.mark.slow) for name, row in TABLE.items()]
)
def test_commands_print_and_write_what_they_did(name, forked_sides, tmp_path):
    done = run_row(TABLE[name], tmp_path, forked_sides)
    text, result = EXPECTED / f"{name}.txt", EXPECTED / f"{name}.json"
    if os.environ.get("PARITY_GOLDEN") == "1":
        EXPECTED.mkdir(exist_ok=True)
        text.write_text(printed(done, tmp_path))
        result.write_text(written(done, tmp_path))
    assert printed(done, tmp_path).split() == text.read_text().split()  # where a line is wrapped depends on digits
    assert written(done, tmp_path).splitlines() == result.read_text().splitlines()


def test_every_expectation_belongs_to_a_row():
    assert {file.stem for file in EXPECTED.iterdir()} == set(TABLE)
