"""Apex's normalizations against their definitions in float64, with gradients, and by the dtypes they return."""

import itertools

import pytest
import torch

from torch_ddp.apex.normalization import FusedLayerNorm, FusedRMSNorm, MixedFusedLayerNorm, MixedFusedRMSNorm
from torch_ddp.apex.normalization import fused_layer_norm as functions

HALVES = [torch.float16, torch.bfloat16]


def layer_norm(x, weight, bias, axes, eps):
    mean = x.mean(axes, keepdim=True)
    variance = (x - mean).square().mean(axes, keepdim=True)
    return (x - mean) / (variance + eps).sqrt() * weight + bias


def rms_norm(x, weight, bias, axes, eps):
    return x / (x.square().mean(axes, keepdim=True) + eps).sqrt() * weight


@pytest.mark.parametrize(
    ("cls", "shape", "affine"),
    [
        *itertools.product([FusedLayerNorm, FusedRMSNorm], [6, (4, 6)], [True, False]),
        (MixedFusedLayerNorm, (4, 6), True),
        (MixedFusedRMSNorm, 6, True),
    ],
)
def test_values_and_gradients_equal_the_definition(cls, shape, affine):
    options = {"elementwise_affine": affine} if cls in (FusedLayerNorm, FusedRMSNorm) else {}
    layer = cls(shape, eps=1e-3, memory_efficient=True, **options).double()
    if affine:
        for parameter in layer.parameters():
            torch.nn.init.normal_(parameter)
    axes = tuple(range(-len(layer.normalized_shape), 0))
    x = torch.randn(3, 4, 6, dtype=torch.float64, requires_grad=True)
    weight = layer.weight if affine else torch.ones((), dtype=torch.float64)
    bias = layer.bias if affine and "Layer" in cls.__name__ else torch.zeros((), dtype=torch.float64)
    expected = (layer_norm if "Layer" in cls.__name__ else rms_norm)(x, weight, bias, axes, 1e-3)
    got = layer(x)
    assert torch.allclose(got, expected, rtol=1e-13, atol=1e-13)
    inputs = [x, *layer.parameters()]
    slope = torch.randn_like(got)
    for ours, theirs in zip(
        torch.autograd.grad(got, inputs, slope), torch.autograd.grad(expected, inputs, slope), strict=True
    ):
        assert torch.allclose(ours, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("half", HALVES)
def test_the_plain_forms_return_the_dtype_of_the_input_and_the_mixed_ones_that_of_the_weight(half):
    x = (torch.randn(5, 8) * 300).to(half)  # whose squares are beyond float16
    for cls, reference in ((FusedLayerNorm, layer_norm), (FusedRMSNorm, rms_norm)):
        layer = cls(8)
        exact = reference(x.double(), 1.0, 0.0, -1, 1e-5)
        assert layer(x).dtype is half
        assert torch.allclose(layer(x).double(), exact, rtol=1e-2, atol=1e-2)
    for cls in (MixedFusedLayerNorm, MixedFusedRMSNorm):
        assert cls(8)(x).dtype is torch.float32
        assert cls(8).to(half)(x.float()).dtype is half


def test_the_functions_are_what_the_layers_compute():
    x, weight, bias = torch.randn(3, 5), torch.randn(5), torch.randn(5)
    plain, mixed = functions.fused_layer_norm_affine, functions.mixed_dtype_fused_layer_norm_affine
    assert torch.equal(plain(x, weight, bias, (5,), 1e-5), mixed(x, weight, bias, (5,), 1e-5))
    assert torch.allclose(functions.fused_layer_norm(x, (5,)) * weight + bias, plain(x, weight, bias, 5), atol=1e-6)
    rms = functions.fused_rms_norm_affine(x, weight, (5,), 1e-6)
    assert torch.equal(rms, functions.mixed_dtype_fused_rms_norm_affine(x, weight, (5,), 1e-6))
    assert torch.allclose(functions.fused_rms_norm(x, 5) * weight, rms, atol=1e-6)
    assert torch.allclose(functions.manual_rms_norm(x, (5,), weight, 1e-6), rms, atol=1e-6)
    assert functions.manual_rms_norm(x.half(), (5,), None, 1e-6).dtype is torch.float32
    assert functions.manual_rms_norm(x.half(), (5,), weight.half(), 1e-6).dtype is torch.float16


@pytest.mark.parametrize("cls", [MixedFusedLayerNorm, MixedFusedRMSNorm])
def test_the_mixed_forms_need_a_weight(cls):
    with pytest.raises(RuntimeError, match="elementwise_affine=True"):
        cls(4, elementwise_affine=False)


def test_checkpoints_of_torchs_layer_load():
    theirs = torch.nn.LayerNorm(4)
    torch.nn.init.normal_(theirs.weight)
    ours = FusedLayerNorm(4)
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(2, 4)
    assert torch.equal(ours(x), theirs(x))
    assert "eps=1e-05, elementwise_affine=True" in repr(ours)
