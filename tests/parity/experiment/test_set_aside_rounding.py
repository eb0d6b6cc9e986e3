"""What rounded hyper-parameters change is set aside; what they do not change stays a difference, and nothing is claimed."""

import pytest

from parity.experiment.rejudge.ill_conditioned import set_aside_rounding
from parity.judge.result import Check, FirstDifference, Level


def level(key, difference):
    if not key:
        return Level("function", "same", "")
    check = Check("lockstep", 0, key, "different", difference, 1e-12, 1.0, 1.0)
    quantity, name = key.split("/")
    return Level("function", "different", "", [check], FirstDifference(check, quantity, name, "", None))


def test_a_difference_that_stays_where_it_is_is_not_said_to_come_of_rounding():
    function = level("stat/mean", 0.8)
    recorded, judged = set_aside_rounding("own", function, lambda: ("rounded", level("stat/mean", 0.7)), False)
    assert (recorded, judged) == ("own", function)
    assert not function.notes


def test_a_difference_that_goes_with_rounding_is():
    function = level("stat/mean", 1e-8)
    recorded, judged = set_aside_rounding("own", function, lambda: ("rounded", level("", 0.0)), False)
    assert recorded == "rounded"
    assert "differences of 1e-08 of the scale" in judged.notes[0]


@pytest.mark.parametrize(
    ("key", "run", "own_optimizer", "tried"),
    [
        ("var/w", "lockstep", True, True),
        ("var/w", "free", True, True),
        ("slot/w", "lockstep", True, True),
        ("state/learning_rate", "lockstep", True, True),
        ("state/global_step", "lockstep", True, False),
        ("grad/w", "lockstep", True, False),
        ("var/w", "lockstep", False, False),
        ("state/learning_rate", "lockstep", False, False),
        ("stat/mean", "lockstep", False, True),
        ("stat/mean", "init", False, False),
        ("slot/w", "fresh", True, False),
        ("", "lockstep", True, False),
    ],
)
def test_the_port_runs_once_more_only_where_its_rounding_may_make_the_first_difference(key, run, own_optimizer, tried):
    asked = []
    check = Check(run, 0, f"slot/m/{key[5:]}" if key.startswith("slot") else key, "different", 1.0, 1e-12, 4.0, 1.0)
    quantity, _, name = key.partition("/")
    first = FirstDifference(check, quantity, name, "", None) if key else None
    function = Level("function", "different", "", [check], first)

    def again():
        asked.append(run)
        return "rounded", level("", 0.0)

    recorded, judged = set_aside_rounding("own", function, again, own_optimizer, "momenta")
    assert bool(asked) == tried and recorded == ("rounded" if tried else "own")
    if tried:
        # How large an effect was set aside, the checks of single steps say.
        size = "0.2" if run == "lockstep" else "0"
        assert (
            judged.notes[0].startswith("up to float32 momenta: ")
            and f"differences of {size} of the scale" in judged.notes[0]
        )
        assert f"(first in {check.key})" in judged.notes[0]


def test_another_first_difference_behind_rounding_is_the_one_that_is_told():
    _, judged = set_aside_rounding("own", level("stat/mean", 1e-8), lambda: ("rounded", level("var/w", 0.5)), False)
    assert judged.first_difference.check.key == "var/w" and judged.notes[0].startswith(
        "up to float32 hyper-parameters: "
    )


def test_a_port_that_differs_sooner_once_it_is_rounded_is_judged_as_it_is():
    """As beside a graph that multiplies by Python's numbers, none of which it rounds."""

    def judged(slot, weight):
        checks = [
            Check("lockstep", 0, key, verdict, 0.1, 1e-12, 1.0, 1.0)
            for key, verdict in (("slot/m/w", slot), ("var/w", weight))
        ]
        first = next(each for each in checks if each.verdict == "different")
        key = first.key.split("/")
        return Level("function", "different", "", checks, FirstDifference(first, key[0], key[-1], "", None))

    as_it_is, sooner = judged("same", "different"), judged("different", "different")
    assert set_aside_rounding("own", as_it_is, lambda: ("rounded", sooner), True) == ("own", as_it_is)
    recorded, told = set_aside_rounding("own", sooner, lambda: ("rounded", as_it_is), True)
    assert recorded == "rounded" and told.first_difference.check.key == "var/w"
