import numpy as np
import pytest
from made_pairs import JOIN, trace

from parity.judge.level import RANKS_APART, first_difference, level_from, reason_from, shown
from parity.judge.result import Check

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


def test_runs_come_in_order_and_steps_as_judged():
    checks = [Check("free", 0, "grad/w", "different"), OTHER, Check("init", 0, "var/w", "same")]
    assert first_difference(JOIN, checks, {}).check is OTHER
    assert first_difference(JOIN, [SAME], {}) is None


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
