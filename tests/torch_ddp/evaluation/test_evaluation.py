import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from torch_ddp import (
    ExactSampler,
    Rank,
    TorchDdpError,
    evaluate,
    gather_by_index,
    gather_ragged,
    mean_over_ranks,
    reduce_tensor,
)

ALONE = Rank(0, 0, 1)


class Data(torch.utils.data.Dataset):
    """Examples 0 to n - 1; each is its own number, as float64."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> tuple[int, torch.Tensor]:
        return index, torch.tensor(float(index), dtype=torch.float64)


class Net(nn.Module):
    """Doubles; has batch norm and dropout that only evaluation mode leaves alone."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(2.0, dtype=torch.float64))
        self.norm = nn.BatchNorm1d(1).double()
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert not torch.is_grad_enabled()
        return self.dropout(self.norm((x * self.weight)[:, None]))[:, 0]


def value_and_parity(model: nn.Module, batch: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    index, x = batch
    return {"value": model(x), "odd": (index % 2).float()}


def evaluated(rank: Rank, size: int, batch_size: int) -> tuple[dict[str, float], list[bool]]:
    data = Data(size)
    model = DistributedDataParallel(Net()) if rank.world_size > 1 else Net()
    model.train()
    bare = model.module if rank.world_size > 1 else model
    bare.norm.eval()
    loader = DataLoader(data, batch_size, sampler=ExactSampler(data, rank))
    return evaluate(model, loader, value_and_parity, rank), [bare.training, bare.norm.training, bare.dropout.training]


def padded_mean(rank: Rank, size: int) -> float:
    data = Data(size)
    own = [data[index][1] for index in DistributedSampler(data, rank.world_size, rank.rank, shuffle=False)]
    return float(reduce_tensor(torch.stack(own).mean(), rank))


def ragged(rank: Rank, counts: list[int]) -> list[list]:
    own = torch.full((counts[rank.rank], 2), float(rank.rank), dtype=torch.bfloat16)
    return [part.tolist() for part in gather_ragged(own, rank)]


def in_order(rank: Rank, size: int, twice: bool) -> list[int] | str:
    sampler = DistributedSampler(Data(size), shuffle=False) if twice else ExactSampler(Data(size), rank)
    indices = torch.tensor(list(sampler), dtype=torch.int64)
    try:
        return gather_by_index(indices, indices * 10, rank).tolist()
    except TorchDdpError as error:
        return str(error)


def reduced(rank: Rank) -> tuple:
    own = torch.tensor([1.0, rank.rank], dtype=torch.float64)
    mean, total = reduce_tensor(own, rank), reduce_tensor(torch.tensor(rank.rank + 1), rank, "sum")
    return mean.tolist(), int(total), own.tolist()


def weighted(rank: Rank, values: list[float], counts: list[int]) -> dict[str, float]:
    return mean_over_ranks({"loss": values[rank.rank]}, counts[rank.rank], rank)


def differing(rank: Rank, count: int) -> str:
    try:
        mean_over_ranks({f"loss-{rank.rank}": 1.0}, count, rank)
    except TorchDdpError as error:
        return str(error)
    return ""


@given(size=st.integers(0, 50), world=st.integers(1, 7))
def test_every_example_goes_to_one_rank_once(size, world):
    samplers = [ExactSampler(Data(size), Rank(rank, rank, world)) for rank in range(world)]
    dealt = [index for sampler in samplers for index in sampler]
    assert sorted(dealt) == list(range(size))
    assert all(len(sampler) == len(list(sampler)) for sampler in samplers)
    assert max(map(len, samplers)) - min(map(len, samplers)) <= 1


@pytest.mark.parametrize(("size", "batch_size"), [(7, 2), (5, 3), (9, 1), (1, 4)])
@pytest.mark.parametrize("ranks", ["two_ranks", "three_ranks"])
def test_ragged_ranks_find_what_one_process_finds(request, ranks, size, batch_size):
    alone, _ = evaluated(ALONE, size, batch_size)
    assert alone["value"] == pytest.approx((size - 1) / np.sqrt(1 + 1e-5), rel=1e-12)
    found = request.getfixturevalue(ranks).run(evaluated, size, batch_size)
    for means, modes in found:
        assert means["value"] == pytest.approx(alone["value"], rel=1e-14)
        assert means["odd"] == alone["odd"] == (size // 2) / size
        assert modes == [True, False, True]
    assert all(means == found[0][0] for means, _ in found)


def test_padding_would_have_biased_the_mean(two_ranks):
    assert two_ranks.run(padded_mean, 5) == [pytest.approx(5 / 3), pytest.approx(5 / 3)]


def test_the_training_mode_is_set_back_after_an_error():
    model = Net().train()
    with pytest.raises(ZeroDivisionError):
        evaluate(model, [1], lambda *_: 1 / 0, ALONE)
    assert model.training
    assert model.dropout.training


def test_a_metric_that_is_a_mean_already_is_refused():
    with pytest.raises(TorchDdpError) as error:
        evaluate(Net(), [torch.zeros(3)], lambda model, batch: {"loss": batch.mean()}, ALONE)
    assert str(error.value) == (
        "evaluate: expected 'loss' to be one value per example, got shape (). "
        "Leave its mean to evaluate, e.g. with reduction='none'."
    )


def test_evaluating_nothing_is_refused():
    with pytest.raises(TorchDdpError) as error:
        evaluate(Net(), [], value_and_parity, ALONE)
    assert str(error.value) == (
        "evaluate: expected the same metrics of all ranks, got no example on any rank. "
        "Return the same names for every batch."
    )


@pytest.mark.parametrize("counts", [[0, 3, 1], [2, 2, 2], [0, 0, 0], [5, 0, 0]])
def test_every_rank_gets_all_rows_of_all_ranks(three_ranks, counts):
    expected = [[[float(rank)] * 2] * count for rank, count in enumerate(counts)]
    assert three_ranks.run(ragged, counts) == [expected] * 3


@pytest.mark.parametrize("size", [7, 3, 1])
def test_predictions_come_back_in_the_order_of_the_data(three_ranks, size):
    assert three_ranks.run(in_order, size, False) == [[10 * index for index in range(size)]] * 3


def test_predictions_of_repeated_examples_are_refused(three_ranks):
    assert three_ranks.run(in_order, 7, True) == [
        "gather: expected every example from 0 to 8 once, got some twice or not at all. "
        "Use ExactSampler: DistributedSampler repeats examples."
    ] * 3  # fmt: skip


def test_values_without_their_indices_and_scalars_are_refused():
    with pytest.raises(TorchDdpError) as error:
        gather_by_index(torch.arange(2), torch.zeros(3), ALONE)
    assert str(error.value) == "gather: expected an index for each of 3 values, got 2. Collect both per batch."
    with pytest.raises(TorchDdpError) as error:
        gather_ragged(torch.tensor(1.0), ALONE)
    assert str(error.value) == (
        "gather: expected a tensor with rows, got a scalar. Give it an axis, or use reduce_tensor."
    )


def test_a_tensor_is_reduced_into_a_new_one(three_ranks):
    for rank, found in enumerate(three_ranks.run(reduced)):
        assert found == ([1.0, 1.0], 6, [1.0, rank])


def test_a_single_rank_reduces_without_a_group():
    assert float(reduce_tensor(torch.tensor(3.0), ALONE)) == 3.0
    assert mean_over_ranks({"loss": 3.0}, 2, ALONE) == {"loss": 3.0}


def test_impossible_reductions_are_refused():
    with pytest.raises(TorchDdpError) as error:
        reduce_tensor(torch.tensor(1), ALONE)
    assert str(error.value) == (
        "reduce_tensor: expected floating-point numbers to average, got torch.int64. Convert, or take the sum."
    )
    with pytest.raises(TorchDdpError, match=r"^reduce_tensor: expected reduce to be 'mean' or 'sum', got 'max'\.$"):
        reduce_tensor(torch.tensor(1.0), ALONE, "max")


def test_means_of_unequal_shares_are_weighted(three_ranks):
    found = three_ranks.run(weighted, [1.0, 4.0, float("nan")], [3, 1, 0])
    assert found == [{"loss": 1.75}] * 3


def test_sums_are_taken_in_float64(three_ranks):
    large = torch.full((2,), 3e38)
    found = evaluate(Net(), [large, large], lambda model, batch: {"loss": batch}, ALONE)
    assert found == {"loss": float(large[0])}
    for means in three_ranks.run(weighted, [0.1, 0.4, 0.7], [3, 1, 0]):
        assert means["loss"] == pytest.approx(0.175, rel=1e-14)


def test_ranks_with_different_metrics_are_refused(two_ranks):
    assert two_ranks.run(differing, 1) == [
        "mean_over_ranks: expected the same metrics of all ranks with examples, got [('loss-0',), ('loss-1',)]. "
        "Give them the same names on every rank."
    ] * 2  # fmt: skip
    assert two_ranks.run(differing, 0)[0].startswith(
        "mean_over_ranks: expected the same metrics of all ranks with examples, got none."
    )
