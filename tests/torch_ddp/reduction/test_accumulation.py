import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from torch_ddp import parallel
from torch_ddp.parallel import ParallelError
from torch_ddp.reduction import HOOKS, accumulate

from .test_hooks import Weights

WRAPPERS = ["torch", "apex", "apex delayed"]


def wrap(module, wrapper):
    if wrapper == "torch":
        return DistributedDataParallel(module)
    return parallel.DistributedDataParallel(module, delay_allreduce=wrapper == "apex delayed", gradient_average=False)


def reductions_counted(rank, wrapper, lengths):
    model = wrap(Weights(1), wrapper)
    calls = []
    if wrapper == "torch":

        def counting(state, bucket):
            calls.append(bucket.index())
            return HOOKS["sum"](state, bucket)

        model.register_comm_hook(None, counting)
    else:
        before = type(model._scaling).before
        model._scaling = Counting(before, calls, model._scaling)
        if model._delayed is not None:
            model._delayed._scaling = model._scaling
    found = []
    for _ in range(2):
        model.zero_grad()
        seen = 0
        for x in accumulate(model, iter([torch.ones(1).double()] * lengths[rank.rank])):
            model(x * 10.0**rank.rank).backward()
            seen += 1
        assert seen == lengths[rank.rank]
        found.append(model.module.w.grad.item())
    return found, len(calls)


class Counting:
    def __init__(self, before, calls, scaling):
        self._before, self._calls, self._scaling = before, calls, scaling
        self.after = scaling.after

    def before(self, flat):
        self._calls.append(None)
        return self._before(self._scaling, flat)


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("lengths", [(3, 3), (1, 4)])
def test_one_reduction_per_update_sums_all_micro_batches_also_different_numbers_of_them(two_ranks, wrapper, lengths):
    want = lengths[0] + 10.0 * lengths[1]
    assert two_ranks(reductions_counted, wrapper, lengths) == [[[want, want], 2]] * 2


def reduced_each_time(rank):
    model = DistributedDataParallel(Weights(1))
    model.register_comm_hook(None, HOOKS["sum"])
    for _ in range(2):
        model(torch.ones(1).double()).backward()
    return model.module.w.grad.item()


def test_reducing_every_micro_batch_would_count_the_first_once_per_rank_more(two_ranks):
    once_more = 2 * 2 + 2
    assert two_ranks(reduced_each_time) == [once_more] * 2


def left_early(rank):
    model = DistributedDataParallel(Weights(1))
    for x in accumulate(model, [torch.ones(1).double()] * 3):
        model(x).backward()
        assert not model.require_backward_grad_sync
        break
    model.zero_grad()
    model(torch.ones(1).double() * rank.rank).backward()
    return model.module.w.grad.item()


def test_a_loop_that_is_left_early_leaves_the_model_reducing(two_ranks):
    assert two_ranks(left_early) == [0.5, 0.5]


def none_given(rank):
    with pytest.raises(ParallelError) as refused:
        list(accumulate(DistributedDataParallel(Weights(1)), []))
    return str(refused.value)


def test_a_rank_without_a_micro_batch_is_refused_since_the_others_would_wait(two_ranks):
    assert set(two_ranks(none_given)) == {
        "accumulate: expected at least one micro-batch on every rank, got none. "
        "Give a rank without examples an empty one, and a loss of zero."
    }


def test_a_model_that_is_not_wrapped_is_refused_at_once():
    with pytest.raises(ParallelError) as refused:
        accumulate(nn.Linear(1, 1), [1])
    assert str(refused.value) == "accumulate: expected a DistributedDataParallel, got Linear. Wrap the model first."
