"""Models become half but for the batch norms that have weights."""

import pytest
import torch
from torch import nn

from torch_ddp.fp16_utils import BN_convert_float, FP16Model, convert_module, convert_network, network_to_half

HALF, FLOAT = torch.float16, torch.float32


def _model():
    return nn.Sequential(
        nn.Conv2d(2, 3, 1),
        nn.BatchNorm2d(3),
        nn.Sequential(nn.BatchNorm2d(3, affine=False), nn.InstanceNorm2d(3, affine=True, track_running_stats=True)),
    )


def _dtypes(module):
    tensors = [*module.parameters(recurse=False), *module.buffers(recurse=False)]
    return {tensor.dtype for tensor in tensors if tensor.is_floating_point()}


def _check_only_batch_norm_with_weights_is_float32(model):
    conv, norm, (bare, instance) = model
    assert _dtypes(conv) == _dtypes(bare) == _dtypes(instance) == {HALF}
    assert _dtypes(norm) == {FLOAT}
    assert norm.num_batches_tracked.dtype is torch.int64


def test_convert_network_casts_in_place_all_but_batch_norms_with_weights():
    model = _model()
    weights = list(model.parameters())
    assert convert_network(model, HALF) is model
    _check_only_batch_norm_with_weights_is_float32(model)
    assert all(now is before for now, before in zip(model.parameters(), weights, strict=True))


def test_convert_network_takes_other_dtypes():
    assert _dtypes(convert_network(_model(), torch.bfloat16)[0]) == {torch.bfloat16}


def test_convert_module_casts_one_module_with_its_gradients_and_not_its_children():
    outer = nn.BatchNorm2d(3)
    outer.child = nn.Linear(3, 3)
    outer.weight.grad = torch.ones(3)
    convert_module(outer, HALF)
    assert _dtypes(outer) == {HALF}
    assert outer.weight.grad.dtype is HALF
    assert _dtypes(outer.child) == {FLOAT}


def test_batch_norms_with_weights_go_back_to_float32():
    model = _model().half()
    assert BN_convert_float(model) is model
    _check_only_batch_norm_with_weights_is_float32(model)
    norm = nn.BatchNorm1d(3).half()
    assert _dtypes(BN_convert_float(norm)) == {FLOAT}


@pytest.mark.parametrize("wrap", [network_to_half, FP16Model])
def test_a_half_model_takes_float32_and_returns_half(wrap):
    model = _model()
    wrapped = wrap(model)
    _check_only_batch_norm_with_weights_is_float32(model)
    assert wrapped(torch.randn(4, 2, 3, 3)).dtype is HALF
    prefix = "1." if wrap is network_to_half else "network."
    assert all(name.startswith(prefix) for name in wrapped.state_dict())


def test_a_half_model_casts_every_argument():
    layer = nn.Bilinear(2, 2, 1)
    assert FP16Model(layer)(torch.ones(3, 2), torch.ones(3, 2, dtype=torch.float64)).dtype is HALF


def test_a_converted_recurrent_layer_runs_in_half():
    layer = convert_network(nn.LSTM(2, 3), HALF)
    assert layer(torch.ones(1, 1, 2, dtype=HALF))[0].dtype is HALF
