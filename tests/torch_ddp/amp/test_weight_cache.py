"""Half copies of weights: one per iteration, right gradients however a weight is used, never stale."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from torch_ddp import amp
from torch_ddp.amp.cast_rules import WeightCache

HALF, FLOAT = torch.float16, torch.float32


class _OneUse(nn.Module):
    """Uses one weight in a listed product, a float32 function or a promoting one, as `rule` says."""

    def __init__(self, rule, dtype):
        super().__init__()
        self.rule = rule
        self.weight = nn.Parameter(torch.linspace(0.5, 1.5, 4).reshape(2, 2).to(dtype))

    def forward(self, x):
        if self.rule == "white":
            return x @ self.weight
        if self.rule == "black":
            return x * torch.exp(self.weight).sum()
        return x + self.weight


def _grads(model, optimizer, x, accumulate=1):
    optimizer.zero_grad()
    for _ in range(accumulate):
        with amp.scale_loss(model(x).float().pow(2).sum(), optimizer) as scaled:
            scaled.backward()
    return model.weight.grad.clone()


@pytest.mark.parametrize("rule", ["white", "black", "promote"])
@pytest.mark.parametrize("dtype", [HALF, FLOAT])
def test_gradients_are_right_in_training_evaluation_training(rule, dtype):
    model = _OneUse(rule, dtype)
    reference = copy.deepcopy(model).float()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
    model, optimizer = amp.initialize(model, optimizer, loss_scale=4.0, verbosity=0, allow_incoming_model_not_fp32=True)
    x = torch.tensor([[0.5, 0.25], [1.0, -0.5]])
    for training in (True, False, True):
        with amp.disable_casts():
            expected = torch.autograd.grad(reference(x).pow(2).sum(), [reference.weight])[0]
        if training:
            grad = _grads(model, optimizer, x)
            assert grad.dtype is dtype
            torch.testing.assert_close(grad.float(), expected, rtol=4e-3, atol=4e-3)
            continue
        with torch.no_grad():
            model(x)


def test_a_weight_used_twice_gets_the_sum_of_both_gradients():
    layer = nn.Linear(2, 2, bias=False)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    expected_layer = copy.deepcopy(layer)
    x = torch.tensor([[1.0, 2.0]])
    expected_layer(expected_layer(x)).sum().backward()
    layer, optimizer = amp.initialize(layer, optimizer, loss_scale=128.0, verbosity=0)
    with amp.scale_loss(layer(layer(x)).float().sum(), optimizer) as scaled:
        scaled.backward()
    assert layer.weight.grad.dtype is FLOAT
    torch.testing.assert_close(layer.weight.grad, expected_layer.weight.grad, rtol=2e-3, atol=2e-3)


def test_a_weight_is_cast_once_per_iteration(casts):
    weight = nn.Parameter(torch.ones(2, 2))
    first, second = casts.mode.cache.cast(weight), casts.mode.cache.cast(weight)
    assert first is second
    optimizer = torch.optim.SGD([weight], lr=0.1)
    _, optimizer = amp.initialize([], optimizer, verbosity=0)
    cache = amp.session.current_casts().mode.cache
    kept = cache.cast(weight)
    with amp.scale_loss((torch.ones(1, 2) @ weight).float().sum(), optimizer) as scaled:
        assert cache.cast(weight) is kept
        scaled.backward()
    assert cache.cast(weight) is not kept


@pytest.mark.parametrize("settings", [{"loss_scale": 1.0}, {"loss_scale": 4.0}])
@pytest.mark.parametrize("left_by", ["scale_loss", "step"])
def test_no_copy_of_any_weight_is_kept_after_an_iteration(left_by, settings):
    weight, frozen = nn.Parameter(torch.ones(2, 2)), nn.Parameter(torch.ones(2, 2))  # which no step writes to
    _, optimizer = amp.initialize([], torch.optim.SGD([weight], lr=0.1), verbosity=0, **settings)
    cache = amp.session.current_casts().mode.cache
    kept = cache.cast(frozen)
    with amp.scale_loss((torch.ones(1, 2) @ weight).float().sum(), optimizer) as scaled:
        scaled.backward()
        assert cache.cast(frozen) is kept
    if left_by == "step":
        kept = cache.cast(frozen)
        optimizer.step()
    assert cache.cast(frozen) is not kept


def test_a_copy_made_without_a_graph_is_not_used_with_one():
    cache, weight = WeightCache(HALF), nn.Parameter(torch.ones(2))
    with torch.no_grad():
        assert not cache.cast(weight).requires_grad
    assert cache.cast(weight).requires_grad
    with torch.no_grad():
        assert cache.cast(weight).requires_grad


def test_a_copy_follows_its_weight():
    cache, weight = WeightCache(HALF), nn.Parameter(torch.ones(2))
    cache.cast(weight)
    with torch.no_grad():
        weight.fill_(3.0)
    assert cache.cast(weight)[0] == 3.0
    weight.data = torch.full((2,), 5.0)
    assert cache.cast(weight)[0] == 5.0


def test_a_step_without_scale_loss_is_seen_by_the_next_forward_pass(casts):
    layer = nn.Linear(1, 1, bias=False)
    optimizer = torch.optim.SGD(layer.parameters(), lr=1.0)
    x = torch.ones(1, 1)
    before = layer(x).item()
    layer(x).sum().backward()
    optimizer.step()
    assert layer(x).item() == pytest.approx(before - 1.0, abs=2e-3)


def test_only_float32_weights_are_kept():
    cache = WeightCache(HALF)
    for tensor in (torch.ones(2), torch.ones(2, requires_grad=True), nn.Parameter(torch.ones(2, dtype=torch.bfloat16))):
        assert cache.cast(tensor) is not cache.cast(tensor)
    half = nn.Parameter(torch.ones(2, dtype=HALF))
    assert cache.cast(half) is half


def test_inference_mode_leaves_nothing_behind_that_training_could_not_use(casts):
    layer = nn.Linear(2, 2)
    with torch.inference_mode():
        layer(torch.ones(1, 2))
    F.relu(layer(torch.ones(1, 2))).sum().backward()
    assert layer.weight.grad is not None


def _flattened(model):
    """Lays a model's weights back to back, as `flatten_parameters` does on a GPU."""
    weights = list(model.parameters())
    flat = torch.cat([weight.detach().reshape(-1) for weight in weights])
    for weight, part in zip(weights, flat.split([weight.numel() for weight in weights]), strict=True):
        weight.data = part.view(weight.shape)
    return model


def test_weights_that_fill_one_storage_do_so_in_half():
    weights = list(_flattened(nn.LSTM(3, 4, num_layers=2)).parameters())
    cache = WeightCache(HALF)
    cache.cast_together(weights[::-1])
    halves = [cache.cast(weight) for weight in weights]
    assert len({half.untyped_storage().data_ptr() for half in halves}) == 1
    assert [half.storage_offset() for half in halves] == [weight.storage_offset() for weight in weights]
    assert all(torch.equal(half, weight.half()) for half, weight in zip(halves, weights, strict=True))
    cache.cast_together(weights)
    assert cache.cast(weights[0]) is halves[0]
    with torch.no_grad():
        weights[3].add_(1.0)
    cache.cast_together(weights)
    again = [cache.cast(weight) for weight in weights]
    assert torch.equal(again[3], weights[3].half())
    assert again[0].untyped_storage().data_ptr() == again[3].untyped_storage().data_ptr()


def test_weights_in_storages_of_their_own_or_in_a_part_of_one_are_cast_one_by_one():
    apart = [nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(3))]
    within = _flattened(nn.Linear(2, 3))
    for weights in (apart, [within.bias], [within.bias, within.weight[0]], [within.weight, torch.ones(1)]):
        cache = WeightCache(HALF)
        cache.cast_together(weights)
        assert not cache._copies


@pytest.mark.on_cpu("cuDNN asks for an order of its own, which `flatten_parameters` lays there")
def test_a_recurrent_layer_in_one_piece_learns_what_it_learns_in_many():
    grads = []
    for lay in (_flattened, lambda model: model):
        torch.manual_seed(3)
        model = lay(nn.GRU(3, 4, num_layers=2))
        model, optimizer = amp.initialize(model, torch.optim.SGD(model.parameters(), 0.1), loss_scale=64.0, verbosity=0)
        with amp.scale_loss(
            model(torch.linspace(-1, 1, 30).reshape(5, 2, 3))[0].float().square().sum(), optimizer
        ) as scaled:
            scaled.backward()
        grads.append([parameter.grad.clone() for parameter in model.parameters()])
        amp.deactivate()
    assert all(torch.equal(one, many) for one, many in zip(*grads, strict=True))
    assert all(grad.abs().sum() > 0 for grad in grads[0])


def test_a_recurrent_layer_is_called_with_its_weights_in_one_piece(casts):
    model = _flattened(nn.GRU(3, 4))
    model(torch.ones(5, 2, 3))
    halves = [casts.mode.cache.cast(weight) for weight in model.parameters()]
    assert len({half.untyped_storage().data_ptr() for half in halves}) == 1
