"""How ranks combine gradients that are rows of an embedding: each rank has others, as often as its batches name them."""

import numpy as np
import pytest

from parity.record.combination import combination_of, settle_clipping
from parity.trace import ROW_INDICES, ROW_VALUES


def rows(name, *pairs):
    """A gradient of rows: pairs of index and value of both columns."""
    return {
        f"{name}{ROW_INDICES}": np.array([index for index, _ in pairs]),
        f"{name}{ROW_VALUES}": np.array([[value, -value] for _, value in pairs], np.float32),
    }


@pytest.mark.parametrize(("factor", "kind"), [(0.5, "mean"), (1.0, "sum"), (0.3, "other")])
def test_rows_add_up_over_ranks_that_have_different_ones(factor, kind):
    combined = rows("grad/table", (0, 1.0 * factor), (4, 2.0 * factor), (2, 5.0 * factor))
    ranks = [
        {**rows("tower_grad/0/table", (0, 0.25), (4, 2.0), (0, 0.75)), **combined},
        {**rows("tower_grad/1/table", (2, 5.0)), **combined},
    ]
    found = combination_of(ranks)
    assert found.of == {"table": kind}
    assert found.weights == pytest.approx((0.3, 0.3) if kind == "other" else ())


def test_micro_batches_of_different_rows_are_one_gradient():
    combined = rows("grad/table", (1, 1.0), (3, 2.0), (5, 3.0))
    ranks = [
        {**rows("tower_grad/0.0/table", (1, 2.0)), **rows("tower_grad/0.1/table", (3, 4.0)), **combined},
        {**rows("tower_grad/1.0/table", (5, 2.0)), **rows("tower_grad/1.1/table", (5, 4.0)), **combined},
    ]
    assert combination_of(ranks).of == {"table": "mean"}


def test_rows_that_a_program_makes_dense_are_combined_all_the_same():
    combined = {"grad/table": np.array([[0.5, -0.5], [0.0, 0.0], [1.0, -1.0]])}
    ranks = [
        {**rows("tower_grad/0/table", (0, 1.0)), **combined},
        {**rows("tower_grad/1/table", (2, 2.0)), **combined},
    ]
    assert combination_of(ranks).of == {"table": "mean"}


def test_of_rows_that_became_dense_behind_the_reduction_nothing_is_left():
    own, given = rows("grad/table", (1, 1.0)), {"clip/table": np.array([[0.0, 0.0], [0.5, -0.5]])}
    bias = {"grad/bias": np.ones(2)}
    settled = settle_clipping({**own, **given, **bias}, clipped_first=False, same_before=False)
    assert set(settled) == {"grad/table", "grad/bias"}
    np.testing.assert_array_equal(settled["grad/table"], given["clip/table"])
