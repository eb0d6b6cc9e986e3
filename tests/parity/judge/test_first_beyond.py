import numpy as np
import pytest

from parity.judge.judge import Allowed, TensorPair, first_beyond
from parity.trace import parse_key


def pair(text, off, size=1.0, before=None):
    one = np.array([size, 0.0])
    return TensorPair(3, parse_key(text), text, one, one + np.array([0.0, off]), before)


@pytest.mark.parametrize(
    ("off", "found"), [(0.9, None), (1.1, "grad/b"), (float("inf"), "grad/b"), (float("nan"), None)]
)
def test_the_first_beyond_its_allowance_is_found(off, found):
    pairs = [pair("grad/w", 0.5), pair("grad/b", off), pair("grad/c", 0.0)]
    known = first_beyond("lockstep", pairs, lambda pair: Allowed(1.0, 2.0))
    assert (known and known[0].key) == found
    if known:
        check, of = known
        assert (check.run, check.step, check.verdict, check.difference, check.allowed, check.scale, check.size) == (
            *("lockstep", 3, "different"),
            *(off, 1.0, 2.0, 1.0),
        )
        assert of is pairs[1]


def test_an_allowance_sees_how_far_the_reference_was_moved():
    given = []
    first_beyond("free", [pair("var/w", 0.0, 2.0, np.array([0.5, 0.0])), pair("grad/w", 0.0, 2.0)], given_to(given))
    assert [(each.size, each.moved, each.updated, each.unit, each.elements) for each in given] == [
        (2.0, 1.5, True, 2.0**-53, 2),
        (2.0, 2.0, False, 2.0**-53, 2),
    ]


def given_to(given):
    def allowance(pair):
        given.append(pair)
        return Allowed(1.0, 1.0)

    return allowance
