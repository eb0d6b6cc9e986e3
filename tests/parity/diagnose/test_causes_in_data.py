"""Examples that come in another order, twice or to other ranks: named where they are read, and nowhere behind."""

import functools

import numpy as np
import pytest
from support.made_steps import causes_between

from parity.diagnose.detectors.inputs import _Rows

RANDOM = np.random.default_rng(0)
EXAMPLES, HIDDEN = RANDOM.standard_normal((8, 5)), RANDOM.standard_normal((8, 6))
SWAPPED, TWICE, OTHER_SHARD = [0, 5, 2, 3, 4, 1, 6, 7], [0, 0, 2, 3, 4, 5, 6, 7], [4, 5, 6, 7, 0, 1, 2, 3]


@pytest.fixture
def names_of(tmp_path):
    """Returns the names of the causes of a first difference in the layer behind."""
    between = functools.partial(causes_between, tmp_path)
    return lambda one, other: [name for name, _ in between("act/0/behind", one, other, {}, {})]


def of_towers(fed, before, behind):
    """A step of two towers: a feed and two layers, each half of some rows."""
    step = {}
    for tower in (0, 1):
        for name, rows in ((f"feed/{tower}/x", fed), (f"act/{tower}/ahead", before), (f"act/{tower}/behind", behind)):
            half = len(rows) // 2
            step[name] = rows[half * tower : half * (tower + 1)]
    return step


@pytest.mark.parametrize(
    ("order", "name"),
    [(SWAPPED, "order_of_examples"), (TWICE, "repeated_examples"), (OTHER_SHARD, "other_shard")],
)
def test_examples_are_not_out_of_order_behind_a_layer_that_has_them_in_order(names_of, order, name):
    right = of_towers(EXAMPLES, EXAMPLES**2, HIDDEN)
    assert name in names_of(right, of_towers(EXAMPLES, EXAMPLES[order] ** 2, HIDDEN[order]))
    assert names_of(right, of_towers(EXAMPLES, EXAMPLES**2, HIDDEN[order])) == []
    # A layer that every example goes through alike says nothing of their order.
    alike = np.ones((8, 5))
    assert name in names_of(of_towers(EXAMPLES, alike, HIDDEN), of_towers(EXAMPLES, alike, HIDDEN[order]))


@pytest.mark.parametrize("order", [SWAPPED, TWICE])
def test_rows_that_are_not_as_many_as_the_examples_are_none(names_of, order):
    ones, others = HIDDEN, HIDDEN[order]
    fewer = EXAMPLES[:4]
    assert names_of(of_towers(fewer, EXAMPLES, ones), of_towers(fewer, EXAMPLES[order], others)) == []


def test_the_nearest_of_many_rows_is_found_without_comparing_each_with_each():
    ones = np.random.default_rng(1).standard_normal((400_000, 1))
    order = np.random.default_rng(2).integers(0, len(ones), len(ones))
    rows = _Rows(ones, ones[order] + 1e-13, np.ones(1), 2, len(ones))
    np.testing.assert_array_equal(rows.nearest(), order)
