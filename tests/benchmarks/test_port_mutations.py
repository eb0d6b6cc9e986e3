"""The mutations of generated files: the list is whole, and what counts as planted, in place and named."""

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from parity.judge.result import Cause

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
ZOO = ("bench", "bugs")  # modules of the zoo, whose folder is no package


@pytest.fixture
def mutations(monkeypatch):
    """The script, found for one test."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    before = list(sys.path)
    yield importlib.import_module("port_mutations")
    sys.path[:] = before
    for name in ("port_mutations", *ZOO):
        sys.modules.pop(name, None)


@pytest.fixture
def mutation(mutations):
    """One that stands in the second line of a file."""
    return mutations.Mutation(
        port="net", id="x", sort="loss", file="port.py", find="b = 1", replace="b = 2", kind="loss", quantity="loss",
        causes=("loss_term",), words="b is 1",
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "net" / "port").mkdir(parents=True)
    (tmp_path / "net" / "port" / "port.py").write_text("a = 1\nb = 1\n")
    (tmp_path / "net" / "port" / "train.py").write_text("b = 1\n")
    return tmp_path / "net"


def result(run="follow", quantity="loss", cause="loss_term", verdict="different"):
    check = SimpleNamespace(run=run, step=1, key=f"{quantity}/0")
    first = SimpleNamespace(
        check=check, quantity=quantity, name="0", module="", next_module="", lines=(None, None)
    )  # fmt: skip
    causes = [Cause(cause, "a title", "evidence", "a remedy")] if cause else []
    return SimpleNamespace(verdict=verdict, first_difference=first, causes=causes, pairs=[])


def test_the_list_has_enough_of_every_sort_and_its_scripts_are_there(mutations):
    scripts, listed = mutations.read_manifest()
    assert len(listed) >= 40 and len({each.sort for each in listed}) >= 12 and len(scripts) >= 8
    assert {each.port for each in listed} == {script.name for script in scripts}
    assert all((ROOT / script.path).is_file() for script in scripts)
    assert {each.file for each in listed} == {"port.py", "train.py"}
    assert all(each.causes and each.find != each.replace for each in listed)


def test_a_passage_has_to_stand_there_once_and_to_leave_python(mutations, mutation, folder):
    mutations.check(folder / "port", mutation)
    with pytest.raises(ValueError, match=r"net/x: expected '= 1' once in port\.py, got it 2 times"):
        mutations.check(folder / "port", mutation.model_copy(update={"find": "= 1"}))
    with pytest.raises(SyntaxError):
        mutations.check(folder / "port", mutation.model_copy(update={"replace": "b ="}))


def test_a_mutated_copy_is_judged_and_the_port_stays_as_it_is(mutations, mutation, folder):
    seen = []

    def prove(port, trace):
        seen.append(((port / "port.py").read_text(), trace))
        return result()

    outcome = mutations.attempt(folder, mutation, prove)
    assert seen == [("a = 1\nb = 2\n", folder / "trace")]
    assert (folder / "port" / "port.py").read_text() == "a = 1\nb = 1\n"
    assert (outcome.detected, outcome.placed, outcome.named) == (True, True, True)


def test_an_error_is_no_verdict(mutations, mutation, folder):
    def prove(port, trace):
        raise ValueError("expected more, got less\nsecond line")

    outcome = mutations.attempt(folder, mutation, prove)
    assert (outcome.verdict, outcome.first) == ("none", "ValueError: expected more, got less")
    assert not (outcome.detected or outcome.placed or outcome.named or outcome.misnamed)


def test_what_sits_in_the_program_is_in_place_only_where_its_run_differs_first(mutations, mutation):
    of_program = mutation.model_copy(update={"file": "train.py", "quantity": "var", "kind": "update"})
    assert mutations.is_placed(of_program, result(run="train", quantity="var"), range(1, 2))
    assert not mutations.is_placed(of_program, result(run="follow", quantity="var"), range(1, 2))
    assert not mutations.is_placed(of_program, SimpleNamespace(first_difference=None), range(1, 2))


def test_totals_and_table_count_found_placed_and_named(mutations, mutation, folder):
    right = mutations.attempt(folder, None, lambda *_: result(verdict="same"))
    wrong = mutations.attempt(folder, mutation, lambda *_: result(cause="momentum"))
    counted = {what: (count, total) for what, count, total in mutations.totals([right, wrong])}
    assert counted["ports as written: same"] == (1, 1)
    assert counted["found"] == counted["in place"] == (1, 1)
    assert counted["a right cause named first"] == counted["in place and named"] == (0, 1)
    assert counted["another cause named first"] == (1, 1)
    assert "| loss | 1 | 1 | 1 | 0 |" in mutations.table([right, wrong])
    equal = wrong._replace(bug=mutation.model_copy(update={"equivalent": "it computes the same"}), verdict="same")
    assert mutations.totals([equal])[1] == ("found", 0, 0) and equal.detected
