"""How a port's own training program is judged where rules set aside what its replay makes of a non-differentiable point."""

from types import SimpleNamespace

import numpy as np
import pytest

from parity.experiment.replay.orders import FREE_RUN_IN_OTHER_ORDER
from parity.experiment.replay.training import (
    AS_FREE,
    AS_FREE_IN_OTHER_ORDER,
    _by_own_free_run,
    _in_words,
    trains_itself,
)
from parity.judge.result import Check, Level

KEY, ALLOWED = "var/w", 1e-12


class Held:
    """A trace of one tensor."""

    def __init__(self, value):
        self.value = np.array([value])

    def step(self, number):
        return self

    def read(self, key):
        return self.value


def judged(trained, free_verdict="same", verdict="different", note="", script=1.0 + 1e-3):
    """The check of a weight: `script` in the script's run, 1 in the port's free run, `trained` in its program."""
    replayed = SimpleNamespace(join=SimpleNamespace(read=lambda key, file: file.value))
    free = {(0, KEY): Check("free", 0, KEY, free_verdict, 1e-3, 1e-2, note=note)}
    check = Check("free", 0, KEY, verdict, 1e-3, ALLOWED)
    runs = SimpleNamespace(reference=Held(script), candidate=Held(1.0))
    return _by_own_free_run(replayed, runs, Held(trained), check, free)


def test_a_program_as_near_to_the_ports_free_run_as_is_allowed_is_the_same():
    found = judged(1.0 + 0.5 * ALLOWED)
    assert (found.verdict, found.note) == ("same", AS_FREE)


@pytest.mark.parametrize("trained", [1.0 + 2 * ALLOWED, np.nan, np.inf])
def test_one_that_is_farther_from_it_is_not(trained):
    assert judged(trained).verdict == "different"


def test_where_nothing_was_set_aside_the_scripts_run_alone_decides():
    """The program is 1.5 of the tolerance away from the script, and 0.9 of it from the port's free run."""
    assert judged(1.0 + 0.9 * ALLOWED, script=1.0 - 0.6 * ALLOWED).verdict == "different"


@pytest.mark.parametrize("free_verdict", ["different", "not_run"])
def test_a_free_run_that_is_not_the_same_excuses_nothing(free_verdict):
    assert judged(1.0, free_verdict).verdict == "different"


@pytest.mark.parametrize("bug", [2 * ALLOWED, 1e-6, 1.0, np.nan, -1e-3])
def test_a_program_that_is_wrong_does_not_pass_in_the_other_order_of_a_race(bug):
    """Neither does one that is at the script's own weights there: its order is not the port's."""
    assert judged(1.0 - bug, "not_run", note=FREE_RUN_IN_OTHER_ORDER).verdict == "different"


def test_what_was_judged_by_the_ports_own_run_is_not_called_the_scripts():
    by_order = judged(1.0 + 0.5 * ALLOWED, "not_run", note=FREE_RUN_IN_OTHER_ORDER)
    assert (by_order.verdict, by_order.note) == ("same", AS_FREE_IN_OTHER_ORDER)
    replayed = SimpleNamespace(part=SimpleNamespace(towers=2, steps=[0, 1]))
    words = _in_words(replayed, [by_order, judged(1.0), judged(0.0, verdict="same")])
    assert f"1 of them are not the script's but {AS_FREE_IN_OTHER_ORDER}" in words
    assert f"1 of them are not the script's but {AS_FREE}" in words
    assert "not the script's" not in _in_words(replayed, [judged(0.0, verdict="same")])


def test_a_level_says_that_a_program_trains_itself_only_where_it_was_run_and_is_the_same():
    trained = Check("train", 0, KEY, "same")
    assert trains_itself(Level("function", "same", "", [trained]))
    assert not trains_itself(Level("function", "different", "", [trained]))
    assert not trains_itself(Level("function", "same", "", [Check("free", 0, KEY, "same")]))
