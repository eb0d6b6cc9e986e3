"""The right numbers in other places: rows of a table that are not those looked up, channels in another order."""

import numpy as np
import pytest

from parity.diagnose.layers.products import other_channels, other_rows, other_rows_of_outputs

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


def test_rows_that_are_picked_of_what_a_layer_gives_are_others_to_rounding():
    """Of outputs both sides have the same rows to rounding only, and of some rows several."""
    places, rounded = np.array([1, 5, 9, 3, 3]), TABLE * (1 + 1e-15)
    shifted = other_rows_of_outputs("encoder", TABLE, TABLE[places], [rounded[places - 1]])
    assert shifted.name == "other_rows" and "each -1 rows on" in shifted.title
    elsewhere = other_rows_of_outputs("encoder", TABLE, TABLE[places], [rounded[[0, 5, 9, 3, 3]]])
    assert "1 of 5 rows are others" in elsewhere.evidence
    assert other_rows_of_outputs("encoder", TABLE, TABLE[places], [TABLE[places] * (1 + 1e-6)]) is None
    assert other_rows_of_outputs("encoder", TABLE, TABLE[places], [rounded[places]]) is None
    twice = np.concatenate([TABLE, TABLE])  # a row that is there twice is the same row
    assert other_rows_of_outputs("encoder", twice, TABLE[places], [twice[places + 20]]) is None


@pytest.mark.parametrize(
    ("own", "other", "length", "name", "how"),
    [
        ([4, 9, 14, 19], [0, 5, 10, 15], 5, "pooling", "each -4 positions on"),
        ([4, 9, 14, 19], [0, 6, 10, 15], 5, "pooling", "their indices are computed otherwise"),
        ([4, 9, 14, 19], [0, 5, 10, 15], 0, "other_rows", "each -4 rows on"),
        ([4, 9, 14, 19], [0, 1, 2, 3], 5, "other_rows", "their indices are computed otherwise"),  # all of one sequence
        ([4, 9, 14], [0, 5, 10], 5, "other_rows", "each -4 rows on"),  # of some sequences alone
    ],
)
def test_a_row_of_each_sequence_is_a_position_in_it(own, other, length, name, how):
    cause = other_rows_of_outputs("encoder", TABLE, TABLE[own], [TABLE[other]], length)
    assert cause.name == name and how in cause.title
    if name == "pooling":
        shown = [", ".join(str(each % length) for each in places) for places in (other, own)]
        assert "4 of 4 positions are others" in cause.evidence and all(each in cause.evidence for each in shown)
