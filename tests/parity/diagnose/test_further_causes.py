"""What is named beside the first difference: its own causes come first, and rounding alone is none."""

import pytest

from parity.experiment.rejudge.ill_conditioned import but_for_rounding
from parity.judge.result import Cause, Check, Explained, FirstDifference, Level, own_first

LOSS = FirstDifference(Check("lockstep", 1, "loss/0", "different"), "loss", "", "0", None)


def cause(name, step, key):
    return Cause(name, name, "", "", Explained(step, key))


def test_causes_of_the_first_difference_come_before_those_of_others():
    of_it, of_all = cause("own", 1, "loss/0"), Cause("general", "", "", "")
    found = [cause("further", 1, "var/w"), of_it, cause("earlier", 0, "loss/0"), of_all]
    assert [each.name for each in own_first(found, LOSS)] == ["own", "general", "further", "earlier"]
    assert own_first(found, None) == found


def test_a_cause_of_the_layer_that_was_found_counts_as_one_of_the_difference_it_was_found_for():
    layer = FirstDifference(Check("lockstep", 1, "act/0/fc", "different"), "act", "fc", "0", None, decisive=LOSS)
    found = [cause("further", 1, "var/w"), cause("loss", 1, "loss/0"), cause("layer", 1, "act/0/fc")]
    assert [each.name for each in own_first(found, layer)] == ["loss", "layer", "further"]


@pytest.mark.parametrize(
    ("key", "own_optimizer", "names"),
    [("var/w", True, []), ("slot/m/w", True, []), ("var/w", False, ["found"]), ("loss/0", True, ["found"])],
)
def test_what_goes_away_with_rounded_hyper_parameters_is_no_further_bug(key, own_optimizer, names):
    found = {"as it is": [cause("found", 0, key)], "rounded": []}
    again = lambda: ("rounded", Level("function", "different", ""))  # noqa: E731
    assert [each.name for each in but_for_rounding(found.get, "as it is", again, own_optimizer)] == names
