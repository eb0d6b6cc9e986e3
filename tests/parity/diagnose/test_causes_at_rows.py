"""The right numbers in other places: rows of a table that are not those looked up, channels in another order."""

import numpy as np

from parity.diagnose.layers.products import other_channels, other_rows

RANDOM = np.random.default_rng(0)
TABLE = RANDOM.normal(size=(20, 4))
IDS = RANDOM.integers(0, 19, size=(3, 5))
X = RANDOM.normal(size=(2, 5, 5, 12))


def test_rows_that_are_others_are_named_with_how_far_they_are_off():
    shifted = other_rows("words", TABLE, TABLE[IDS], [TABLE[IDS + 1]])
    hashed = other_rows("words", TABLE, TABLE[IDS], [RANDOM.normal(size=(3, 5, 4)), TABLE[(7 * IDS) % 20]])
    assert (shifted.name, hashed.name) == ("other_rows", "other_rows")
    assert "each 1 rows on" in shifted.title
    assert "indices are computed otherwise" in hashed.title


def test_rows_of_no_table_name_nothing():
    assert other_rows("words", TABLE, TABLE[IDS], [1.5 * TABLE[IDS]]) is None
    assert other_rows("words", TABLE, TABLE[IDS], [RANDOM.normal(size=(3, 5, 4))]) is None
    assert other_rows("words", TABLE, TABLE[IDS], [TABLE[IDS]]) is None


def test_channels_that_were_joined_the_other_way_round_are_named():
    moved = np.concatenate([X[..., 8:], X[..., :8]], -1).transpose(0, 3, 1, 2)
    cause = other_channels("conv", [(X, moved)], {12})
    assert cause.name == "channel_order"
    assert "8 to 11, 0 to 7" in cause.title
    vectors = [(X[0, 0, 0], X[0, 0, 0, ::-1].reshape(1, -1, 1, 1))]
    assert other_channels("norm", vectors, {12}).name == "channel_order"


def test_examples_in_another_order_of_batch_and_steps_are_no_channels():
    scores = X[:, :, 0, 0].reshape(-1, 1), X[:, :, 0, 0].T.reshape(-1, 1)
    assert other_channels("loss", [scores, tuple(each[:, 0] for each in scores)], {1, 12}) is None


def test_another_layout_and_other_numbers_name_nothing():
    assert other_channels("conv", [(X, X.transpose(0, 3, 1, 2)), (X, X.transpose(0, 3, 2, 1))], {12}) is None
    assert other_channels("conv", [(X, RANDOM.normal(size=X.shape))], {12}) is None
    assert other_channels("conv", [(X, X[:, ::-1])], {12}) is None  # rows, not channels
