import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as TorchDDP

from torch_ddp.parallel import DistributedDataParallel, ParallelError, SyncBatchNorm

THIRD = 1 / 3


class Product(nn.Module):
    """The gradients of a and b are as large as the other: a gradient used too early or late has another value."""

    def __init__(self, size=64):
        super().__init__()
        self.a = nn.Parameter(torch.full((size,), 1.0))
        self.b = nn.Parameter(torch.full((size,), 2.0))

    def forward(self, x):
        return x * self.a * self.b


class Weights(nn.Module):
    """Its gradient is its input."""

    def __init__(self, size=4, dtype=torch.float64):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(size, dtype=dtype))

    def forward(self, x):
        return (self.w * x).sum()


def wrap(module, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return DistributedDataParallel(module, **settings)


def raced(rank, settings):
    model = Product()
    triggers = {"allreduce_trigger_params": [model.b]} if settings.pop("trigger", False) else {}
    model = wrap(model, **settings, **triggers)
    sums = []
    for step in range(10):
        model.zero_grad()
        model(torch.full((64,), float(step + rank.rank))).sum().backward()
        sums.append((model.module.a.grad.sum().item(), model.module.b.grad.sum().item()))
    return sums


@pytest.mark.parametrize(
    "settings",
    [
        {"message_size": 1},
        {"message_size": 1, "gradient_predivide_factor": 8.0},
        {"message_size": 1, "trigger": True, "num_allreduce_streams": 3},
        {"message_size": 1, "retain_allreduce_buffers": True},
        {"delay_allreduce": True},
        {"delay_allreduce": True, "retain_allreduce_buffers": True},
    ],
    ids=str,
)
def test_no_step_sees_gradients_of_another_step_or_another_parameter(two_ranks, settings):
    want = [(2.0 * 64 * (step + 0.5), 1.0 * 64 * (step + 0.5)) for step in range(10)]
    assert [[tuple(pair) for pair in sums] for sums in two_ranks(raced, settings)] == [want, want]


def one_gradient(rank, settings, dtype, values):
    model = wrap(Weights(1, getattr(torch, dtype)), **settings)
    model(torch.tensor([values[rank.rank]], dtype=getattr(torch, dtype))).backward()
    return model.module.w.grad.item()


@pytest.mark.parametrize("delay", [False, True])
@pytest.mark.parametrize(
    ("settings", "want"),
    [
        ({}, 3.0),
        ({"gradient_average": False}, 9.0),
        ({"gradient_predivide_factor": 2.0}, 3.0),
        ({"gradient_predivide_factor": 2.0, "gradient_average": False}, 4.5),
    ],
    ids=str,
)
def test_gradients_are_averaged_or_summed_and_divided_before(three_ranks, settings, want, delay):
    values = [1.0, 2.0, 6.0]
    got = three_ranks(one_gradient, {**settings, "delay_allreduce": delay}, "float64", values)
    assert got == pytest.approx([want] * 3, rel=1e-15)


@pytest.mark.parametrize("delay", [False, True])
def test_the_average_is_a_product_with_the_reciprocal_as_in_apex(three_ranks, delay):
    assert THIRD * 5.0 != 5.0 / 3
    assert three_ranks(one_gradient, {"delay_allreduce": delay}, "float64", [5.0, 0.0, 0.0]) == [5.0 * THIRD] * 3


@pytest.mark.parametrize("delay", [False, True])
@pytest.mark.parametrize(
    ("settings", "want"),
    [({}, np.inf), ({"gradient_predivide_factor": 2.0}, 40000.0), ({"allreduce_always_fp32": True}, 40000.0)],
    ids=str,
)
def test_half_gradients_are_divided_after_the_sum_so_that_large_ones_overflow_as_in_apex(
    two_ranks, settings, want, delay
):
    got = two_ranks(one_gradient, {**settings, "delay_allreduce": delay}, "float16", [40000.0, 40000.0])
    assert got == [want, want]


def half_sum_of_many(rank, settings):
    model = wrap(Weights(1, torch.float16), gradient_average=False, **settings)
    model(torch.tensor([2048.0 if rank.rank == 0 else 1.0], dtype=torch.float16)).backward()
    return model.module.w.grad.item()


def test_summing_half_gradients_in_float32_rounds_once(three_ranks):
    assert three_ranks(half_sum_of_many, {"allreduce_always_fp32": True}) == [2050.0] * 3


def torchs_and_ours(rank):
    found = []
    for make in (TorchDDP, DistributedDataParallel, lambda m: DistributedDataParallel(m, delay_allreduce=True)):
        torch.manual_seed(3)
        model = make(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)).double())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for step in range(3):
            torch.manual_seed(10 * step + rank.rank)
            optimizer.zero_grad()
            model(torch.randn(5, 4, dtype=torch.float64)).square().mean().backward()
            optimizer.step()
        found.append(torch.cat([parameter.detach().flatten() for parameter in model.parameters()]))
    return found


def test_training_is_that_of_torchs_own_wrapper(ranks):
    for torchs, ours, delayed in ranks(torchs_and_ours):
        np.testing.assert_allclose(ours, torchs, rtol=1e-14, atol=1e-16)
        np.testing.assert_allclose(delayed, torchs, rtol=1e-14, atol=1e-16)


def with_masters(rank, delay):
    """A half precision model whose update is made in float32 copies of its weights."""
    torch.manual_seed(rank.rank)
    linear = nn.Linear(6, 3).half()
    model = wrap(linear, delay_allreduce=delay)
    masters = [parameter.detach().float().requires_grad_() for parameter in linear.parameters()]
    optimizer = torch.optim.SGD(masters, lr=1e-2)
    x, y = torch.randn(8, 6).half(), torch.randn(8, 3)
    losses = []
    for _ in range(20):
        model.zero_grad()
        loss = (model(x).float() - y).square().mean()
        (loss * 128.0).backward()
        for master, parameter in zip(masters, linear.parameters(), strict=True):
            master.grad = parameter.grad.float() / 128.0
        optimizer.step()
        with torch.no_grad():
            for master, parameter in zip(masters, linear.parameters(), strict=True):
                parameter.copy_(master)
        losses.append(loss.item())
    return losses, list(linear.parameters()), masters


@pytest.mark.parametrize("delay", [False, True])
def test_half_weights_and_their_float32_masters_stay_the_same_on_all_ranks(two_ranks, delay):
    (first_losses, *first), (second_losses, *second) = two_ranks(with_masters, delay)
    assert first_losses != second_losses
    assert first_losses[-1] + second_losses[-1] < first_losses[0] + second_losses[0]
    for kind in (0, 1):
        for one, other in zip(first[kind], second[kind], strict=True):
            np.testing.assert_array_equal(one, other)
    for half, master in zip(*first, strict=True):
        assert (half.dtype, master.dtype) == (np.float16, np.float32)
        np.testing.assert_array_equal(half, master.astype(np.float16))
        assert (half != master).any()


def started(rank, delay):
    torch.manual_seed(rank.rank)
    layer = nn.BatchNorm1d(2)
    layer.running_mean.fill_(rank.rank)
    with torch.no_grad():
        layer.weight.fill_(rank.rank + 5.0)
    model = wrap(layer, delay_allreduce=delay)
    at_start = (layer.weight.detach().clone(), layer.running_mean.clone())
    for _ in range(2):
        model(torch.full((3, 2), 10.0 * rank.rank)).sum().backward()
    return *at_start, layer.running_mean


@pytest.mark.parametrize("delay", [False, True])
def test_all_ranks_start_from_rank_0_and_then_keep_buffers_of_their_own(two_ranks, delay):
    first, second = two_ranks(started, delay)
    assert first[0][0] == second[0][0] == 5.0
    assert first[1][0] == second[1][0] == 0.0
    assert first[2][0] == 0.0
    assert second[2][0] == pytest.approx(1.9)


def test_names_in_the_state_and_the_model_inside_are_torchs(two_ranks):
    for names, inside in two_ranks(state_names):
        assert names == ["module.w"]
        assert inside


def state_names(rank):
    module = Weights()
    model = wrap(module)
    model.load_state_dict(model.state_dict())
    return list(model.state_dict()), model.module is module and isinstance(model, TorchDDP)


def accumulated(rank, delay, how):
    model = wrap(Weights(1), delay_allreduce=delay)
    x = torch.tensor([float(rank.rank + 1)], dtype=torch.float64)
    if how == "no_sync":
        with model.no_sync():
            model(x).backward()
    elif how == "disabled":
        model.disable_allreduce()
        model(x).backward()
        model.enable_allreduce()
    else:
        loss = model(x)
        model.disable_allreduce()
        loss.backward()
        model.enable_allreduce()
    own = model.module.w.grad.item()
    model(x).backward()
    return own, model.module.w.grad.item()


@pytest.mark.parametrize("delay", [False, True])
@pytest.mark.parametrize("how", ["no_sync", "disabled", "disabled between forward and backward"])
def test_gradients_add_up_on_each_rank_until_they_are_reduced_again(two_ranks, delay, how):
    assert two_ranks(accumulated, delay, how) == [[1.0, 3.0], [2.0, 3.0]]


def retained(rank, delay):
    model = nn.Sequential(nn.Linear(2, 2).double(), nn.Linear(3, 3)) if delay else nn.Linear(2, 2).double()
    linear = model[0] if delay else model
    model = wrap(model, retain_allreduce_buffers=True, delay_allreduce=delay, message_size=1)
    for _ in range(3):
        model.zero_grad()
        x = torch.full((1, 2), rank.rank + 1.0, dtype=torch.float64)
        y = linear(x) if delay else model(x)
        loss = y.sum()
        if delay:
            loss = loss + model.module[1](torch.ones(1, 3)).sum()
        loss.backward()
    buffers = model.allreduce_buffers
    kept = {buffer.untyped_storage().data_ptr() for buffer in buffers}
    assert {p.grad.untyped_storage().data_ptr() for p in model.parameters()} == kept
    return [buffer.numel() for buffer in buffers], torch.cat([buffer.double() for buffer in buffers]).tolist()


def test_retained_buffers_hold_the_gradients(two_ranks):
    for sizes, values in two_ranks(retained, False):
        assert sorted(sizes) == [2, 4]
        assert sorted(values) == [1.0, 1.0, 1.5, 1.5, 1.5, 1.5]
    for sizes, values in two_ranks(retained, True):
        assert sizes == [6, 12]
        assert values == [1.5] * 4 + [1.0] * 2 + [1.0] * 12


def buckets(rank, message_size, delay):
    layers = nn.Sequential(*[nn.Linear(3, 3, bias=False) for _ in range(4)])
    model = wrap(layers, message_size=message_size, delay_allreduce=delay, retain_allreduce_buffers=True)
    for _ in range(2):
        model(torch.ones(1, 3)).sum().backward()
    return [buffer.numel() for buffer in model.allreduce_buffers]


@pytest.mark.parametrize(
    ("message_size", "delay", "want"),
    [(1, False, [9] * 4), (10, False, [18, 18]), (10**7, False, [36]), (1, True, [36])],
)
def test_a_bucket_is_sent_when_it_has_as_many_elements_as_a_message(two_ranks, message_size, delay, want):
    assert two_ranks(buckets, message_size, delay) == [want, want]


def partly_used(rank):
    model = nn.ModuleDict({name: nn.Linear(1, 1, bias=False) for name in ("both", "first", "none")})
    wrapped = wrap(model, delay_allreduce=True)
    found = []
    for _ in range(2):
        wrapped.zero_grad()
        y = wrapped.module["both"](torch.ones(1, 1))
        if rank.rank == 0:
            y = y + wrapped.module["first"](torch.ones(1, 1))
        y.backward()
        found.append([None if p.grad is None else p.grad.item() for p in model.parameters()])
    return found


def test_delayed_parameters_that_no_rank_used_have_no_gradient_and_others_have_the_mean(two_ranks):
    assert two_ranks(partly_used) == [[[1.0, 0.5, None]] * 2] * 2


def after_a_failure(rank):
    model = wrap(Product(1), delay_allreduce=True, gradient_average=False)
    first = _Raises.apply(model.module.a.sum())
    with pytest.raises(RuntimeError, match="planned"):
        (first + model.module.b.sum()).backward()  # what was made last comes first
    assert model.module.a.grad is None and model.module.b.grad is not None
    model.zero_grad()
    model(torch.tensor([rank.rank + 1.0])).sum().backward()
    return model.module.b.grad.item()


def test_delayed_reduction_goes_on_after_a_backward_that_failed(two_ranks):
    assert two_ranks(after_a_failure) == [3.0, 3.0]


def two_losses(rank):
    model = wrap(Weights(1), delay_allreduce=True, gradient_average=False)
    loss = model(torch.tensor([rank.rank + 1.0], dtype=torch.float64))
    loss.backward(retain_graph=True)
    once = model.module.w.grad.item()
    model.zero_grad()
    loss.backward()
    return once, model.module.w.grad.item()


class _Raises(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, dy):
        raise RuntimeError("planned")


def test_delayed_reduction_follows_each_backward(two_ranks):
    assert two_ranks(two_losses) == [[3.0, 3.0]] * 2


def unreduced(rank):
    said = []
    x = torch.tensor([rank.rank + 1.0], dtype=torch.float64)

    def refused(loss):
        with pytest.raises((ParallelError, RuntimeError)) as caught:
            loss.backward()
        said.append(str(caught.value))

    model = wrap(Weights(1))
    with torch.no_grad():
        model(x)
    refused(model.module(x))
    model = wrap(Weights(1))
    loss = model(x)
    loss.backward(retain_graph=True)
    refused(loss)
    model = wrap(Weights(1))
    first, second = model(x), model(x)
    first.backward()
    refused(second)
    model.disable_allreduce()
    model.module(x).backward()
    return said


def test_a_backward_that_would_stay_unreduced_is_refused(two_ranks):
    for said in two_ranks(unreduced):
        assert len(said) == 3
        assert set(said) == {
            "DistributedDataParallel: expected one backward after each call of the wrapper, got another, whose "
            "gradients would stay this rank's own. Call the wrapper, not its module, add losses up, or set "
            "delay_allreduce=True."
        }


def through_the_module(rank):
    model = wrap(Weights(1), delay_allreduce=True)
    model.module(torch.tensor([rank.rank + 1.0], dtype=torch.float64)).backward()
    return model.module.w.grad.item()


def test_delayed_reduction_does_not_need_the_wrapper_to_be_called(two_ranks):
    assert two_ranks(through_the_module) == [1.5, 1.5]


def sparse(rank, settings):
    model = wrap(nn.Embedding(3, 1, sparse=True), **settings)
    model(torch.tensor([rank.rank, 2, 2])).sum().backward()
    return model.module.weight.grad.is_sparse, model.module.weight.grad.to_dense().flatten()


def test_sparse_gradients_are_reduced_as_they_come(two_ranks):
    for is_sparse, values in two_ranks(sparse, {"gradient_predivide_factor": 2.0}):
        assert is_sparse
        assert values.tolist() == [0.5, 0.5, 2.0]


def sparse_delayed(rank):
    model = wrap(nn.Embedding(3, 1, sparse=True), delay_allreduce=True)
    with pytest.raises(ParallelError) as refused:
        model(torch.tensor([rank.rank])).sum().backward()
    return str(refused.value)


def test_delayed_sparse_gradients_are_refused(two_ranks):
    assert set(two_ranks(sparse_delayed)) == {
        "flatten: expected dense gradients, got one of layout torch.sparse_coo. Use Embedding(sparse=False)."
    }


def uneven(rank, sizes, delay):
    """A convolution and synchronised batch norm on shards of different sizes, each loss weighted by its shard."""
    torch.manual_seed(5)
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), SyncBatchNorm(4)).double()
    x, dy = uneven_batch(sizes)
    start = sum(sizes[: rank.rank])
    x, dy = (values[start : start + sizes[rank.rank]] for values in (x, dy))
    wrapped = wrap(model, delay_allreduce=delay)
    y = wrapped(x)
    y.backward(dy * rank.world_size / sum(sizes))
    buffers = {name: value.clone() for name, value in model.named_buffers()}
    return {"y": y.detach(), **buffers, **{name: p.grad for name, p in model.named_parameters()}}


def uneven_batch(sizes):
    torch.manual_seed(6)
    x = torch.randn(sum(sizes), 3, 5, 5, dtype=torch.float64)
    x[: sizes[0]] *= 50
    return x, torch.randint(0, 10, (sum(sizes), 4, 5, 5)).double() / 10


@pytest.mark.parametrize("delay", [False, True])
@pytest.mark.parametrize("sizes", [(16, 8), (5, 0)])
def test_a_model_with_synchronised_batch_norm_trains_as_on_one_device_with_unequal_batches(two_ranks, sizes, delay):
    torch.manual_seed(5)
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)).double()
    x, dy = uneven_batch(sizes)
    y = model(x)
    y.backward(dy / len(x))
    parts = two_ranks(uneven, sizes, delay)
    np.testing.assert_allclose(np.concatenate([part["y"] for part in parts]), y.detach(), rtol=0, atol=1e-12)
    for part in parts:
        for name, value in model.named_buffers():
            np.testing.assert_allclose(part[name], value, rtol=1e-12, atol=1e-12)
        for name, parameter in model.named_parameters():
            np.testing.assert_allclose(part[name], parameter.grad, rtol=1e-12, atol=1e-12)


def refusals(rank):
    said = []
    for settings in (
        {"shared_param": True},
        {"delay_allreduce": True, "allreduce_trigger_params": []},
        {"delay_allreduce": True, "num_allreduce_streams": 2},
        {"allreduce_communicators": ([None, None], [None, None])},
        {"num_allreduce_streams": 2, "allreduce_communicators": ([None], [None])},
        {"message_size": 0},
        {"gradient_predivide_factor": 0.0},
    ):
        with pytest.raises(ParallelError) as refused:
            DistributedDataParallel(Weights(), **settings)
        said.append(str(refused.value))
    return said


def test_what_apex_refuses_is_refused(two_ranks):
    communicators = (
        "DistributedDataParallel: expected allreduce_communicators to be num_allreduce_streams > 1 groups and as many "
        "streams, got {}. Leave both out."
    )
    either = "DistributedDataParallel: expected {0} or delay_allreduce, got both. Leave out {0}."
    assert two_ranks(refusals)[0] == [
        "DistributedDataParallel: expected no shared_param, got one. Leave it out: shared parameters need nothing.",
        either.format("allreduce_trigger_params"),
        either.format("num_allreduce_streams"),
        communicators.format("[2, 2] for 1"),
        communicators.format("[1, 1] for 2"),
        "DistributedDataParallel: expected message_size of at least 1 element, got 0. Leave it out.",
        "DistributedDataParallel: expected a positive gradient_predivide_factor, got 0.0. Leave it out.",
    ]


def warned(rank):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = Weights()
        DistributedDataParallel(
            model,
            allreduce_trigger_params=[model.w],
            num_allreduce_streams=2,
            allreduce_communicators=([None, None], [None, None]),
            gradient_average_split_factor=1.0,
            prof=True,
        )
        DistributedDataParallel(Weights())
    return [(str(warning.message), warning.category.__name__, warning.filename == __file__) for warning in caught]


def test_arguments_without_effect_are_named_in_one_warning(two_ranks):
    said = (
        "DistributedDataParallel: allreduce_trigger_params, num_allreduce_streams, allreduce_communicators, "
        "gradient_average_split_factor, prof without effect: torch overlaps communication and computation by itself. "
        "Leave out, and tune message_size if need be."
    )
    assert two_ranks(warned) == [[[said, "UserWarning", True]]] * 2
