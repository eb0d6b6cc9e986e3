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


def command_of(program, ranks, python=sys.executable):
    script = str(PROGRAMS / f"{program}.py")
    return [python, script] if not ranks else [python, str(PROGRAMS / "launch.py"), str(ranks), script]


@pytest.fixture
def bare(tmp_path, torch_python):
    """Runs a program as it is, in forks or by an interpreter of its own, and returns where it left its weights."""

    def run(program, *arguments, ranks=2, python=torch_python):
        weights = tmp_path / f"{program}-bare.pt"
        words = [*command_of(program, ranks, python), "--out", str(weights), *arguments]
        subprocess.run(words, check=True, env=environment(), capture_output=True, timeout=300)
        return weights

    return run


@pytest.fixture
def record(tmp_path, torch_python):
    """Runs a program under `parity record`: in forks that have torch, or by an interpreter of its own."""

    def run(program, *arguments, ranks=2, options=(), python=torch_python):
        trace, weights = tmp_path / f"{program}.trace", tmp_path / f"{program}.pt"
        own = [*command_of(program, ranks, python), "--out", str(weights), *arguments]
        words = [sys.executable, "-m", "parity.cli", "record", "--out", str(trace), *options, "--", *own]
        done = subprocess.run(words, env=environment(), capture_output=True, text=True, timeout=300, check=False)
        return Recorded(done.returncode, done.stdout, done.stderr, trace, weights)

    return run
