import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from torch_ddp import like_tf
from torch_ddp.like_tf import LikeTfError
from torch_ddp.parallel import ParallelError
from torch_ddp.reduction import accumulate, clip_by_global_norm_, clip_by_norm_

CLIPS = {"global": clip_by_global_norm_, "each": clip_by_norm_}


def clipped(rank, how, loss_scale):
    """Gradients [1, 3] and [10] on rank 0, [5, 5] and [-6] on rank 1, scaled; their means are [3, 4] and [2]."""
    first, second = ([1.0, 3.0], [10.0]) if rank.rank == 0 else ([5.0, 5.0], [-6.0])
    wrapped = DistributedDataParallel(Pair())
    loss = wrapped(torch.tensor(first).double(), torch.tensor(second).double())
    (loss * loss_scale).backward()
    norm = CLIPS[how](wrapped, 3.0, loss_scale)
    return norm, [parameter.grad for parameter in wrapped.parameters()]


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Parameter(torch.zeros(2).double())
        self.second = nn.Parameter(torch.zeros(1).double())

    def forward(self, x, y):
        return (self.first * x).sum() + (self.second * y).sum()


@pytest.mark.parametrize("loss_scale", [1.0, 1024.0])
def test_the_mean_is_clipped_by_the_norm_of_all_variables_after_unscaling(two_ranks, loss_scale):
    norm_wanted = np.sqrt(29)
    for norm, (first, second) in two_ranks(clipped, "global", loss_scale):
        np.testing.assert_allclose(norm, norm_wanted, rtol=1e-15)
        np.testing.assert_allclose(first, np.array([3.0, 4.0]) * 3 / norm_wanted, rtol=1e-15)
        np.testing.assert_allclose(second, np.array([2.0]) * 3 / norm_wanted, rtol=1e-15)


@pytest.mark.parametrize("loss_scale", [1.0, 1024.0])
def test_the_mean_is_clipped_variable_by_variable_after_unscaling(two_ranks, loss_scale):
    for nothing, (first, second) in two_ranks(clipped, "each", loss_scale):
        assert nothing is None
        np.testing.assert_allclose(first, np.array([3.0, 4.0]) * 3 / 5, rtol=1e-15)
        np.testing.assert_array_equal(second, [2.0])


def with_gradients(*values):
    model = nn.ParameterList([torch.zeros(len(value)) for value in values])
    for parameter, value in zip(model, values, strict=True):
        parameter.grad = torch.tensor(value)
    return model


def test_the_rules_are_those_of_like_tf_bit_for_bit():
    values = ([0.3, -0.7, 1.1], [2.3])
    model = with_gradients(*values)
    norm = clip_by_global_norm_(model, 0.37)
    want, norm_wanted = like_tf.clip_by_global_norm([torch.tensor(value) for value in values], 0.37)
    assert torch.equal(norm, norm_wanted)
    assert all(torch.equal(parameter.grad, value) for parameter, value in zip(model, want, strict=True))
    model = with_gradients(*values)
    clip_by_norm_(model, 0.37)
    want = [like_tf.clip_by_norm(torch.tensor(value), 0.37) for value in values]
    assert all(torch.equal(parameter.grad, value) for parameter, value in zip(model, want, strict=True))


def test_an_overflow_makes_every_gradient_nan_as_in_tensorflow():
    model = with_gradients([1.0], [float("inf")])
    assert clip_by_global_norm_(model, 1.0).isinf()
    assert all(parameter.grad.isnan().all() for parameter in model)


def test_parameters_without_a_gradient_are_left_alone():
    model = with_gradients([3.0], [4.0])
    model[1].grad = None
    clip_by_norm_(model, 1.0, 2.0)
    assert model[0].grad.item() == 1.0 and model[1].grad is None
    model[0].grad = None
    with pytest.raises(LikeTfError, match="at least one tensor"):
        clip_by_global_norm_(model, 1.0)


def too_early(rank):
    model = DistributedDataParallel(Pair())
    said = []
    for x in accumulate(model, [torch.ones(2).double()] * 2):
        model(x, x[:1]).backward()
        if model.require_backward_grad_sync:
            clip_by_global_norm_(model, 1.0)
            continue
        for clip in CLIPS.values():
            with pytest.raises(ParallelError) as refused:
                clip(model, 1.0)
            said.append(str(refused.value))
    return said


def test_clipping_before_the_reduction_is_refused(two_ranks):
    said = "{}: expected reduced gradients, got this rank's own, inside no_sync. Clip after the last micro-batch."
    assert two_ranks(too_early) == [[said.format("clip_by_global_norm_"), said.format("clip_by_norm_")]] * 2


@pytest.mark.parametrize("clip", CLIPS.values())
@pytest.mark.parametrize(
    ("settings", "name", "number"),
    [((0.0,), "clip_norm", 0.0), ((1.0, -2.0), "loss_scale", -2.0), ((float("nan"),), "clip_norm", float("nan"))],
)
def test_numbers_that_are_not_positive_are_refused(clip, settings, name, number):
    with pytest.raises(ParallelError) as refused:
        clip(with_gradients([1.0]), *settings)
    assert str(refused.value) == (
        f"{clip.__name__}: expected a positive {name}, got {number}. Leave out the clipping instead."
    )


def test_a_sparse_gradient_is_not_clipped_by_its_own_norm_but_by_the_common_one():
    model = nn.Embedding(3, 1, sparse=True)
    model(torch.tensor([1, 2])).sum().backward()
    with pytest.raises(ParallelError) as refused:
        clip_by_norm_(model, 1.0)
    assert str(refused.value) == (
        "clip_by_norm_: expected dense gradients, got a sparse one of weight. Use Embedding(sparse=False)."
    )
    clip_by_global_norm_(model, 1.0, 2.0)
    torch.testing.assert_close(model.weight.grad.to_dense().flatten(), torch.tensor([0.0, 0.5, 0.5]))
