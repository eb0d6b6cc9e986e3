"""What rounded hyper-parameters change is set aside; what they do not change stays a difference, and nothing is claimed."""

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
