import numpy as np
import pytest
import torch
from support.device import on_device
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

from torch_ddp.errors import TorchDdpError
from torch_ddp.parallel import ParallelError
from torch_ddp.reduction import HOOKS, ExampleCounts, weighted_mean_hook
from torch_ddp.step.gradients import GradientReduction

SIZES = {2: [(4, 4), (5, 1), (6, 0)], 3: [(3, 3, 3), (5, 2, 1), (4, 0, 3)]}
SPLITS = [(f"{world}_ranks", sizes) for world, splits in SIZES.items() for sizes in splits]
POOLS = {"2_ranks": "two_ranks", "3_ranks": "three_ranks"}


@pytest.fixture
def pool(request, world):
    return request.getfixturevalue(POOLS[world])


class Weights(nn.Module):
    """Its gradient is its input."""

    def __init__(self, size, dtype=torch.float64):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(size, dtype=dtype))

    def forward(self, x):
        return (self.w * x).sum()


def own_gradient(rank, size=999):
    """Numbers whose sum in float32 depends on the order."""
    random = np.random.RandomState(rank)
    return (random.randn(size) * 10.0 ** random.randint(-4, 4, size)).astype(np.float32)


def reduced(rank, name, bucket_cap_mb):
    model = DistributedDataParallel(Weights(999, torch.float32), bucket_cap_mb=bucket_cap_mb)
    model.register_comm_hook(None, HOOKS[name])
    model(torch.from_numpy(own_gradient(rank.rank))).backward()
    return model.module.w.grad


@pytest.mark.parametrize("name", ["mean", "sum"])
def test_mean_and_sum_are_those_of_all_ranks(ranks, name):
    parts = [own_gradient(rank).astype(np.float64) for rank in range(ranks.world_size)]
    want = sum(parts) / (ranks.world_size if name == "mean" else 1)
    for got in ranks(reduced, name, 25):
        np.testing.assert_allclose(got, want, rtol=0, atol=3 * 2.0**-24 * sum(np.abs(part) for part in parts).max())


@pytest.mark.parametrize("name", ["ordered_mean", "ordered_sum"])
def test_ordered_sums_have_the_bits_of_adding_rank_by_rank(ranks, name):
    want = own_gradient(0)
    for rank in range(1, ranks.world_size):
        want = want + own_gradient(rank)
    if name == "ordered_mean":
        want = want / np.float32(ranks.world_size)
    for got in ranks(reduced, name, 25):
        np.testing.assert_array_equal(got, want)


def test_the_numbers_can_tell_orders_apart():
    first, second, third = (own_gradient(rank) for rank in range(3))
    assert (((first + second) + third) != (first + (second + third))).any()


def with_and_without(rank):
    found = []
    for hook in (None, HOOKS["mean"], allreduce_hook):
        torch.manual_seed(1)
        model = DistributedDataParallel(nn.Linear(7, 5))
        if hook:
            model.register_comm_hook(None, hook)
        torch.manual_seed(rank.rank)
        model(torch.randn(3, 7)).square().sum().backward()
        found.append(torch.cat([parameter.grad.flatten() for parameter in model.parameters()]))
    return found


def test_the_mean_has_the_bits_of_ddp_without_a_hook_and_torchs_own_hook_has_not(ranks):
    for plain, ours, torchs in ranks(with_and_without):
        np.testing.assert_array_equal(ours, plain)
        # A GPU divides by a number as DDP does: it multiplies by the reciprocal.
        assert (torchs == plain).all() == (ranks.world_size < 3 or on_device())


def weighted(rank, sizes):
    """Two steps on ragged shards, the losses being means: of the first step, and of the second with the shards reversed."""
    counts = ExampleCounts()
    torch.manual_seed(2)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double())
    model.register_comm_hook(counts, weighted_mean_hook)
    found = []
    for lengths in (sizes, sizes[::-1]):
        start = sum(lengths[: rank.rank])
        x = batch(sum(sizes))[start : start + lengths[rank.rank]]
        model.zero_grad()
        with counts.of(len(x)):
            model(x).square().mean().backward()
        found.append(torch.cat([parameter.grad.flatten() for parameter in model.parameters()]))
    return found


def batch(size):
    torch.manual_seed(3)
    return torch.randn(size, 3, dtype=torch.float64) * torch.arange(1.0, size + 1).double().unsqueeze(1)


@pytest.mark.parametrize(("world", "sizes"), SPLITS)
def test_weighted_means_are_the_gradients_of_the_whole_batch_for_ragged_and_empty_shards(pool, sizes):
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    model(batch(sum(sizes))).square().mean().backward()
    want = torch.cat([parameter.grad.flatten() for parameter in model.parameters()]).numpy()
    for steps in pool(weighted, sizes):
        for got in steps:
            np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-15)


def no_number(rank):
    counts = ExampleCounts()
    model = DistributedDataParallel(Weights(1))
    model.register_comm_hook(counts, weighted_mean_hook)
    x = torch.ones(2 * rank.rank, dtype=torch.float64)
    with counts.of(len(x)):
        (model(torch.ones(1).double()) * x.mean()).backward()
    return model.module.w.grad.item()


def test_a_mean_over_no_examples_does_not_spread_its_nan(two_ranks):
    assert two_ranks(no_number) == [1.0, 1.0]


def uncounted(rank):
    said = []
    counts = ExampleCounts()
    model = DistributedDataParallel(Weights(2))
    model.register_comm_hook(counts, weighted_mean_hook)
    with counts.of(1):
        model(torch.ones(2)).backward()
    with pytest.raises((ParallelError, RuntimeError)) as refused:
        model(torch.ones(2)).backward()
    said.append(str(refused.value))
    for wrong in (0, -rank.rank):
        with pytest.raises(ParallelError) as refused, counts.of(wrong):
            pass
        said.append(str(refused.value))
    return said


def test_weights_without_counts_are_refused(two_ranks):
    for outside, empty, negative in two_ranks(uncounted):
        assert (
            "weighted_mean_hook: expected backward() inside ExampleCounts.of, got it outside. "
            "Write: with counts.of(len(shard)): loss.backward()"
        ) in outside
        said = (
            "ExampleCounts: expected counts that are not negative, and one example at least, got {} by rank. "
            "Give each rank the length of its shard."
        )
        assert (empty, negative) == (said.format("[0, 0]"), said.format("[0, -1]"))


def kept(rank, name):
    model = DistributedDataParallel(Weights(2))
    reduction = GradientReduction(model, name)
    reduction.keep = True
    model(torch.tensor([1.0, 10.0]).double() * (rank.rank + 1)).backward()
    return model.module.w.grad, reduction.local["w"]


@pytest.mark.parametrize(("name", "factor"), [("mean", 2), ("sum", 6), ("ordered_mean", 2), ("ordered_sum", 6)])
def test_each_ranks_own_gradients_are_kept_beside_any_reduction(three_ranks, name, factor):
    for rank, (combined, local) in enumerate(three_ranks(kept, name)):
        np.testing.assert_allclose(combined, [factor, 10 * factor], rtol=1e-15)
        np.testing.assert_array_equal(local, [rank + 1, 10 * (rank + 1)])


def unknown(rank):
    with pytest.raises(TorchDdpError) as refused:
        GradientReduction(DistributedDataParallel(Weights(2)), "median")
    return str(refused.value)


def test_an_unknown_reduction_is_refused(two_ranks):
    assert set(two_ranks(unknown)) == {
        "gradients: expected reduce to be one of 'mean', 'sum', 'ordered_mean', 'ordered_sum', 'examples', got 'median'. "
        "Choose one."
    }
