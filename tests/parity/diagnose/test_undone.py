"""A difference that goes away with a change has that change for its cause, and none where there is no number to compare."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from parity.diagnose.interventions.probes import Bench
from parity.diagnose.interventions.protocol import Change
from parity.diagnose.interventions.search import undone
from parity.judge.result import Check, Explained, FirstDifference

CHANGE = Change("input_scale", "the port multiplies x by 2", "scale once", "with x times 0.5")


def bench(wanted, got, allowed):
    check = Check("lockstep", 1, "loss/0", "different", 1.0, allowed)
    return SimpleNamespace(
        first=FirstDifference(check, "loss", "", "0", None),
        wanted=np.array(wanted),
        got=np.array(5.0),
        apart=abs(wanted - 5.0),
        candidate_with=lambda *change: None if got is None else np.array(got),
        candidate_once_more=lambda: np.array(5.0),
        makes_wrong=lambda *change: False,
        explains=lambda left, was: Explained(1, "loss/0", 1 - left / was),
    )


def test_what_gives_the_references_number_is_the_cause():
    cause = undone(bench(2.0, 2.0 + 1e-13, 1e-12), CHANGE)
    assert (cause.name, cause.title) == ("input_scale", CHANGE.title)


@pytest.mark.parametrize(("wanted", "got"), [(2.0, 2.1), (np.nan, 2.0), (2.0, np.nan), (np.inf, 2.0), (2.0, None)])
def test_what_gives_another_or_none_is_not(wanted, got):
    assert undone(bench(wanted, got, 1e-12), CHANGE) is None


def test_what_makes_another_output_wrong_is_no_cause():
    made = bench(2.0, 2.0, 1e-12)
    made.makes_wrong = lambda *change: True
    assert undone(made, CHANGE) is None


@pytest.mark.parametrize(("off", "named"), [(1.9e-12, True), (2.1e-12, False)])
def test_what_came_in_another_shape_is_undone_to_what_a_nudge_of_the_inputs_leaves(off, named):
    """A check of another shape allows nothing, and says so in a note."""
    made = bench(2.0, 2.0 + off, 0.0)
    made.first = replace(made.first, check=made.first.check._replace(note="of shape [3], not [2]"))
    cause = undone(made, CHANGE)
    assert (cause is not None) == named
    if cause is not None:
        assert cause.evidence.endswith("times what rounding allows, where it was of shape [3], not [2]")


def test_how_far_it_was_and_is_off_is_told_as_multiples_of_what_rounding_allows():
    cause = undone(bench(2.0, 2.0 + 2.5e-13, 1e-12), CHANGE)
    assert cause.evidence == (
        "with x times 0.5, the candidate gives the reference's loss/0: 0.25 times what rounding allows, where it was "
        "1e+12 times"
    )
    assert cause.fix == "scale once" and cause.change is CHANGE


def test_a_tensor_that_the_candidate_has_in_another_shape_is_infinitely_far_off():
    check = Check("lockstep", 4, "act/0/h", "different", 1.0, 1e-12)
    first = FirstDifference(check, "act", "h", "0", None)
    acts = {
        "act/0/h": np.ones((3, 2)),
        "act/0/wide": np.ones((3, 7)),
        "act/0/image": np.ones((2, 3, 3, 5)),
        "loss/0": 1.0,
    }
    names = lambda quantity: [name for name in acts if name.startswith(quantity)]  # noqa: E731
    file = SimpleNamespace(read=acts.__getitem__, names=names, shape=lambda name: acts[name].shape)
    for got, apart in ((np.zeros((3, 2)), np.sqrt(6.0)), (np.zeros((2, 3)), np.inf), (None, np.inf)):
        join = SimpleNamespace(read=lambda key, other, got=got: got)
        side = SimpleNamespace(step=lambda number: file)
        made = Bench(first, SimpleNamespace(), join, side, side)
        assert made.apart == pytest.approx(apart) and made.widths == {2, 7}
        assert made.explains(0.0, apart) == (4, "act/0/h", 1.0)
    assert made.explains(0.25, 1.0).share == 0.75 and made.explains(0.0, 0.0).share == 1.0
