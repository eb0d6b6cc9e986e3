"""FP16_Optimizer trains a half model as float32 arithmetic on the same gradients does."""

import io

import pytest
import torch
from torch import nn

from torch_ddp.amp import AmpError
from torch_ddp.fp16_utils import FP16_Optimizer, Fp16Error, network_to_half

HALF = torch.float16


class Product(nn.Module):
    """Its gradients are its inputs, exact in half."""

    def __init__(self):
        super().__init__()
        self.narrow = nn.Parameter(torch.tensor([1.0, 2.0], dtype=HALF))
        self.wide = nn.Parameter(torch.tensor([0.5, 0.25]))

    def forward(self, x):
        return (self.narrow * x.half()).float().sum() + (self.wide * x).sum()


def _pair(lr=2.0**-13, momentum=0.5, **arguments):
    model = Product()
    sgd = torch.optim.SGD(model.parameters(), lr=lr, momentum=momentum)
    return model, FP16_Optimizer(sgd, verbose=False, **arguments)


def _reference(grads, lr=2.0**-13, momentum=0.5):
    weights = [torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([0.5, 0.25], requires_grad=True)]
    sgd = torch.optim.SGD(weights, lr=lr, momentum=momentum)
    for grad in grads:
        for weight in weights:
            weight.grad = grad.clone()
        sgd.step()
    return weights


def _equal(model, optimizer, weights):
    masters = [one for group in optimizer.param_groups for one in group["params"]]
    assert [one.dtype for one in masters] == [torch.float32] * 2
    assert all(torch.equal(one, weight) for one, weight in zip(masters, weights, strict=True))
    assert torch.equal(model.narrow, weights[0].half())
    assert torch.equal(model.wide, weights[1])


X = torch.tensor([0.5, -1.0])
SCALES = [{}, {"static_loss_scale": 128.0}, {"dynamic_loss_scale": True, "dynamic_loss_args": {"init_scale": 1024.0}}]


@pytest.mark.parametrize("arguments", SCALES)
def test_steps_are_those_of_float32_weights_on_unscaled_gradients(arguments):
    model, optimizer = _pair(**arguments)
    for step in range(4):
        optimizer.zero_grad()
        optimizer.backward(model((step + 1) * X))
        optimizer.step()
    _equal(model, optimizer, _reference([(step + 1) * X for step in range(4)]))


@pytest.mark.parametrize("delayed", [True, False])
@pytest.mark.parametrize("arguments", SCALES)
def test_several_backward_passes_add_up(delayed, arguments):
    model, optimizer = _pair(**arguments)
    for _ in range(2):
        optimizer.zero_grad()
        for factor in (1, 2, 4):
            optimizer.backward(model(factor * X), update_master_grads=not delayed)
        optimizer.update_master_grads()
        optimizer.step()
    _equal(model, optimizer, _reference([7 * X, 7 * X]))


def test_clearing_the_model_s_gradients_is_enough():
    model, optimizer = _pair(static_loss_scale=8.0)
    for _ in range(3):
        model.zero_grad()
        optimizer.backward(model(X))
        optimizer.step()
    _equal(model, optimizer, _reference([X, X, X]))


@pytest.mark.parametrize("to_none", [True, False])
def test_zero_grad_forgets_what_waits(to_none):
    model, optimizer = _pair(static_loss_scale=8.0)
    optimizer.backward(model(3 * X), update_master_grads=False)
    optimizer.zero_grad(set_grads_to_None=to_none)
    assert (model.narrow.grad is None) is (model.wide.grad is None) is to_none
    optimizer.backward(model(X))
    optimizer.step()
    _equal(model, optimizer, _reference([X]))


def test_an_overflow_skips_the_step_and_halves_the_scale(capsys):
    model, optimizer = _pair(dynamic_loss_scale=True, dynamic_loss_args={"init_scale": 64.0})
    optimizer._verbose = True
    for factor in (1.0, float("inf"), 2.0):
        optimizer.zero_grad()
        optimizer.backward(model(factor * X))
        assert optimizer.overflow is (factor == float("inf"))
        assert (float(optimizer.clip_master_grads(1e9)) == -1) is optimizer.overflow
        assert (optimizer.inspect_master_grad_data() is None) is optimizer.overflow
        optimizer.step()
        assert optimizer.overflow is (factor == float("inf"))  # schedules ask for it after the step
    assert optimizer.loss_scale == 32.0
    assert capsys.readouterr().out == "Gradient overflow.  Skipping step, reducing loss scale to 32.0\n"
    _equal(model, optimizer, _reference([X, 2 * X]))


def test_zero_grad_forgets_an_overflow():
    model, optimizer = _pair(dynamic_loss_scale=True)
    optimizer.backward(model(float("inf") * X))
    optimizer.zero_grad()
    optimizer.backward(model(X))
    optimizer.step()
    _equal(model, optimizer, _reference([X]))


def test_an_overflow_in_one_of_several_passes_skips_the_step():
    model, optimizer = _pair(dynamic_loss_scale=True)
    optimizer.backward(model(float("inf") * X))
    optimizer.backward(model(X))
    optimizer.step()
    _equal(model, optimizer, _reference([]))


def test_the_scale_doubles_after_a_window_up_to_its_cap():
    arguments = {"init_scale": 4.0, "scale_window": 2, "max_loss_scale": 8.0, "scale_factor": 2.0}
    model, optimizer = _pair(dynamic_loss_scale=True, dynamic_loss_args=arguments)
    scales = []
    for _ in range(5):
        optimizer.zero_grad()
        optimizer.backward(model(X))
        optimizer.step()
        scales.append(optimizer.loss_scale)
    assert scales == [4.0, 8.0, 8.0, 8.0, 8.0]


def test_unscaled_gradients_can_be_seen_and_clipped():
    model, optimizer = _pair(static_loss_scale=16.0)
    optimizer.backward(model(torch.tensor([3.0, 4.0])))
    assert [[one.tolist() for one in group] for group in optimizer.inspect_master_grad_data()] == [[[3.0, 4.0]] * 2]
    assert optimizer.clip_master_grads(1.0).item() == pytest.approx(50**0.5)
    optimizer.step()
    _equal(model, optimizer, _reference([torch.tensor([3.0, 4.0]) / (torch.tensor(50.0).sqrt() + 1e-6)]))


def test_a_resumed_run_equals_an_uninterrupted_one_and_its_checkpoint_loads_weights_only():
    scale = {"dynamic_loss_scale": True, "dynamic_loss_args": {"scale_window": 3, "init_scale": 2.0}}
    model, optimizer = _pair(**scale)
    for step in range(6):
        if step == 4:
            file = io.BytesIO()
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
            file.seek(0)
            saved = torch.load(file, weights_only=True)
            model, optimizer = _pair(**scale)
            model.load_state_dict(saved["model"])
            optimizer.load_state_dict(saved["optimizer"])
        optimizer.zero_grad()
        optimizer.backward(model((step + 1) * X))
        optimizer.step()
    _equal(model, optimizer, _reference([(step + 1) * X for step in range(6)]))
    assert optimizer.loss_scale == 8.0


def test_a_state_has_the_masters_by_group_and_what_is_done_to_one_there_is_done_to_the_optimizer():
    model = Product()
    groups = [{"params": [model.narrow]}, {"params": [model.wide]}]
    optimizer = FP16_Optimizer(torch.optim.SGD(groups, lr=0.5), verbose=False)
    (master,), none = optimizer.state_dict()["fp32_from_fp16"]
    assert none == []  # a float32 weight is its own master
    # As scripts that prune do, which mask weights and masters.
    master.data = master.data * torch.tensor([0.0, 1.0])
    optimizer.backward(model(X))
    optimizer.step()
    assert model.narrow.tolist() == [-0.25, 2.5]


def test_a_checkpoint_of_another_model_is_refused():
    _, optimizer = _pair()
    other = FP16_Optimizer(torch.optim.SGD([nn.Parameter(torch.ones(3, dtype=HALF))], lr=1.0))
    with pytest.raises(Fp16Error, match=r"expected masters of shapes \[\(2,\)\], got \[\(3,\)\]"):
        optimizer.load_state_dict(other.state_dict())


def test_a_step_between_backward_and_update_is_refused():
    model, optimizer = _pair()
    optimizer.backward(model(X), update_master_grads=False)
    with pytest.raises(Fp16Error, match="expected unscaled gradients"):
        optimizer.step()


def test_a_closure_is_evaluated_as_often_as_the_optimizer_wants_on_what_the_masters_round_to():
    model = Product()
    optimizer = FP16_Optimizer(torch.optim.LBFGS(model.parameters(), lr=2.0**-12, max_iter=3), 128.0, verbose=False)
    weights = [one.detach().float().requires_grad_() for one in Product().parameters()]
    reference = torch.optim.LBFGS(weights, lr=2.0**-12, max_iter=3)
    seen = []

    def closure():
        optimizer.zero_grad()
        seen.append((model.narrow.detach().clone(), optimizer.param_groups[0]["params"][0].detach().half()))
        loss = model(X)
        optimizer.backward(loss)
        return loss

    def reference_closure():
        reference.zero_grad()
        loss = sum((weight * X).sum() for weight in weights)
        loss.backward()
        return loss

    for _ in range(2):
        assert optimizer.step(closure).item() == pytest.approx(reference.step(reference_closure).item(), abs=1e-3)
    assert len(seen) == 6
    assert all(torch.equal(weight, master) for weight, master in seen)
    _equal(model, optimizer, weights)


def _closure(model, optimizer, x, calls):
    def closure():
        calls.append(optimizer.loss_scale)
        optimizer.zero_grad()
        loss = model(x)
        optimizer.backward(loss)
        return loss

    return closure


def test_a_closure_that_overflows_is_evaluated_again_at_a_smaller_scale():
    model, optimizer = _pair(dynamic_loss_scale=True, dynamic_loss_args={"init_scale": 2.0**17})
    calls = []
    optimizer.step(_closure(model, optimizer, X, calls))
    assert calls == [2.0**17, 2.0**16, 2.0**15]
    _equal(model, optimizer, _reference([X]))


@pytest.mark.parametrize("floor", [None, 2.0**15])
def test_a_closure_that_is_never_finite_ends_in_an_error(floor):
    arguments = {"init_scale": 2.0**16, "min_loss_scale": floor}
    model, optimizer = _pair(dynamic_loss_scale=True, dynamic_loss_args=arguments)
    with pytest.raises(Fp16Error, match=f"finite gradients .* down to {floor or 2.0**-125}"):
        optimizer.step(_closure(model, optimizer, X * torch.nan, []))


def test_a_scale_of_zero_and_one_that_changed_are_refused():
    model, optimizer = _pair(static_loss_scale=4.0)
    optimizer.backward(model(X), update_master_grads=False)
    optimizer.loss_scale = 8.0
    with pytest.raises(Fp16Error, match=r"expected the loss scale 4\.0 .* got 8\.0"):
        optimizer.backward(model(X))
    for scale in (0.0, 2.0**-128):
        optimizer.loss_scale = scale
        with pytest.raises(Fp16Error, match=r"FP16_Optimizer\.backward: expected a loss scale of at least 5\.88e-39"):
            optimizer.backward(model(X))
    with pytest.raises(AmpError, match="expected a loss scale above 0"):
        _pair(static_loss_scale=0.0)


@pytest.mark.parametrize("given", [{"window": 3}, {"scale_factor": 4.0}])
def test_unknown_arguments_of_the_dynamic_scale_are_refused(given):
    with pytest.raises(Fp16Error, match="expected dynamic_loss_args among"):
        _pair(dynamic_loss_scale=True, dynamic_loss_args=given)


def test_a_backward_pass_that_breaks_off_leaves_the_gradients_before_it():
    model, optimizer = _pair(static_loss_scale=4.0)
    optimizer.backward(model(X))
    with pytest.raises(RuntimeError, match="does not require grad"):
        optimizer.backward(torch.ones(()))
    optimizer.step()
    _equal(model, optimizer, _reference([X]))


def test_a_network_made_half_trains():
    torch.manual_seed(0)
    model = network_to_half(nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1)))
    optimizer = FP16_Optimizer(torch.optim.Adam(model.parameters(), lr=0.01), dynamic_loss_scale=True, verbose=False)
    x = torch.randn(16, 4)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = (model(x).float() - x.sum(1, keepdim=True)).square().mean()
        optimizer.backward(loss)
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2
