import copy

import pytest
import torch

from torch_ddp import like_tf

ALL = {
    "GradientDescent": (),
    "Momentum": ("momentum",),
    "Adam": ("m", "v"),
    "RMSProp": ("rms", "momentum"),
    "Adagrad": ("accumulator",),
    "Adadelta": ("accum", "accum_update"),
    "Ftrl": ("accum", "linear"),
    "LazyAdam": ("m", "v"),
    "Nadam": ("m", "v"),
    "AdamW": ("m", "v"),
    "MomentumW": ("momentum",),
    "LARS": ("momentum",),
    "LAMB": ("m", "v"),
    "ProximalGradientDescent": (),
    "ProximalAdagrad": ("accumulator",),
    "AdagradDA": ("gradient_accumulator", "gradient_squared_accumulator"),
}
REQUIRED = {"AdamW": {"weight_decay": 0.01}, "MomentumW": {"weight_decay": 0.01, "momentum": 0.9}}


@pytest.mark.parametrize("name", ALL)
def test_slots_are_there_before_the_first_step_and_can_be_overwritten(name):
    parameter = torch.nn.Parameter(torch.ones(3, dtype=torch.float64))
    optimizer = getattr(like_tf, name)([parameter], lr=0.1, **REQUIRED.get(name, {}))
    assert optimizer.slot_names == ALL[name]
    assert tuple(optimizer.state[parameter]) == ALL[name]
    for slot in ALL[name]:
        optimizer.state[parameter][slot].fill_(0.25)
    optimizer.init_slots()
    assert all((value == 0.25).all() for value in optimizer.state[parameter].values())


@pytest.mark.parametrize("name", ALL)
def test_a_saved_and_loaded_optimizer_goes_on_bit_for_bit(name):
    torch.manual_seed(0)
    first = torch.nn.Parameter(torch.randn(5, dtype=torch.float64))
    optimizer = getattr(like_tf, name)([first], lr=0.1, **REQUIRED.get(name, {}))
    second = torch.nn.Parameter(torch.zeros(5, dtype=torch.float64))
    other = getattr(like_tf, name)([second], lr=0.7, **REQUIRED.get(name, {}))
    for step in range(6):
        if step == 3:
            other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
            second.data.copy_(first.data)
        grad = torch.randn(5, dtype=torch.float64)
        for parameter, opt in ((first, optimizer), (second, other)):
            parameter.grad = grad.clone()
            opt.step()
    assert torch.equal(first, second)


def test_parameters_without_a_gradient_are_left_alone_but_share_the_powers_of_beta():
    used, unused = (torch.nn.Parameter(torch.ones(2)) for _ in range(2))
    adam = like_tf.Adam([{"params": [used]}, {"params": [unused], "beta1": 0.5}])
    used.grad = torch.ones(2)
    adam.step()
    assert torch.equal(unused, torch.ones(2))
    assert adam.param_groups[0]["beta1_power"] == pytest.approx(0.81)
    assert adam.param_groups[1]["beta1_power"] == pytest.approx(0.25)


def test_a_step_without_any_gradient_changes_nothing():
    adam = like_tf.Adam([torch.nn.Parameter(torch.ones(2))])
    before = adam.param_groups[0]["beta1_power"]
    adam.step()
    assert adam.param_groups[0]["beta1_power"] == before


def test_hyper_parameters_are_held_as_float32():
    group = like_tf.Adam([torch.nn.Parameter(torch.ones(2))]).param_groups[0]
    assert group["beta2"] == 0.9990000128746033
    assert group["lr"] == 0.0010000000474974513


def test_the_closure_is_called_with_gradients_on_and_its_loss_returned():
    parameter = torch.nn.Parameter(torch.ones(2))
    optimizer = like_tf.GradientDescent([parameter], lr=0.5)

    def closure():
        optimizer.zero_grad()
        loss = (parameter**2).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 2.0
    assert parameter.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: like_tf.Adagrad(p, 0.1, initial_accumulator_value=0.0), "initial_accumulator_value > 0, got 0.0"),
        (lambda p: like_tf.Ftrl(p, 0.1, learning_rate_power=0.5), "learning_rate_power <= 0, got 0.5"),
        (lambda p: like_tf.Ftrl(p, 0.1, l1_regularization_strength=-1.0), "l1_regularization_strength >= 0, got -1.0"),
    ],
)
def test_values_that_tensorflow_refuses_are_refused(make, message):
    with pytest.raises(like_tf.LikeTfError, match=message):
        make([torch.nn.Parameter(torch.ones(2))])


@pytest.mark.parametrize("name", ALL)
def test_hyper_parameters_that_are_kept_as_tensors_are_never_changed(name):
    from torch_ddp.like_tf.graph_scalar import kernel_scalar

    values = (0.1, 0.9, 0.95, 0.999, 1e-8, 1e-10, 1.0, 0.0)
    before = {value: kernel_scalar(value, torch.float64).item() for value in values}
    for _ in range(2):
        parameter = torch.nn.Parameter(torch.ones(3, dtype=torch.float64))
        optimizer = getattr(like_tf, name)([parameter], lr=0.1, **REQUIRED.get(name, {}))
        for _ in range(3):
            parameter.grad = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
            optimizer.step()
    assert {value: kernel_scalar(value, torch.float64).item() for value in values} == before
    assert kernel_scalar(0.1, torch.float64).item() == float(torch.tensor(0.1, dtype=torch.float32))
