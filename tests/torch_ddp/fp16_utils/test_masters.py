"""Master weights by hand: copies, gradients to them, values back."""

import pytest
import torch
from torch import nn

from torch_ddp.fp16_utils import (
    Fp16Error,
    clip_grad_norm,
    master_params_to_model_params,
    model_grads_to_master_grads,
    prep_param_lists,
    to_python_float,
)

SCALE = 1024.0


def _half_linear():
    model = nn.Linear(2, 1).half()
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[1.0, 2.0]]))
        model.bias.copy_(torch.tensor([0.5]))
    return model


@pytest.mark.parametrize("flat", [False, True])
def test_small_updates_add_up_in_the_masters_where_half_loses_them(flat):
    model = _half_linear()
    weights, masters = prep_param_lists(model, flat_master=flat)
    optimizer = torch.optim.SGD(masters, lr=2.0**-13)
    for _ in range(4):
        model.zero_grad()
        (model(torch.ones(1, 2, dtype=torch.float16)).float().sum() * SCALE).backward()
        model_grads_to_master_grads(weights, masters, flat_master=flat)
        for master in masters:
            master.grad /= SCALE
        optimizer.step()
        master_params_to_model_params(weights, masters, flat_master=flat)
    step = 2.0**-11
    assert torch.equal(torch.cat([one.detach().reshape(-1) for one in masters]), torch.tensor([1.0, 2.0, 0.5]) - step)
    # Half numbers are 2^-11 apart below 1, where a quarter of that would round away at each step, and 2^-10 below 2.
    assert model.weight.tolist() == [[1.0 - step, 2.0]]
    assert model.bias.tolist() == [0.5 - step]


def test_masters_are_float32_copies_of_what_is_trained():
    model = _half_linear()
    model.bias.requires_grad_(False)
    weights, masters = prep_param_lists(model)
    assert weights == [model.weight]
    assert masters[0].dtype is torch.float32
    assert masters[0].requires_grad
    assert masters[0].is_leaf
    masters[0].data.zero_()
    assert model.weight.tolist() == [[1.0, 2.0]]


def test_a_float32_weight_gets_a_master_of_its_own():
    weights, masters = prep_param_lists(nn.BatchNorm1d(2))
    assert all(weight.data_ptr() != master.data_ptr() for weight, master in zip(weights, masters, strict=True))


def test_a_weight_without_gradient_leaves_its_master_without():
    model = _half_linear()
    weights, masters = prep_param_lists(model)
    masters[0].grad = torch.ones(1, 2)
    model.bias.grad = torch.ones(1, dtype=torch.float16)
    model_grads_to_master_grads(weights, masters)
    assert masters[0].grad is None
    assert masters[1].grad.tolist() == [1.0]


def test_in_a_flat_master_a_weight_without_gradient_counts_as_zeros():
    model = _half_linear()
    weights, masters = prep_param_lists(model, flat_master=True)
    assert masters[0].grad.tolist() == [0.0, 0.0, 0.0]
    model.bias.grad = torch.ones(1, dtype=torch.float16)
    model_grads_to_master_grads(weights, masters, flat_master=True)
    assert masters[0].grad.tolist() == [0.0, 0.0, 1.0]
    assert masters[0].grad.dtype is torch.float32


def test_the_gradient_of_a_master_is_no_view_of_the_model_s():
    model = nn.Linear(2, 1)
    weights, masters = prep_param_lists(model)
    model(torch.ones(1, 2)).sum().backward()
    model_grads_to_master_grads(weights, masters)
    masters[0].grad.zero_()
    assert model.weight.grad.tolist() == [[1.0, 1.0]]


def test_weights_of_two_dtypes_do_not_become_one_master():
    model = nn.Sequential(nn.Linear(2, 2).half(), nn.BatchNorm1d(2))
    with pytest.raises(Fp16Error, match=r"expected weights of one dtype .* got \['torch.float16', 'torch.float32'\]"):
        prep_param_lists(model, flat_master=True)


@pytest.mark.parametrize("copy", [model_grads_to_master_grads, master_params_to_model_params])
def test_lists_that_do_not_belong_together_are_refused(copy):
    weights, masters = prep_param_lists(_half_linear())
    with pytest.raises(Fp16Error, match=rf"{copy.__name__}: expected masters of \[2, 1\] elements, got \[2\]"):
        copy(weights, masters[:1])
    with pytest.raises(Fp16Error, match=r"expected masters of \[3\] elements, got \[2, 1\]"):
        copy(weights, masters, flat_master=True)


def test_clip_grad_norm_is_torch_s():
    weight = nn.Parameter(torch.zeros(2))
    weight.grad = torch.tensor([3.0, 4.0])
    assert clip_grad_norm([weight], 1.0).item() == 5.0
    torch.testing.assert_close(weight.grad, torch.tensor([0.6, 0.8]))


def test_to_python_float_takes_tensors_and_sequences():
    assert to_python_float(torch.tensor([2.5])) == 2.5
    assert to_python_float([2.5]) == 2.5
