"""The functions of amp_C and apex_C."""

import math

import numpy as np
import pytest
import torch

import torch_ddp.apex as apex
from torch_ddp.apex import amp_C, apex_C
from torch_ddp.apex.parallel import distributed

applier = apex.multi_tensor_apply.multi_tensor_applier
HALF, BF, FLOAT, DOUBLE = torch.float16, torch.bfloat16, torch.float32, torch.float64


def flag():
    return torch.zeros(1, dtype=torch.int)


@pytest.mark.parametrize("source", [HALF, BF, FLOAT])
@pytest.mark.parametrize("target", [HALF, BF, FLOAT])
def test_scale(source, target):
    sources = [torch.randn(5).to(source), torch.randn(2, 2).to(source)]
    targets = [torch.zeros_like(each, dtype=target) for each in sources]
    overflow = flag()
    applier(amp_C.multi_tensor_scale, overflow, [sources, targets], 0.3)
    for each, got in zip(sources, targets, strict=True):
        assert torch.equal(got, (each.float() * torch.tensor(0.3)).to(target))
    assert overflow.item() == 0


@pytest.mark.parametrize("value", [float("inf"), -float("inf"), float("nan")])
def test_scale_notes_what_is_not_finite(value):
    overflow = flag()
    bad = torch.tensor([1.0, value])
    applier(amp_C.multi_tensor_scale, overflow, [[torch.ones(1), bad], [torch.ones(1), torch.ones(2)]], 1.0)
    assert overflow.item() == 1


@pytest.mark.parametrize(("checked", "notes"), [(0, (1, 0)), (1, (0, 1)), (-1, (1, 1))])
def test_axpby_checks_what_it_is_told(checked, notes):
    good, bad = torch.ones(2), torch.tensor([1.0, float("nan")])
    for lists, expected in zip(([bad], [good]), notes, strict=True):
        overflow = flag()
        others = [good] if lists[0] is bad else [bad]
        applier(amp_C.multi_tensor_axpby, overflow, [lists, others, [torch.zeros(2)]], 2.0, 3.0, checked)
        assert overflow.item() == expected


@pytest.mark.parametrize("dtype", [HALF, FLOAT, DOUBLE])
def test_axpby_adds_products(dtype):
    x, y, out = torch.randn(6).to(dtype), torch.randn(6), torch.zeros(6, dtype=dtype)
    applier(amp_C.multi_tensor_axpby, flag(), [[x], [y], [out]], 2.0, 0.5, 0)
    wide = torch.promote_types(dtype, FLOAT)
    assert torch.equal(out, (2.0 * x.to(wide) + 0.5 * y.to(wide)).to(dtype))


def test_norms():
    tensors = [torch.tensor([3.0, 4.0]).half(), torch.tensor([300.0, 400.0]).half()]
    total, each = applier(amp_C.multi_tensor_l2norm, flag(), [tensors], True)
    assert each.tolist() == [5.0, 500.0]  # beyond float16 before the root
    assert total.shape == (1,)
    assert total.item() == pytest.approx(math.hypot(5, 500))
    assert applier(amp_C.multi_tensor_l2norm, flag(), [tensors], False)[1].numel() == 0
    unscaled, _ = applier(amp_C.multi_tensor_unscale_l2norm, flag(), [tensors], torch.tensor([0.5]), False)
    assert unscaled.item() == pytest.approx(math.hypot(5, 500) / 2)
    assert unscaled.shape == (1,)  # at::empty({1}), csrc/multi_tensor_l2norm_kernel.cu
    out = [torch.zeros(2), torch.zeros(2)]
    scaled, _ = applier(amp_C.multi_tensor_l2norm_scale, flag(), [tensors, out], 2.0, False)
    assert scaled.item() == pytest.approx(2 * math.hypot(5, 500))
    assert out[0].tolist() == [6.0, 8.0]
    overflow = flag()
    applier(amp_C.multi_tensor_l2norm, overflow, [[torch.tensor([float("inf")])]], False)
    assert overflow.item() == 1


def reference_hysteresis(state, overflow, growth, backoff, interval, hysteresis):
    """csrc/update_scale_hysteresis.cu, written out: a double times a float, rounded to a float that is none below 2^-126."""
    scale, growth_tracker, left = state
    if overflow:
        left -= 1
        if left > 0:
            return scale, 0, left
        lowered = float(np.float32(scale * backoff))
        return lowered if lowered >= 2.0**-126 else 0.0, 0, left
    growth_tracker += 1
    if growth_tracker == interval:
        new = scale * growth
        scale = float(np.float32(new)) if new < 3.4e38 else scale
        growth_tracker = 0
    return scale, growth_tracker, hysteresis


@pytest.mark.parametrize("rate", [0.05, 0.5, 0.95])
@pytest.mark.parametrize("hysteresis", [1, 3])
@pytest.mark.parametrize(("growth", "backoff"), [(2.0, 0.5), (1.7, 0.3)])
def test_a_scale_with_hysteresis(rate, hysteresis, growth, backoff):
    state = (2.0**120 if rate < 0.9 else 2.0**-100, 0, hysteresis)
    scale, tracker = torch.tensor([state[0]]), torch.zeros(1, dtype=torch.int)
    left = torch.tensor([hysteresis], dtype=torch.int)
    for overflow in (torch.rand(200) < rate).tolist():
        state = reference_hysteresis(state, overflow, growth, backoff, 2, hysteresis)
        found = torch.tensor([float(overflow)])
        amp_C.update_scale_hysteresis(scale, tracker, left, found, growth, backoff, 2, hysteresis)
        assert (scale.item(), tracker.item(), left.item()) == state


@pytest.mark.parametrize("exponent", [-125, -126])
def test_a_scale_that_halves_below_the_least_normal_number_is_0(exponent):
    scale, tracker, left = (
        torch.tensor([2.0**exponent]),
        torch.zeros(1, dtype=torch.int),
        torch.ones(1, dtype=torch.int),
    )
    amp_C.update_scale_hysteresis(scale, tracker, left, torch.ones(1), 2.0, 0.5, 2, 1)
    assert scale.item() == {-125: 2.0**-126, -126: 0.0}[exponent]


def test_sgd_writes_half_copies_and_stops_at_the_flag():
    grads, masters, momenta = [torch.ones(2).half()], [torch.ones(2)], [torch.zeros(2)]
    copies = [torch.ones(2).half()]
    arguments = (0.0, 0.9, 0.0, 0.5, False, True, False, 0.25)
    overflow = torch.ones(1, dtype=torch.int)
    applier(amp_C.multi_tensor_sgd, overflow, [grads, masters, momenta, copies], *arguments)
    assert masters[0].tolist() == [1.0, 1.0]
    applier(amp_C.multi_tensor_sgd, flag(), [grads, masters, momenta, copies], *arguments)
    assert masters[0].tolist() == copies[0].tolist() == [0.875, 0.875]
    assert momenta[0].tolist() == [0.25, 0.25]


def test_flatten_and_back():
    tensors = [torch.randn(2, 3), torch.randn(4), torch.randn(())]
    flat = apex_C.flatten(tensors)
    assert flat.shape == (11,)
    assert all(map(torch.equal, apex_C.unflatten(flat, tensors), tensors))
    assert distributed.flatten is apex_C.flatten


def test_flat_calls_go_by_type_and_an_all_reduce_becomes_the_mean(monkeypatch):
    calls = []

    def all_reduce(flat, *extra):
        calls.append((flat.dtype, flat.numel(), extra))
        flat *= 2  # two ranks with the same

    monkeypatch.setattr(distributed.dist, "all_reduce", all_reduce)
    monkeypatch.setattr(distributed.dist, "get_world_size", lambda: 2)
    tensors = [torch.ones(3), torch.ones(2, dtype=DOUBLE), torch.ones(1, 4)]
    distributed.flat_dist_call(tensors, all_reduce, ("group",))
    assert calls == [(FLOAT, 7, ("group",)), (DOUBLE, 2, ("group",))]
    assert all((tensor == 1).all() for tensor in tensors)
    distributed.flat_dist_call(tensors, lambda flat: flat.fill_(5))  # another call is not divided
    assert all((tensor == 5).all() for tensor in tensors)


def test_tensors_are_split_and_taken_out_of_what_holds_them():
    half, single, double, whole = (torch.ones(1, dtype=dtype) for dtype in (HALF, FLOAT, DOUBLE, torch.int))
    assert distributed.split_half_float_double([double, whole, half, single]) == [[half], [single], [double]]
    taken = []
    distributed.extract_tensors([half, (single, "text", [double]), 3], taken)
    assert [id(tensor) for tensor in taken] == [id(half), id(single), id(double)]
