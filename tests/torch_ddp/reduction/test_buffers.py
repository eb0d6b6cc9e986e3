import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from torch_ddp import parallel
from torch_ddp.parallel import ParallelError, SyncBatchNorm
from torch_ddp.reduction import prepare_buffers, settle_buffers

MEANS = {"first": [0.0, 0.0], "mean": [0.15, 0.15], "sync": [0.15, 0.15]}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(1)
        self.register_buffer("other", torch.zeros(1))

    def forward(self, x):
        return self.norm(x)


def settled(rank, policy, wrapper):
    """Each rank sees two values around its own number, 0 to 3 over the ranks; one training step, then the policy."""
    module = prepare_buffers(Model().double(), policy)
    model = (DistributedDataParallel if wrapper == "torch" else parallel.DistributedDataParallel)(module)
    center = 3.0 * rank.rank
    model(torch.tensor([[center - 1], [center + 1]], dtype=torch.float64)).sum().backward()
    module.other.fill_(rank.rank)
    settle_buffers(model, policy)
    norm = module.norm
    return type(norm) is SyncBatchNorm, norm.running_mean, norm.running_var, norm.num_batches_tracked, module.other


@pytest.mark.parametrize("wrapper", ["torch", "apex"])
@pytest.mark.parametrize("policy", ["first", "mean", "sync"])
def test_after_a_policy_all_ranks_have_the_same_statistics(two_ranks, policy, wrapper):
    # Of -1 and 1 the unbiased variance is 2, and so it is of 2 and 4; of the four together it is 13/3.
    mean = 0.0 if policy == "first" else 0.15
    variance = 0.9 + 0.1 * (13 / 3 if policy == "sync" else 2.0)
    for rank, (converted, means, variances, batches, other) in enumerate(two_ranks(settled, policy, wrapper)):
        assert converted == (policy == "sync")
        np.testing.assert_allclose(means, [mean], rtol=1e-15, atol=1e-15)
        np.testing.assert_allclose(variances, [variance], rtol=1e-15)
        assert batches == 1
        assert other == [rank]


def unsynchronized(rank):
    module = Model()
    module(torch.tensor([[0.0], [1.0 + rank.rank]]))
    with pytest.raises(ParallelError) as refused:
        settle_buffers(module, "sync")
    return str(refused.value)


def test_statistics_that_should_be_synchronised_and_are_not_are_told_on_every_rank(two_ranks):
    assert set(two_ranks(unsynchronized)) == {
        "settle_buffers: expected the same norm.running_mean on all ranks, got different ones under the policy 'sync'. "
        "Convert the model with prepare_buffers before it is wrapped."
    }


def lone_layer(rank):
    layer = nn.BatchNorm1d(1, track_running_stats=True)
    layer.running_mean.fill_(rank.rank)
    layer.num_batches_tracked.fill_(rank.rank + 7)
    settle_buffers(nn.BatchNorm1d(1, track_running_stats=False), "mean")
    settle_buffers(layer, "mean")
    return layer.running_mean, layer.num_batches_tracked


def test_a_layer_by_itself_is_settled_too_and_its_count_is_that_of_rank_0(three_ranks):
    for mean, batches in three_ranks(lone_layer):
        assert (mean, batches) == ([1.0], 7)


def large_statistics(rank):
    layer = nn.BatchNorm1d(1)
    layer.running_mean.fill_(3e38)
    settle_buffers(layer, "mean")
    return float(layer.running_mean[0])


def test_the_mean_over_ranks_is_of_float64_sums(two_ranks):
    assert two_ranks(large_statistics) == [float(np.float32(3e38))] * 2


@pytest.mark.parametrize("call", [prepare_buffers, settle_buffers])
def test_an_unknown_policy_is_refused(call):
    with pytest.raises(ParallelError) as refused:
        call(Model(), "last")
    assert str(refused.value) == "buffers: expected the policy 'first', 'mean' or 'sync', got 'last'. Choose one."
