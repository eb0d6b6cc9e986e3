"""A difference that goes away with a change has that change for its cause, and none where there is no number to compare."""

from types import SimpleNamespace

import numpy as np
import pytest

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
        explains=lambda left, was: Explained(1, "loss/0", 1 - left / was),
    )


def test_what_gives_the_references_number_is_the_cause():
    cause = undone(bench(2.0, 2.0 + 1e-13, 1e-12), CHANGE)
    assert (cause.name, cause.title) == ("input_scale", CHANGE.title)


@pytest.mark.parametrize(("wanted", "got"), [(2.0, 2.1), (np.nan, 2.0), (2.0, np.nan), (np.inf, 2.0), (2.0, None)])
def test_what_gives_another_or_none_is_not(wanted, got):
    assert undone(bench(wanted, got, 1e-12), CHANGE) is None
