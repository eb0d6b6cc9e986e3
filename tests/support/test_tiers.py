"""What the default tier leaves out, and which tests go to one worker."""

import os
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.tiers import covering, few

ROOT = Path(__file__).parents[2]


def shown(rows, strength):
    places = range(len(rows[0]))
    pairs = product(places, repeat=strength)
    return {(columns, tuple(row[column] for column in columns)) for row in rows for columns in pairs}


@given(st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=1, max_size=60), st.integers(1, 2))
def test_a_covering_shows_all_that_the_product_shows(rows, strength):
    chosen = covering(rows, strength)
    assert shown([rows[place] for place in chosen], strength) == shown(rows, strength)


def test_a_covering_of_values_is_as_long_as_the_longest_column_and_one_of_pairs_far_from_the_product():
    rows = list(product(range(5), range(4), range(2)))
    assert len(covering(rows, 1)) == 5
    assert 20 <= len(covering(rows, 2)) <= 24
    assert covering([()], 1) == {0}


def test_a_covering_takes_values_about_as_often_as_each_other_and_has_what_is_wanted_anyway():
    rows = list(product(["tf2", "tf1"], range(6)))
    chosen = [rows[place] for place in covering(rows, 1)]
    assert len(chosen) == 6
    assert sorted(tf for tf, _ in chosen) == ["tf1"] * 3 + ["tf2"] * 3
    assert covering(rows, 1, [1, 2]) >= {1, 2}


def test_values_that_are_not_of_the_default_tier_are_slow():
    one, other, single = *few([("a", 1), ("b", 2)], ("b", 2)), *few(["c"], "c")
    assert (one.values, [mark.name for mark in one.marks]) == (("a", 1), ["slow"])
    assert (other.values, list(other.marks)) == (("b", 2), [])
    assert (single.values, list(single.marks)) == (("c",), [])


TESTS = """
import pytest

BOTH = pytest.mark.parametrize("on", ["tf2", pytest.param("tf1", marks=pytest.mark.tf1)])
TOWERS = pytest.mark.parametrize("towers", [1, 2, 3])


@pytest.fixture
def tf(): pass


@pytest.fixture
def sides(): pass


@BOTH
@TOWERS
@pytest.mark.parametrize("combine", ["mean", "sum"])
def test_in_a_child(tf, on, towers, combine): pass


@BOTH
@TOWERS
def test_whole_run(sides, on, towers): pass


@BOTH
@pytest.mark.both_tensorflows
def test_the_whole_run_on_both(sides, on): pass


@pytest.mark.covering(2)
@TOWERS
@pytest.mark.parametrize("combine", ["mean", "sum"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_product(towers, combine, dtype): pass


@pytest.mark.slow
def test_long(): pass


@pytest.mark.slow
@pytest.mark.thinned(2)
@TOWERS
@pytest.mark.parametrize("combine", ["mean", "sum"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_long_product(towers, combine, dtype): pass


@pytest.mark.covering(1)
@TOWERS
@pytest.mark.parametrize("levels", [pytest.param("both", marks=pytest.mark.slow), "one"])
def test_product_of_slow_ones(towers, levels): pass


@pytest.mark.thinned(2)
@BOTH
@TOWERS
@pytest.mark.parametrize("levels", ["one", pytest.param("both", marks=pytest.mark.slow)])
def test_thinned_whole_run(sides, on, towers, levels): pass
"""


@pytest.fixture
def collected(tmp_path):
    """Collects the tests above with this project's options; returns how many there are of each name."""
    (tmp_path / "test_made.py").write_text(TESTS)
    (tmp_path / "conftest.py").write_text(
        f'import sys\nsys.path.insert(0, {str(ROOT / "tests")!r})\npytest_plugins = ["support.tiers"]'
    )

    def collect(*words):
        command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path)]
        command += ["-p", "no:cacheprovider", "--collect-only", "-q", *words, str(tmp_path)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True)
        ids = [line.split("::")[1] for line in done.stdout.splitlines() if "::" in line]
        counts = {}
        for name in ids:
            key = name.split("[")[0].removeprefix("test_") + (" tf1" if "tf1" in name else "")
            counts[key] = counts.get(key, 0) + 1
        return counts

    return collect


def test_the_default_tier_has_coverings_where_everything_has_products(collected):
    assert collected() == {
        "in_a_child": 6,
        "in_a_child tf1": 3,
        "whole_run": 3,
        "the_whole_run_on_both": 1,
        "the_whole_run_on_both tf1": 1,
        "product": 6,
        "product_of_slow_ones": 3,
        "thinned_whole_run": 3,
    }
    everything = collected("-m", "")
    assert everything == {
        "in_a_child": 6,
        "in_a_child tf1": 6,
        "whole_run": 3,
        "whole_run tf1": 3,
        "the_whole_run_on_both": 1,
        "the_whole_run_on_both tf1": 1,
        "product": 12,
        "product_of_slow_ones": 6,
        "long": 1,
        "long_product": 6,
        "thinned_whole_run": 4,  # those of the default tier, and one of both levels on TensorFlow 2
        "thinned_whole_run tf1": 4,
    }


SHARED = """
import os
from pathlib import Path

import pytest


@pytest.fixture
def sides(): pass


@pytest.mark.parametrize("number", range(6))
def test_with_servers(sides, number):
    with Path("workers").open("a") as file:
        file.write(os.environ["PYTEST_XDIST_WORKER"] + "\\n")


@pytest.mark.parametrize("number", range(6))
def test_alone(number): pass
"""


def test_tests_of_one_server_run_in_one_worker(tmp_path):
    (tmp_path / "test_made.py").write_text(SHARED)
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["support.grouping", "support.scheduler"]')
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", "2", "--dist", "loadgroup"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "tests"), str(ROOT)])
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert "12 passed" in done.stdout, done.stdout + done.stderr
    workers = (tmp_path / "workers").read_text().split()
    assert len(workers) == 6 and len(set(workers)) == 1
