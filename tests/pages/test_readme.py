"""The README fits one screen, and its commands run."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COLUMNS, LINES = 120, 60
MAIN, TESTS = (
    re.search(rf"<!-- {name} -->\n```bash\n(.*)\n```\n", README)[1].split(" && ") for name in ("main", "tests")
)


@pytest.fixture
def environment(tmp_path):
    """An environment whose `parity` is this checkout's."""
    script = tmp_path / "parity"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m parity.cli "$@"\n')
    script.chmod(0o755)
    return {
        **{name: value for name, value in os.environ.items() if name != "PARITY_TF_PYTHON"},  # as a newcomer has it
        "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "COLUMNS": "80",
    }


def test_the_readme_fits_one_screen():
    assert sum(max(1, -(-len(line) // COLUMNS)) for line in README.splitlines()) <= LINES


@pytest.mark.slow
def test_the_case_of_the_main_command_is_the_same(environment):
    assert MAIN[-1].startswith(".venv/bin/parity run ")
    command = MAIN[-1].removeprefix(".venv/bin/")
    done = subprocess.run(
        command, shell=True, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("verdict: same")


def test_both_commands_install_first_what_the_package_has():
    extras = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for command in (MAIN, TESTS):
        assert command[0] == "python3 -m venv .venv"
        named = re.fullmatch(r"\.venv/bin/pip install -q -c constraints\.txt -e '\.\[(.*)\]'", command[1])[1].split(",")
        assert [extra for extra in named if not re.search(rf"^{extra} = \[", extras, re.MULTILINE)] == []


def test_the_figures_of_the_trials_are_the_sums_of_the_table_of_the_method():
    table = (
        (ROOT / "docs" / "method.md")
        .read_text(encoding="utf-8")
        .partition("its first and only run, ")[2]
        .partition("\n\n")[0]
    )
    rows = re.findall(
        r"^\| [a-z]+(?:st|nd|rd|th), \w+ \| (\d+)(?: \(of (\d+)[^|]*)? \| (\d+)(?: \(of (\d+)[^|]*)? \|",
        table,
        re.MULTILINE,
    )
    assert len(rows) == table.count("\n") - 1 == 15
    right, ports = (sum(int(row[0]) for row in rows), sum(int(row[1] or 15) for row in rows))
    bugs, planted = (sum(int(row[at] or 120) for row in rows) for at in (2, 3))
    assert f"{right} of {ports} right ports and found {bugs} of {planted} bugs" in README.replace("\n", " ")
    assert "In [fifteen trials]" in README


def test_every_file_that_the_readme_links_to_is_there():
    links = re.findall(r"\]\(([^)]+)\)", README)
    assert len(links) >= 3
    assert [link for link in links if not (ROOT / link.partition("#")[0]).exists()] == []


def test_the_test_command_of_the_readme_is_what_continuous_integration_runs():
    script = subprocess.run(
        ["sed", "-n", "/<!-- tests -->/,/^```$/p", str(ROOT / "README.md")], capture_output=True, text=True, timeout=10
    )
    assert "python -m pytest" in script.stdout
    assert "README.md" in (ROOT / ".ci" / "run").read_text()
