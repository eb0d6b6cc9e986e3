import numpy as np
import pytest
from made_pairs import JOIN, trace

from parity.judge.level import RANKS_APART, first_difference, level_from, reason_from, shown
from parity.judge.result import Check
from parity.mapping import Mapping, Pair, parse_transform
from parity.mapping.trace_map import Join

SAME = Check("lockstep", 0, "grad/w", "same", 1.0, 4.0, 10.0)
OTHER = Check("lockstep", 1, "grad/w", "different", 8.0, 4.0, 10.0)


@pytest.mark.parametrize("checks", [[SAME], [SAME, OTHER]])
def test_ranks_that_differ_decide_whatever_the_checks_say(checks):
    level = level_from("function", checks, "why", notes=["one"], ranks_agree=False)
    assert (level.verdict, level.notes) == ("different", [RANKS_APART, "one"])


@pytest.mark.parametrize(("verdict", "decided"), [(None, "different"), ("incomparable", "incomparable")])
def test_the_checks_decide_where_nothing_else_does(verdict, decided):
    level = level_from("trajectory", [SAME, OTHER], "why", verdict=verdict)
    assert (level.verdict, level.notes, level.reason) == (decided, [], "why")


def test_the_reason_counts_what_is_not_the_same_or_says_how_near_it_is():
    assert reason_from([SAME, OTHER]) == "1 of 2 tensors are not the same"
    assert reason_from([SAME]) == "1 tensors; at most 0.25 of the tolerance, 0.1 of the scale"
    assert reason_from([SAME], "{judged} at {highest:.2g}") == "1 at 0.25"
    nearer = SAME._replace(difference=2.0, scale=100.0)
    aside = SAME._replace(verdict="not_run", difference=100.0)
    assert reason_from([SAME, nearer, aside]) == "2 tensors; at most 0.5 of the tolerance, 0.1 of the scale"
    assert reason_from([aside]) == "0 tensors; at most 0 of the tolerance, 0 of the scale"


def test_runs_come_in_order_and_steps_as_judged():
    checks = [Check("free", 0, "grad/w", "different"), OTHER, Check("init", 0, "var/w", "same")]
    assert first_difference(JOIN, checks, {}).check is OTHER
    assert first_difference(JOIN, [SAME], {}) is None
    wrong = [Check(run, 9, "grad/w", "different") for run in ("train", "free", "lockstep", "init", "fresh")]
    assert [first_difference(JOIN, wrong[:end], {}).check.run for end in (1, 2, 3, 4, 5)] == [
        each.run for each in wrong
    ]


@pytest.mark.parametrize(
    ("check", "index"),
    [
        (OTHER, (1,)),
        (OTHER._replace(step=7), None),
        (OTHER._replace(key="grad/b"), None),
        (OTHER._replace(run="init", key="var/w"), (0,)),
        (OTHER._replace(run="fresh"), None),
    ],
)
@pytest.mark.parametrize("join", [JOIN, None])
def test_the_element_is_shown_that_differs_most(tmp_path, join, check, index):
    steps = [{}, {"grad/w": np.array([1.0, 2.0]), "grad/b": np.array([1.0, 2.0])}]
    others = [{}, {"grad/w": np.array([1.5, 5.0]), "grad/b": np.array([1.0])}]
    one = trace(tmp_path / "one", *steps, init={"var/w": np.array([1.0, 2.0])})
    other = trace(tmp_path / "other", *others, init={"var/w": np.array([9.0, 2.0])})
    found = shown(join, check, {"lockstep": (one, other), "init": (one, other)})
    assert (found.worst and found.worst.index, found.check) == (index, check)


def test_the_element_is_shown_in_the_references_layout(tmp_path):
    turned = Join(Mapping([Pair("w", ("fc.weight",), parse_transform("transpose"), "", (1, 2))]), {}, ["m"])
    one = trace(tmp_path / "one", {"grad/w": np.array([[1.0, 2.0]])})
    other = trace(tmp_path / "other", {"grad/fc.weight": np.array([[1.0], [5.0]])})
    check = Check("lockstep", 0, "grad/w", "different")
    assert shown(turned, check, {"lockstep": (one, other)}).worst.index == (0, 1)
    assert shown(None, check, {"lockstep": (one, other)}).worst is None


@pytest.mark.parametrize("lacking", ["one", "other"])
def test_of_a_step_that_one_side_alone_has_nothing_is_shown(tmp_path, lacking):
    step = {"grad/w": np.array([1.0, 2.0])}
    whole, empty = trace(tmp_path / "whole", step), trace(tmp_path / "empty")
    sides = (empty, whole) if lacking == "one" else (whole, empty)
    assert shown(JOIN, Check("lockstep", 0, "grad/w", "different"), {"lockstep": sides}).worst is None
