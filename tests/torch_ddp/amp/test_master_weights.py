"""Float32 masters of half weights under O2."""

import pytest
import torch
from torch import nn

from torch_ddp import amp

from .linear_models import LEVELS, Product, inject, momentum_steps, sgd

HALF, FLOAT = torch.float16, torch.float32
X = torch.tensor([0.5, 1.0])


def _one(opt_level="O2", **options):
    model = Product(1.0)
    settings = {"max_loss_scale": 128.0, "verbosity": 0} | options
    return amp.initialize(model, sgd(model), opt_level=opt_level, **settings)


def _backward(model, optimizer, x=X):
    with amp.scale_loss(model(x), optimizer) as scaled:
        scaled.backward()


def test_masters_take_the_place_of_half_weights_in_the_groups_at_the_first_backward_pass():
    model, optimizer = _one()
    assert optimizer.param_groups[0]["params"][0] is model.weight
    _backward(model, optimizer)
    masters = optimizer.param_groups[0]["params"]
    assert masters[0] is not model.weight
    assert masters[0].dtype is FLOAT
    assert [masters[1], masters[2]] == [model.norm.weight, model.norm.bias]
    assert masters == list(amp.master_params(optimizer))


def test_gradients_are_unscaled_on_masters_and_stay_scaled_on_half_weights():
    model, optimizer = _one()
    _backward(model, optimizer)
    master = next(amp.master_params(optimizer))
    assert torch.equal(master.grad, X)
    assert torch.equal(model.weight.grad, X.half() * 128)
    assert torch.equal(model.norm.weight.grad, X)


def test_master_params_before_the_first_pass_are_the_masters():
    _, optimizer = _one()
    assert {param.dtype for param in amp.master_params(optimizer)} == {FLOAT}


def test_master_params_of_a_plain_optimizer_are_its_weights():
    model = nn.Linear(1, 1)
    assert list(amp.master_params(sgd(model))) == list(model.parameters())


def test_masters_hold_what_half_cannot():
    model, optimizer = _one()
    for group in optimizer.param_groups:
        group.update(lr=2.0**-14, momentum=0.0)
    for _ in range(4):
        optimizer.zero_grad()
        _backward(model, optimizer)
        optimizer.step()
    master = next(amp.master_params(optimizer))
    assert master[0].item() == 1.0 - 4 * 2.0**-15
    assert model.weight[0].item() == 1.0
    assert torch.equal(model.weight.detach(), master.detach().half())


def test_after_a_step_masters_have_no_gradient():
    model, optimizer = _one()
    _backward(model, optimizer)
    optimizer.step()
    assert next(amp.master_params(optimizer)).grad is None


def test_a_skipped_step_drops_the_gradients_of_masters_and_moves_nothing():
    model, optimizer = _one()
    with amp.scale_loss(model(X), optimizer) as scaled:
        scaled.backward()
        inject(model, "weight")
    optimizer.step()
    master = next(amp.master_params(optimizer))
    assert master.grad is None
    assert torch.equal(master.detach(), torch.tensor([1.0, 0.5]))
    assert not optimizer.state
    optimizer.zero_grad()
    _backward(model, optimizer)
    optimizer.step()
    assert torch.equal(master.detach().double(), momentum_steps(torch.tensor([1.0, 0.5]), [X]))


def test_clipping_the_masters_clips_the_step():
    model, optimizer = _one()
    _backward(model, optimizer)
    norm = nn.utils.clip_grad_norm_(amp.master_params(optimizer), 0.25)
    assert norm.item() == pytest.approx((2 * X.pow(2).sum()).sqrt().item())
    before = [param.detach().clone() for param in amp.master_params(optimizer)]
    optimizer.step()
    moved = torch.cat([b - p.detach() for b, p in zip(before, amp.master_params(optimizer), strict=True)])
    assert moved.norm().item() == pytest.approx(0.25 * 0.25, rel=1e-5)


@pytest.mark.parametrize("set_to_none", [None, True, False])
def test_zero_grad_reaches_half_weights_and_masters(set_to_none):
    model, optimizer = _one()
    _backward(model, optimizer)
    optimizer.zero_grad(**({} if set_to_none is None else {"set_to_none": set_to_none}))
    assert next(amp.master_params(optimizer)).grad is None
    if set_to_none is False:
        assert not model.weight.grad.any()
        assert not model.norm.weight.grad.any()
    else:
        assert model.weight.grad is None
        assert model.norm.weight.grad is None


@pytest.mark.parametrize("opt_level", LEVELS)
@pytest.mark.parametrize("when", ["before the first pass", "between steps", "between passes"])
def test_groups_can_be_added(opt_level, when):
    first, second = Product(1.0), Product(2.0)
    (first, second), optimizer = amp.initialize(
        [first, second], sgd(first), opt_level=opt_level, loss_scale=128.0, verbosity=0
    )
    # A gradient under way on the new weights is not the optimizer's business before the group is added.
    group = {"params": list(second.parameters())}
    steps = []
    for step in range(3):
        optimizer.zero_grad()
        second.zero_grad()
        if when == "before the first pass" and step == 0:
            optimizer.add_param_group(group)
        _backward(first, optimizer)
        if when == "between passes" and step == 1:
            optimizer.add_param_group(group)
        added = len(optimizer.param_groups) == 2
        if added:
            _backward(second, optimizer)
        steps.append(X if added else None)
        optimizer.step()
        if when == "between steps" and step == 0:
            optimizer.add_param_group(group)
    for model, start, grads in ((first, [1.0, 0.5], [X] * 3), (second, [2.0, 1.0], steps)):
        expected = momentum_steps(torch.tensor(start), grads)
        assert torch.equal(model.weight.detach().double(), expected)
    assert steps.count(None) == {"before the first pass": 0, "between steps": 1, "between passes": 1}[when]


def test_weights_that_thaw_get_masters_and_frozen_ones_none():
    model = Product(1.0)
    model.weight.requires_grad_(False)
    model, optimizer = amp.initialize(model, sgd(model), opt_level="O2", max_loss_scale=128.0, verbosity=0)
    _backward(model, optimizer)
    optimizer.step()
    assert optimizer.param_groups[0]["params"][0] is model.weight
    model.weight.requires_grad_(True)
    optimizer.zero_grad()
    _backward(model, optimizer)
    optimizer.step()
    assert torch.equal(model.weight.detach().double(), momentum_steps(torch.tensor([1.0, 0.5]), [X]))
    assert next(amp.master_params(optimizer)).dtype is FLOAT


def test_state_from_before_initialize_goes_to_the_masters():
    model = Product(1.0)
    optimizer = sgd(model)
    model(X).backward()
    optimizer.step()
    model, optimizer = amp.initialize(model, optimizer, opt_level="O2", max_loss_scale=128.0, verbosity=0)
    optimizer.zero_grad()
    _backward(model, optimizer)
    optimizer.step()
    master = next(amp.master_params(optimizer))
    assert torch.equal(master.detach().double(), momentum_steps(torch.tensor([1.0, 0.5]), [X, X]))
    assert optimizer.state[master]["momentum_buffer"].dtype is FLOAT
    assert set(optimizer.state) == {master, model.norm.weight}


def test_without_masters_the_state_takes_the_dtype_of_the_weights():
    model = Product(1.0)
    optimizer = sgd(model)
    model(X).backward()
    optimizer.step()
    model, optimizer = amp.initialize(model, optimizer, opt_level="O3", verbosity=0)
    assert {state["momentum_buffer"].dtype for state in optimizer.state.values()} == {HALF}
    optimizer.zero_grad()
    _backward(model, optimizer)
    optimizer.step()
    assert torch.equal(model.weight.detach().double(), momentum_steps(torch.tensor([1.0, 0.5]), [X, X]))


@pytest.mark.parametrize("options", [{"foreach": True}, {"foreach": False}, {"fused": True}])
def test_every_kind_of_adam_steps_masters_as_it_steps_float32_weights(options):
    results = []
    for opt_level in ("O0", "O2"):
        model = Product(1.0)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.125, **options)
        model, optimizer = amp.initialize(model, optimizer, opt_level=opt_level, max_loss_scale=128.0, verbosity=0)
        for _ in range(3):
            optimizer.zero_grad(set_to_none=True)
            _backward(model, optimizer)
            optimizer.step()
        results.append([param.detach().clone() for param in amp.master_params(optimizer)])
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))


class _Wrapper:
    """Wraps an optimizer as LARC does, without being one."""

    def __init__(self, optimizer):
        self.inner = optimizer
        self.seen = []

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def step(self):
        self.seen.append([weight.dtype for group in self.param_groups for weight in group["params"]])
        self.inner.step()

    def zero_grad(self, set_to_none=True):
        self.inner.zero_grad(set_to_none)

    def load_state_dict(self, state):
        self.inner.load_state_dict(state)


def test_a_wrapper_around_an_optimizer_is_one():
    model = Product(1.0)
    model, optimizer = amp.initialize(model, _Wrapper(sgd(model)), opt_level="O2", max_loss_scale=128.0, verbosity=0)
    _backward(model, optimizer)
    optimizer.step()
    assert optimizer.seen == [[FLOAT] * 3]
    assert torch.equal(model.weight.detach().double(), momentum_steps(torch.tensor([1.0, 0.5]), [X]))
    saved = optimizer.state_dict()
    model = Product(1.0)
    model, optimizer = amp.initialize(model, _Wrapper(sgd(model)), opt_level="O2", max_loss_scale=128.0, verbosity=0)
    optimizer.load_state_dict(saved)
    assert {state["momentum_buffer"].dtype for state in optimizer.state.values()} == {FLOAT}
