"""Starts the sides that tests of whole runs share, on both TensorFlows."""

import os
import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings
from support.forks import forking, forking_sides

from parity.experiment import Sides, open_sides

SUPPORT = ("tiers", "grouping", "scheduler", "draws", "watchdog", "requirements", "device", "garbage")
pytest_plugins = [f"support.{name}" for name in SUPPORT]
# A limit in milliseconds fails on a machine with other work; the watchdog ends what is stuck.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
# Hundreds of processes import the packages: what one has compiled the others find, on a machine too that keeps none of it.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ.setdefault("PARITY_DEBUG", "1")  # a search for causes that fails is a failure here


@pytest.fixture(scope="session", params=["tf2", pytest.param("tf1", marks=pytest.mark.tf1)])
def tf_python(request: pytest.FixtureRequest) -> str:
    """Both TensorFlows, one after the other: this interpreter's, and genuine 1.15."""
    return sys.executable if request.param == "tf2" else str(request.getfixturevalue("tf1_python"))


@pytest.fixture(scope="session")
def torch_python() -> Iterator[str]:
    """This interpreter, whose programs run in forks that have torch, where the environment has OMP_NUM_THREADS=1."""
    # The first optimizer imports torch._dynamo, which takes as long as torch.
    more = ("torch._dynamo", "torch.distributed.run")
    with forking(sys.executable, "torch", *more, OMP_NUM_THREADS="1") as python:
        yield python


@pytest.fixture(scope="session")
def forked_sides() -> Iterator[str]:
    """This interpreter, whose sides of a run are forks that have their framework."""
    with forking_sides() as python:
        yield python


@pytest.fixture
def sides_in_forks(monkeypatch: pytest.MonkeyPatch, forked_sides: str) -> None:
    """What this process starts as its own interpreter is forked."""
    monkeypatch.setattr(sys, "executable", forked_sides)


@pytest.fixture(params=["function", pytest.param("function,float32", marks=pytest.mark.slow)])
def levels(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """What a whole run decides of a choice among many: level 1, a quarter of the time of levels 1 and 2."""
    return tuple(request.param.split(","))


@pytest.fixture(scope="session")
def tf2_sides() -> Iterator[Sides]:
    """The processes of a run, with this interpreter's TensorFlow 2; they serve every test that asks."""
    with open_sides(None) as sides:
        yield sides


@pytest.fixture(scope="session")
def tf1_sides(tf1_python: str) -> Iterator[Sides]:
    """The processes of a run, with genuine TensorFlow 1.15."""
    with open_sides(tf1_python) as sides:
        yield sides
