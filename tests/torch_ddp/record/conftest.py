import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

PROGRAMS = Path(__file__).parent / "programs"
ROOT = Path(__file__).parents[3]


class Recorded(NamedTuple):
    code: int
    output: str
    errors: str
    trace: Path
    weights: Path


def environment():
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def command_of(program, ranks):
    script = str(PROGRAMS / f"{program}.py")
    return [sys.executable, script] if not ranks else [sys.executable, str(PROGRAMS / "launch.py"), str(ranks), script]


@pytest.fixture
def bare(tmp_path):
    """Runs a program as it is, and returns where it left its weights."""

    def run(program, *arguments, ranks=2):
        weights = tmp_path / f"{program}-bare.pt"
        words = [*command_of(program, ranks), "--out", str(weights), *arguments]
        subprocess.run(words, check=True, env=environment(), capture_output=True, timeout=300)
        return weights

    return run


@pytest.fixture
def record(tmp_path):
    """Runs a program under `parity record`."""

    def run(program, *arguments, ranks=2, options=()):
        trace, weights = tmp_path / f"{program}.trace", tmp_path / f"{program}.pt"
        own = [*command_of(program, ranks), "--out", str(weights), *arguments]
        words = [sys.executable, "-m", "parity.cli", "record", "--out", str(trace), *options, "--", *own]
        done = subprocess.run(words, env=environment(), capture_output=True, text=True, timeout=300, check=False)
        return Recorded(done.returncode, done.stdout, done.stderr, trace, weights)

    return run
