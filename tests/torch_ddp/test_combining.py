import numpy as np
import pytest
import torch

from torch_ddp import Rank, TorchDdpError
from torch_ddp.shard import shard_uneven
from torch_ddp.step.combine import Combining, combine_by_hand, over_micro_batches


def gradients_of(rank: Rank) -> dict[str, torch.Tensor]:
    """Both ranks have `a`; only rank 0 has `b`; `rows` is sparse, row 1 is there twice on rank 1."""
    number = rank.rank + 1.0
    values = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64) * number
    rows = torch.sparse_coo_tensor(torch.tensor([[1, 1 if rank.rank else 0]]), values, (3, 2), check_invariants=False)
    own = {"a": torch.tensor([number, 10.0], dtype=torch.float64), "rows": rows}
    return {**own, "b": torch.tensor([6.0], dtype=torch.float64)} if rank.rank == 0 else own


def combined(rank: Rank, how: dict) -> dict[str, np.ndarray]:
    parameters = {"a": torch.zeros(2), "b": torch.zeros(1), "rows": torch.zeros(3, 2), "unused": torch.zeros(1)}
    parameters = {name: value.double() for name, value in parameters.items()}
    found = combine_by_hand(gradients_of(rank), parameters, Combining(**how), (1, 3)[rank.rank])
    kinds = {name: value.is_sparse for name, value in found.items()}
    stored = {name: value._nnz() for name, value in found.items() if value.is_sparse}
    return {"kinds": kinds, "stored": stored, **{name: value.to_dense().numpy() for name, value in found.items()}}


@pytest.mark.parametrize(
    ("how", "a", "b"),
    [
        ({"missing": "zeros"}, [1.5, 10.0], 3.0),
        ({"missing": "present"}, [1.5, 10.0], 6.0),
        ({"missing": "skip"}, [1.5, 10.0], None),
        ({"missing": "zeros", "reduce": "sum"}, [3.0, 20.0], 6.0),
        ({"missing": "present", "reduce": "prescaled"}, [3.0, 20.0], 6.0),
        ({"missing": "zeros", "reduce": "examples"}, [1.75, 10.0], 1.5),
        ({"missing": "present", "reduce": "examples"}, [1.75, 10.0], 6.0),
    ],
)
def test_what_some_ranks_lack_counts_as_the_policy_says_on_every_rank(two_ranks, how, a, b):
    one, other = two_ranks.run(combined, how)
    for found in (one, other):
        np.testing.assert_allclose(found["a"], a, rtol=1e-15)
        assert ("b" in found) == (b is not None)
        assert b is None or found["b"] == pytest.approx(b, rel=1e-15)
        assert "unused" not in found


@pytest.mark.parametrize(
    ("how", "sparse", "factors"),
    [
        ({"sparse": "slices"}, True, (0.5, 0.5)),
        ({"sparse": "slices_unscaled"}, True, (1.0, 1.0)),
        ({"sparse": "slices", "reduce": "sum"}, True, (1.0, 1.0)),
        ({"sparse": "slices", "reduce": "examples"}, True, (0.25, 0.75)),
        ({"sparse": "dense"}, False, (0.5, 0.5)),
    ],
)
def test_rows_of_all_ranks_are_kept_apart_or_added_up(two_ranks, how, sparse, factors):
    one, other = two_ranks.run(combined, {"missing": "skip", **how})
    expected = np.array([[3.0, 4.0], [1.0, 2.0], [0.0, 0.0]]) * factors[0]
    expected[1] += (np.array([1.0, 2.0]) + np.array([3.0, 4.0])) * 2 * factors[1]
    for found in (one, other):
        np.testing.assert_allclose(found["rows"], expected, rtol=1e-15)
        assert found["kinds"]["rows"] == sparse
        assert found["stored"] == ({"rows": 4} if sparse else {})


@pytest.mark.parametrize(("mean", "factor"), [(True, 0.5), (False, 1.0)])
def test_micro_batches_are_reduced_on_their_rank(mean, factor):
    parts = [gradients_of(Rank(rank, rank, 2)) for rank in range(2)]
    parts = [{name: part[name] for name in ("a", "rows")} for part in parts]
    for sparse in ("dense", "slices"):
        found = over_micro_batches(parts, mean, sparse)
        np.testing.assert_allclose(found["a"], np.array([3.0, 20.0]) * factor)
        assert found["rows"].is_sparse == (sparse == "slices")
        dense = parts[0]["rows"].to_dense() + parts[1]["rows"].to_dense()
        np.testing.assert_allclose(found["rows"].to_dense(), dense * factor)


def test_another_reduction_is_refused():
    with pytest.raises(TorchDdpError) as caught:
        combine_by_hand({}, {}, Combining("median"), 1)
    assert str(caught.value) == (
        "gradients: expected reduce to be 'mean', 'sum', 'prescaled' or 'examples', got 'median'. Choose one."
    )


@pytest.mark.parametrize("size", [1, 4, 7, 8])
@pytest.mark.parametrize("policy", ["drop", "pad", "sizes"])
def test_uneven_shards_hold_every_example_that_counts_once_and_in_order(size, policy):
    batch = {"x": torch.arange(size, dtype=torch.float64), "k": torch.arange(size)}
    shards = [shard_uneven(batch, rank, 3, policy) for rank in range(3)]
    whole = torch.cat([piece.inputs["k"] for piece in shards])
    if policy == "pad":
        weights = torch.cat([piece.inputs["example_weights"] for piece in shards])
        assert weights.dtype == torch.float64
        assert (whole[weights == 0] == size - 1).all()
        assert len({len(piece.inputs["k"]) for piece in shards}) == 1
        whole = whole[weights == 1]
    assert whole.tolist() == list(range(size - size % 3 if policy == "drop" else size))
    assert sum(piece.examples for piece in shards) == len(whole)
    if policy == "sizes":
        lengths = [piece.examples for piece in shards]
        assert lengths == sorted(lengths, reverse=True)
        assert lengths[0] - lengths[-1] <= 1


def test_another_policy_is_refused():
    with pytest.raises(TorchDdpError, match="expected policy to be one of drop, pad, sizes, got 'repeat'"):
        shard_uneven({"x": torch.zeros(3)}, 0, 2, "repeat")
