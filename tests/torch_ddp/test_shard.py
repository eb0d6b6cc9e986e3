import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torch_ddp import TorchDdpError, shard


@given(ranks=st.integers(1, 6), piece=st.integers(1, 5), width=st.integers(1, 3))
def test_the_pieces_are_those_of_tf_split_and_joined_they_are_the_batch(ranks, piece, width):
    values = np.arange(ranks * piece * width).reshape(-1, width)
    batch = {"x": torch.from_numpy(values), "y": torch.from_numpy(values[:, 0].copy())}
    pieces = [shard(batch, rank, ranks) for rank in range(ranks)]
    # tf.split(value, n) is numpy's: n contiguous pieces of equal size, in order.
    for name, whole in batch.items():
        for mine, expected in zip(pieces, np.split(whole.numpy(), ranks), strict=True):
            np.testing.assert_array_equal(mine[name].numpy(), expected)
        assert torch.equal(torch.cat([mine[name] for mine in pieces]), whole)


@given(ranks=st.integers(2, 6), size=st.integers(1, 40))
def test_a_batch_that_does_not_divide_is_refused_as_tf_split_refuses_it(ranks, size):
    batch = {"x": torch.zeros(size)}
    if size % ranks == 0:
        assert len(shard(batch, 0, ranks)["x"]) == size // ranks
        return
    with pytest.raises(TorchDdpError, match=rf"^shard: expected the batch of 'x' to be divisible by {ranks} ranks"):
        shard(batch, 0, ranks)


def test_the_refusal_names_the_nearest_batch_sizes():
    with pytest.raises(TorchDdpError) as error:
        shard({"x": torch.zeros(10)}, 0, 4)
    assert str(error.value) == (
        "shard: expected the batch of 'x' to be divisible by 4 ranks, got 10. Use 8 or 12 examples."
    )


def test_no_batch_size_of_zero_is_offered():
    with pytest.raises(TorchDdpError, match=r"got 3\. Use 4 examples\.$"):
        shard({"x": torch.zeros(3)}, 0, 4)


def test_a_piece_is_a_view_and_costs_no_memory():
    batch = {"x": torch.zeros(4)}
    shard(batch, 1, 2)["x"].fill_(1.0)
    assert batch["x"].tolist() == [0.0, 0.0, 1.0, 1.0]
