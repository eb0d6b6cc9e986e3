"""What a test draws does not depend on the tests before it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from support.draws import begin_anew

ROOT = Path(__file__).parents[2]
TESTS = """
import random

import numpy as np
import pytest

RANDOM = np.random.default_rng(0)
CONSTANT = RANDOM.normal()


def drawn():
    return [RANDOM.normal(), random.random(), np.random.rand()]


@pytest.fixture(scope="module")
def shared():
    return drawn()


@pytest.mark.parametrize("number", [1, 2])
def test_one(number, record_property):
    record_property("drawn", [CONSTANT, drawn()])


def test_two(shared, record_property):
    record_property("drawn", [CONSTANT, shared, drawn()])


def test_three(shared, record_property):
    record_property("drawn", [CONSTANT, shared, drawn()])
"""
CONFTEST = """
import json

pytest_plugins = ["support.draws"]


def pytest_runtest_logreport(report):
    if report.when == "call":
        with open("drawn.jsonl", "a") as file:
            file.write(json.dumps([report.nodeid.split("::")[1], dict(report.user_properties)["drawn"]]) + "\\n")
"""


@pytest.fixture
def draws_of(tmp_path):
    """Runs those of the tests above that are named, in that order; returns what each has drawn."""
    (tmp_path / "test_made.py").write_text(TESTS)
    (tmp_path / "conftest.py").write_text(CONFTEST)

    def run(*names):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "tests"), str(ROOT)])
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        command += [f"test_made.py::{name}" for name in names]
        subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, timeout=120, check=True)
        lines = (tmp_path / "drawn.jsonl").read_text().splitlines()
        (tmp_path / "drawn.jsonl").unlink()
        return dict(map(json.loads, lines))

    return run


@pytest.mark.slow
def test_a_test_draws_the_same_in_any_order_and_alone_and_no_two_tests_do(draws_of):
    names = ["test_one[1]", "test_one[2]", "test_two", "test_three"]
    forth, back, alone = draws_of(*names), draws_of(*reversed(names)), draws_of("test_three")
    assert list(forth) == names == list(back)[::-1]
    assert forth == back == {**forth, **alone}
    (constant,) = {each[0] for each in forth.values()}
    numbers = [number for each in forth.values() for number in each[-1]] + forth["test_two"][1]
    assert len({constant, *numbers}) == 1 + 3 * 5
    assert forth["test_two"][1] == forth["test_three"][1]


def test_a_name_seeds_torch_too():
    begin_anew("one", None)
    drawn = torch.rand(3)
    begin_anew("another", None)
    assert not torch.equal(torch.rand(3), drawn)
    begin_anew("one", None)
    assert torch.equal(torch.rand(3), drawn)
