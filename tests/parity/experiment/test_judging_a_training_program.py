"""How a port's own training program is judged where rules set aside what its replay makes of a non-differentiable point."""

from types import SimpleNamespace

import numpy as np
import pytest

from parity.experiment.replay.training import AS_FREE, _by_own_free_run, trains_itself
from parity.judge.result import Check, Level

KEY, ALLOWED = "var/w", 1e-12


class Held:
    """A trace of one tensor."""

    def __init__(self, value):
        self.value = np.array([value])

    def step(self, number):
        return self


def judged(trained, free_verdict="same", verdict="different"):
    """The check of a weight: 1 + 1e-3 in the script's run, 1 in the port's free run, `trained` in its program."""
    replayed = SimpleNamespace(join=SimpleNamespace(read=lambda key, file: file.value))
    free = {(0, KEY): Check("free", 0, KEY, free_verdict, 1e-3, 1e-2)}
    check = Check("free", 0, KEY, verdict, 1e-3, ALLOWED)
    return _by_own_free_run(replayed, SimpleNamespace(candidate=Held(1.0)), Held(trained), check, free)


def test_a_program_as_near_to_the_ports_free_run_as_is_allowed_is_the_same():
    found = judged(1.0 + 0.5 * ALLOWED)
    assert (found.verdict, found.note) == ("same", AS_FREE)


def test_one_that_is_farther_from_it_is_not():
    assert judged(1.0 + 2 * ALLOWED).verdict == "different"


@pytest.mark.parametrize("free_verdict", ["different", "not_run"])
def test_a_free_run_that_is_not_the_same_excuses_nothing(free_verdict):
    assert judged(1.0, free_verdict).verdict == "different"


def test_a_level_says_that_a_program_trains_itself_only_where_it_was_run_and_is_the_same():
    trained = Check("train", 0, KEY, "same")
    assert trains_itself(Level("function", "same", "", [trained]))
    assert not trains_itself(Level("function", "different", "", [trained]))
    assert not trains_itself(Level("function", "same", "", [Check("free", 0, KEY, "same")]))
