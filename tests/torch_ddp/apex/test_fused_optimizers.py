"""Apex's optimizers against the formulas of its kernels: to the bit in float32, but for norms; and in float64."""

import copy
import itertools

import numpy as np
import pytest
import torch

from torch_ddp.apex import amp
from torch_ddp.apex.optimizers import FusedAdagrad, FusedAdam, FusedLAMB, FusedNovoGrad, FusedSGD
from torch_ddp.apex.optimizers.fused import FusedOptimizerError

from . import kernel_formulas as formulas

ALL = [FusedAdagrad, FusedAdam, FusedLAMB, FusedNovoGrad, FusedSGD]
SHAPES = [(3, 4), (5,), ()]
STEPS = 4
NUMPY = {torch.float32: np.float32, torch.float64: np.float64}


def train(make, dtype, follow, shapes=SHAPES):
    """Steps weights by an optimizer and beside it by `follow(index, step, gradient, weight, slots)`; yields both."""
    generator = torch.Generator().manual_seed(3)
    params = [torch.randn(shape, generator=generator).to(dtype).requires_grad_() for shape in shapes]
    optimizer = make(params)
    weights = [param.detach().numpy().copy() for param in params]
    slots = [{} for _ in params]
    for step in range(1, STEPS + 1):
        for param in params:
            param.grad = (torch.randn(param.shape, generator=generator) * 0.1).to(dtype)
        grads = [param.grad.numpy().copy() for param in params]
        optimizer.step()
        totals = {"norms": [np.linalg.norm(grad) for grad in grads]}
        for index, (grad, weight) in enumerate(zip(grads, weights, strict=True)):
            weights[index] = follow(optimizer, index, step, grad, weight, slots[index], totals)
        yield from zip([param.detach().numpy() for param in params], weights, strict=True)


def check(make, dtype, follow, rtol=0.0):
    compared = 0
    for ours, theirs in train(make, dtype, follow):
        compared += 1
        assert theirs.dtype == NUMPY[dtype]
        if rtol:
            np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=rtol)
        else:
            np.testing.assert_array_equal(ours, theirs)
    assert compared == STEPS * len(SHAPES)


DTYPES = [torch.float32, torch.float64]


@pytest.mark.on_cpu("a GPU fuses products and sums, by an ulp")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("w_mode", "correct", "decay"), [*itertools.product((True, False), (True, False), (0.0, 0.1))])
def test_adam(w_mode, correct, decay, dtype):
    settings = {"lr": 0.01, "betas": (0.8, 0.97), "eps": 1e-6}
    n = formulas.Numbers(NUMPY[dtype])

    def follow(optimizer, index, step, g, p, slots, totals):
        zeros = np.zeros_like(p)
        p, slots["m"], slots["v"] = formulas.adam(
            n, g, p, slots.get("m", zeros), slots.get("v", zeros), step=step, w_mode=w_mode, correct=correct, decay=decay,
            **settings,
        )  # fmt: skip
        return p

    make = lambda params: FusedAdam(  # noqa: E731
        params, adam_w_mode=w_mode, bias_correction=correct, weight_decay=decay, **settings
    )
    # numpy's root and division are torch's, to the bit.
    check(make, dtype, follow)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("late_decay", [True, False])
@pytest.mark.parametrize(("momentum", "dampening", "nesterov"), [(0, 0, False), (0.9, 0.2, False), (0.9, 0, True)])
def test_sgd(momentum, dampening, nesterov, late_decay, dtype):
    settings = {"lr": 0.05, "momentum": momentum, "dampening": dampening, "nesterov": nesterov}
    n = formulas.Numbers(NUMPY[dtype])

    def follow(optimizer, index, step, g, p, slots, totals):
        p, slots["m"] = formulas.sgd(
            n, g, p, slots.get("m"), decay=0.1, first=step == 1, late_decay=late_decay, **settings
        )
        return p

    make = lambda params: FusedSGD(params, weight_decay=0.1, wd_after_momentum=late_decay, **settings)  # noqa: E731
    check(make, dtype, follow)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("w_mode", "decay"), [*itertools.product((True, False), (0.0, 0.1))])
def test_adagrad(w_mode, decay, dtype):
    n = formulas.Numbers(NUMPY[dtype])

    def follow(optimizer, index, step, g, p, slots, totals):
        p, slots["h"] = formulas.adagrad(
            n, g, p, slots.get("h", np.zeros_like(p)), lr=0.05, eps=1e-8, w_mode=w_mode, decay=decay
        )
        return p

    make = lambda params: FusedAdagrad(  # noqa: E731
        params, lr=0.05, eps=1e-8, adagrad_w_mode=w_mode, weight_decay=decay
    )
    check(make, dtype, follow)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("init_zero", [True, False])
@pytest.mark.parametrize("norm_type", [0, 2])
@pytest.mark.parametrize(
    ("inside", "averaging", "correct"), [(True, False, True), (False, True, True), (False, True, False)]
)
def test_novograd(inside, averaging, correct, norm_type, init_zero, dtype):
    settings = {"lr": 0.01, "betas": (0.9, 0.98), "eps": 1e-6}
    n = formulas.Numbers(NUMPY[dtype])

    def follow(optimizer, index, step, g, p, slots, totals):
        fresh = n(np.abs(g).max() if norm_type == 0 else np.linalg.norm(g))
        start = n(0) if init_zero else fresh
        slots["norm"] = formulas.blended(n, slots.get("norm", start), fresh, 0.98, norm_type)
        p, slots["m"] = formulas.novograd(
            n, g, p, slots.get("m", np.zeros_like(p)), slots["norm"], step=step, inside=inside, averaging=averaging,
            correct=correct, decay=0.1, **settings,
        )  # fmt: skip
        return p

    make = lambda params: FusedNovoGrad(  # noqa: E731
        params,
        weight_decay=0.1,
        reg_inside_moment=inside,
        grad_averaging=averaging,
        bias_correction=correct,
        norm_type=norm_type,
        init_zero=init_zero,
        **settings,
    )
    # The order of a norm's sum is no part of the rule.
    check(make, dtype, follow, rtol=1e-6 if dtype is torch.float32 else 1e-14)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("w_mode", "averaging", "correct", "decay", "nvlamb", "limit"),
    [
        (True, True, True, 0.1, False, 1.0),
        (True, True, True, 0.1, False, 0.1),
        (True, True, True, 0.0, False, 1.0),
        (True, False, False, 0.0, True, 1.0),
        (False, True, True, 0.1, False, 0.1),
    ],
)
def test_lamb(w_mode, averaging, correct, decay, nvlamb, limit, dtype):
    settings = {"betas": (0.9, 0.98), "eps": 1e-6}
    n = formulas.Numbers(NUMPY[dtype])

    def follow(optimizer, index, step, g, p, slots, totals):
        zeros = np.zeros_like(p)
        total = n(np.linalg.norm(totals["norms"]))
        update, slots["m"], slots["v"] = formulas.lamb_update(
            n, g, p, slots.get("m", zeros), slots.get("v", zeros), total, step=step, w_mode=w_mode, averaging=averaging,
            correct=correct, decay=decay, limit=limit, **settings,
        )  # fmt: skip
        ratio = formulas.lamb_ratio(
            n, n(np.linalg.norm(p)), n(np.linalg.norm(update)), lr=0.01, decay=decay, nvlamb=nvlamb
        )
        return p - ratio * update

    make = lambda params: FusedLAMB(  # noqa: E731
        params,
        lr=0.01,
        adam_w_mode=w_mode,
        grad_averaging=averaging,
        bias_correction=correct,
        weight_decay=decay,
        use_nvlamb=nvlamb,
        max_grad_norm=limit,
        **settings,
    )
    check(make, dtype, follow, rtol=2e-6 if dtype is torch.float32 else 1e-14)


def test_what_a_kernel_rounds_shows_in_the_moments():
    # 1 - float32(0.999) is 0.0010000467, and not 0.001.
    param = torch.zeros(1, requires_grad=True)
    optimizer = FusedAdam([param])
    param.grad = torch.ones(1)
    optimizer.step()
    assert optimizer.state[param]["exp_avg_sq"].item() == float(np.float32(1) - np.float32(0.999))
    assert optimizer.state[param]["exp_avg_sq"].item() != float(np.float32(0.001))


@pytest.mark.parametrize(("cls", "half"), [*itertools.product(ALL, [torch.float16, torch.bfloat16])])
def test_half_weights_are_computed_in_float32_and_rounded_once(cls, half):
    first = [torch.randn(7).to(half) for _ in range(2)]
    wide = [weight.float() for weight in first]
    for weight in (*first, *wide):
        weight.requires_grad_()
    grads = [(torch.randn(7) * 0.1).to(half) for _ in first]
    optimizers = cls(first, lr=0.1), cls(wide, lr=0.1)
    for weights, optimizer in zip((first, wide), optimizers, strict=True):
        for weight, grad in zip(weights, grads, strict=True):
            weight.grad = grad.to(weight.dtype)
        optimizer.step()
    for ours, exact in zip(first, wide, strict=True):
        if cls is FusedLAMB:
            # Its update is rounded before its norm is taken, as it lies in the half gradient there.
            assert torch.allclose(ours.float(), exact, rtol=1e-2, atol=1e-2)
        else:
            assert torch.equal(ours, exact.to(half))
    slot = {FusedAdam: torch.float32}.get(cls, half)
    names = {FusedAdagrad: "sum", FusedSGD: None}.get(cls, "exp_avg")
    if names is not None:
        assert optimizers[0].state[first[0]][names].dtype is slot


@pytest.mark.parametrize("cls", ALL)
def test_they_resume_to_the_bit(cls):
    def run(steps, optimizer, params):
        for step in steps:
            generator = torch.Generator().manual_seed(step)
            for param in params:
                param.grad = torch.randn(param.shape, generator=generator)
            optimizer.step()

    options = {"momentum": 0.9} if cls is FusedSGD else {}
    params = [torch.randn(4).requires_grad_(), torch.randn(2, 3).requires_grad_()]
    optimizer = cls(params, lr=0.1, **options)
    run(range(3), optimizer, params)
    saved = copy.deepcopy(optimizer.state_dict())
    copies = [param.detach().clone().requires_grad_() for param in params]
    resumed = cls(copies, lr=0.1, **options)
    resumed.load_state_dict(saved)
    run(range(3, 6), optimizer, params)
    run(range(3, 6), resumed, copies)
    assert all(map(torch.equal, params, copies))


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize("opt_level", ["O0", "O1", "O2", "O3"])
def test_they_train_under_amp(cls, opt_level):
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    x = torch.randn(16, 4)
    y = x.sum(1, keepdim=True)
    model, optimizer = amp.initialize(
        model, cls(model.parameters(), lr=0.02), opt_level=opt_level, loss_scale=64.0, verbosity=0
    )
    losses = []
    for _ in range(12):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        with amp.scale_loss(loss, optimizer) as scaled:
            scaled.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_gradients_are_taken_away_or_become_zeros_as_each_class_does():
    for cls, keeps in ((FusedSGD, True), (FusedAdam, False)):
        param = torch.ones(2, requires_grad=True)
        for optimizer, expected in (
            (cls([param], lr=0.1), keeps),
            (cls([param], lr=0.1, set_grad_none=keeps), not keeps),
        ):
            param.grad = torch.ones(2)
            optimizer.zero_grad()
            assert (param.grad is not None) is expected
            param.grad = torch.ones(2)
            optimizer.zero_grad(set_to_none=True)
            assert param.grad is None


def test_sgd_begins_the_momentum_of_each_weight_with_its_first_gradient():
    params = [torch.zeros(1, requires_grad=True) for _ in range(2)]
    optimizer = FusedSGD(params, lr=1.0, momentum=0.5, dampening=0.5)
    params[0].grad = torch.ones(1)
    optimizer.step()
    params[1].grad = torch.ones(1)
    optimizer.step()
    assert optimizer.state[params[0]]["momentum_buffer"].item() == 1.0  # 0.5 * 1 + 0.5 * 1
    assert optimizer.state[params[1]]["momentum_buffer"].item() == 1.0  # the gradient, without dampening
    assert params[0].item() == -2.0


def test_a_closure_gives_the_loss():
    for cls in ALL:
        param = torch.ones(3, requires_grad=True)
        optimizer = cls([param], lr=0.1)

        def closure(param=param, optimizer=optimizer):
            optimizer.zero_grad()
            loss = param.square().sum()
            loss.backward()
            return loss

        assert optimizer.step(closure).item() == 3.0
        assert (param < 1).all()


@pytest.mark.parametrize("w_mode", [True, False])
def test_adam_on_the_device_equals_adam(w_mode):
    params = [torch.randn(5).requires_grad_(), torch.randn(2).requires_grad_()]
    copies = [param.detach().clone().requires_grad_() for param in params]
    plain = FusedAdam(params, lr=0.1, weight_decay=0.1, adam_w_mode=w_mode)
    on_device = FusedAdam(copies, lr=0.1, weight_decay=0.1, adam_w_mode=w_mode, capturable=True)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    for step in range(4):
        overflows = step == 2
        for param, twin in zip(params, copies, strict=True):
            param.grad = torch.randn(param.shape)
            twin.grad = param.grad * 4.0
        if overflows:
            copies[0].grad[0] = float("inf")
        else:
            plain.step()
        scaler.scale(torch.ones(()))
        scaler.step(on_device)
        scaler.update(4.0)
    for param, twin in zip(params, copies, strict=True):
        assert torch.allclose(param, twin, rtol=1e-6, atol=1e-7)
    assert on_device.param_groups[0]["step"].item() == plain.param_groups[0]["step"] == 3


def test_a_grad_scaler_may_be_handed_to_adam_as_in_apex():
    param = torch.ones(1, requires_grad=True)
    optimizer = FusedAdam([param], lr=0.5, eps=0.0, capturable=True)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    scaler.scale(torch.ones(()))
    param.grad = torch.full((1,), 8.0)
    optimizer.step(grad_scaler=scaler)
    assert optimizer.state[param]["exp_avg"].item() == pytest.approx(0.1)  # of a gradient of 1
    assert param.grad.item() == 1.0
    assert param.item() == pytest.approx(0.5)


def test_adam_keeps_float32_masters_of_half_weights_where_asked_to():
    weight = torch.ones(1).half().requires_grad_()
    optimizer = FusedAdam([weight], lr=1e-4, capturable=True, master_weights=True)
    for _ in range(8):
        weight.grad = torch.ones(1).half()
        optimizer.step()
    # Half weights alone would have stayed at 1: half of the last digit below 1 is 2.4e-4.
    assert weight.item() == pytest.approx(1 - 8e-4, abs=3e-4)
    assert weight.item() != 1.0


@pytest.mark.parametrize(
    ("refused", "message"),
    [
        (lambda p: FusedAdam(p, amsgrad=True), "amsgrad=False"),
        (lambda p: FusedLAMB(p, amsgrad=True), "amsgrad=False"),
        (lambda p: FusedNovoGrad(p, amsgrad=True), "amsgrad=False"),
        (lambda p: FusedAdam(p, master_weights=True), "capturable=True"),
        (lambda p: FusedAdam(p).step(scale=2.0), "older|2019"),
        (lambda p: FusedNovoGrad(p, norm_type=1), "norm_type 0 or 2"),
        (lambda p: FusedSGD(p, lr=-1.0), "lr of at least 0"),
        (lambda p: FusedSGD(p, lr=1.0, nesterov=True), "momentum and no dampening"),
    ],
)
def test_what_apex_refuses_is_refused(refused, message):
    with pytest.raises(FusedOptimizerError, match=message):
        refused([torch.ones(1, requires_grad=True)])


def test_groups_may_each_have_a_learning_rate_and_sgd_none():
    slow, fast = (torch.ones(1, requires_grad=True) for _ in range(2))
    optimizer = FusedSGD([{"params": [slow], "lr": 0.25}, {"params": [fast], "lr": 0.5}], momentum=0.5)
    (slow + fast).sum().backward()
    optimizer.step()
    assert (slow.item(), fast.item()) == (0.75, 0.5)
    with pytest.raises(ValueError, match="lr"):
        FusedSGD([slow])


def test_sparse_gradients_are_refused():
    table = torch.nn.Embedding(3, 2, sparse=True)
    table(torch.tensor([1])).sum().backward()
    with pytest.raises(RuntimeError, match="expected dense gradients"):
        FusedAdam(table.parameters()).step()


def test_novograd_says_that_its_norms_go_by_order():
    params = [torch.ones(1, requires_grad=True) for _ in range(2)]
    optimizer = FusedNovoGrad(params)
    params[0].grad = torch.ones(1)
    optimizer.step()
    params[1].grad = torch.ones(1)
    with pytest.raises(RuntimeError, match="gradients of 1 weights"):
        optimizer.step()
