"""Which outputs of the other side a changed pass may give, and when its numbers count as theirs."""

import numpy as np
import pytest
from support.made_passes import passed

from parity.diagnose.edits.search import _Targets
from parity.diagnose.edits.side import Side

RANDOM = np.random.default_rng(7)
X, W = RANDOM.normal(size=(6, 4)), RANDOM.normal(size=(4, 4))


def targets(output, loss=2.5, wrong=None, counted=None, aside=False):
    """The wanted outputs of a product, or of one beside it that no loss is computed of, and of the loss."""
    side = passed(
        ("MatMul", [X, W], output if not aside else X @ W),
        ("Relu", [0], output),
        ("Mean", [0 if aside else 1], np.asarray(loss)),
    )
    every = frozenset(range(3))
    given = every if wrong is None else frozenset(wrong), every if counted is None else frozenset(counted)
    return _Targets(Side(side, 0, given[0], frozenset(), given[1]))


def spread(size, off):
    """As large as `size`, with one number of every two off by so much of itself to one side."""
    return RANDOM.normal(size=(6, 4)) * size, np.where(np.arange(24).reshape(6, 4) % 2, 1.0 + off, 1.0)


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e5])
@pytest.mark.parametrize(("off", "found"), [(0.0, 0), (0.9e-9, 0), (1e-8, None), (-1.0, None)])
def test_an_output_is_met_to_a_billionth_of_whatever_size(size, off, found):
    wanted, factor = spread(size, off)
    assert targets(wanted, wrong=[0]).find(wanted * factor, None) == found
    assert targets(wanted, wrong=[0]).find(np.float64(wanted * factor).T.copy().T, None) == found


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e5])
@pytest.mark.parametrize(("off", "found"), [(0.0, 2), (0.9e-11, 2), (1e-10, None), (1e-3, None)])
def test_a_loss_is_met_to_a_decade_more_than_outputs(size, off, found):
    wanted = targets(RANDOM.normal(size=(6, 4)), loss=size)
    assert wanted.find(np.array(size * (1.0 + 2.0 * off)), None) == found  # beside itself and the median, which it is
    assert wanted.is_loss(2) and not wanted.is_loss(0)


@pytest.mark.parametrize(("moved", "found"), [(0.9e-8, None), (1e-7, 0), (1.0, 0)])
def test_what_hardly_moves_an_output_explains_nothing(moved, found):
    wanted, factor = spread(1.0, moved)
    assert targets(wanted, wrong=[0]).find(wanted, wanted * factor) == found
    assert targets(wanted, wrong=[0]).find(wanted, np.ones(3)) == 0, "of another size"


def test_numbers_with_the_same_sums_in_other_places_are_other_numbers():
    wanted = RANDOM.normal(size=(6, 4))
    assert targets(wanted, wrong=[0]).find(wanted[::-1], None) is None
    assert targets(wanted, wrong=[0]).find(wanted.T, None) == 0, "the same ones in another layout"
    assert targets(wanted, wrong=[0]).find(wanted.reshape(24), None) == 0


def test_the_first_op_in_order_that_has_the_numbers_is_found():
    wanted = RANDOM.normal(size=(6, 4))
    assert targets(wanted).find(wanted, None) == 0
    assert targets(wanted, wrong=[1, 2]).find(wanted, None) == 1


@pytest.mark.parametrize(
    "made",
    [np.zeros(5), np.zeros((6, 4), int), np.full((6, 4), np.inf), np.full((6, 4), np.nan), np.full((6, 4), 1e200)],
)
def test_what_is_of_another_size_or_type_or_has_overflowed_is_no_output(made):
    assert targets(RANDOM.normal(size=(6, 4))).find(made, None) is None


@pytest.mark.parametrize(
    ("output", "wanted"),
    [
        (RANDOM.normal(size=3), False),
        (RANDOM.normal(size=4), True),
        (np.ones(24), False),
        (np.append(np.ones(23), 2.0), True),
        (np.append(np.ones(23), np.nan), False),
        (np.append(np.ones(23), np.inf), False),
        (np.arange(24), False),
        (np.arange(24.0, dtype=np.float32), True),
        (np.array(3.5), False),  # a single number is wanted of the loss alone
    ],
)
def test_what_is_met_by_chance_or_is_no_number_is_not_wanted(output, wanted):
    found = targets(output, wrong=[0, 1]).find(np.asarray(output), None)
    assert found == (0 if wanted else None)


def test_only_what_is_wrong_and_counts_and_leads_to_the_loss_is_wanted():
    wanted = RANDOM.normal(size=(6, 4))
    assert targets(wanted, wrong=[2]).find(wanted, None) is None
    assert targets(wanted, counted=[2]).find(wanted, None) is None
    assert targets(wanted, aside=True, wrong=[1, 2]).find(wanted, None) is None
    assert targets(wanted, loss=3.0, wrong=[0]).find(np.array(3.0), None) is None
