"""What the README shows is what its commands print."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```console\n(.*?)```", README, re.DOTALL)


def commands(block):
    """Splits a console block into its commands, each with the output that it shows."""
    for part in block.split("$ ")[1:]:
        command, _, output = part.partition("\n")
        yield command, output


def roughly(text):
    """Leaves out what differs between machines: the digits of measured numbers and of versions, how many wander."""
    text = re.sub(r"\b\d+(\s+of\s+\d+\s+tensors\))", r"#\1", text)
    text = re.sub(r"\d+(\.\d+)+(\+\w+)?|\d+(\.\d+)?e[-+]?\d+", "#", text)
    return " ".join(text.split())


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


@pytest.mark.slow
@pytest.mark.parametrize("block", range(len(BLOCKS)))
def test_every_command_of_the_readme_prints_what_it_shows(environment, block):
    for command, shown in commands(BLOCKS[block]):
        done = subprocess.run(
            command, shell=True, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == (1 if "verdict: different" in shown else 0), done.stdout + done.stderr
        if shown:
            assert roughly(done.stdout) == roughly(shown)


def test_every_file_that_the_readme_links_to_is_there():
    links = re.findall(r"\]\(([^)]+)\)", README)
    assert len(links) >= 3
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_test_command_of_the_readme_is_what_continuous_integration_runs():
    script = subprocess.run(
        ["sed", "-n", "/<!-- tests -->/,/^```$/p", str(ROOT / "README.md")], capture_output=True, text=True, timeout=10
    )
    assert "python -m pytest" in script.stdout
    assert "README.md" in (ROOT / ".ci" / "run").read_text()
