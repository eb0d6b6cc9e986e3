"""Scaling, skipping and accumulating, for several models, optimizers and losses, against training by hand."""

import pytest
import torch
from torch import nn

from torch_ddp import amp

from .linear_models import LEVELS, MOMENTUM, Overflow, Product, inject, momentum_steps, sgd

ITERATIONS = 4
INPUTS = (torch.tensor([0.5, 1.0]), torch.tensor([2.0, -0.25]))


def _initialized(models, optimizers, opt_level, **options):
    settings = {"loss_scale": "dynamic", "max_loss_scale": 128.0, "verbosity": 0} | options
    return amp.initialize(models, optimizers, opt_level=opt_level, **settings)


def _overflows():
    yield None
    for loss in (0, 1):
        for iteration in (0, 2):
            for weight in ("weight", "norm"):
                yield Overflow(loss, iteration, weight)


@pytest.mark.covering(2)
@pytest.mark.parametrize("opt_level", LEVELS)
@pytest.mark.parametrize("num_losses", [1, 2])
@pytest.mark.parametrize("overflow", list(_overflows()), ids=str)
def test_three_models_two_optimizers_two_losses_train_as_by_hand(opt_level, num_losses, overflow):
    starts = [Product(1.0), Product(0.5), Product(2.0)]
    models = [Product(1.0), Product(0.5), Product(2.0)]
    optimizers = [sgd(models[0], models[1]), sgd(models[2])]
    models, (first, second) = _initialized(models, optimizers, opt_level, num_losses=num_losses)
    plan = [(0, (0, 1), first), (1, (2, 1), [second, first])]
    for iteration in range(ITERATIONS):
        for optimizer in (first, second):
            optimizer.zero_grad()
        for loss_id, used, passed in plan:
            loss = sum(models[index](INPUTS[loss_id]) for index in used)
            with amp.scale_loss(loss, passed, loss_id=min(loss_id, num_losses - 1)) as scaled:
                scaled.backward()
                if overflow is not None and (loss_id, iteration) == overflow[:2]:
                    inject(models[used[0]], overflow.weight)
        for optimizer in (first, second):
            optimizer.step()
        hit = overflow is not None and iteration == overflow.iteration
        assert amp.step_was_skipped(first) is hit
        assert amp.step_was_skipped(second) is (hit and overflow.loss == 1)
    _check(models, starts, overflow)
    _check_scales(num_losses, overflow)


def _check(models, starts, overflow):
    gradients = [INPUTS[0], INPUTS[0] + INPUTS[1], INPUTS[1]]
    for index, (model, start) in enumerate(zip(models, starts, strict=True)):
        steps = [gradients[index]] * ITERATIONS
        if overflow is not None and (index < 2 or overflow.loss == 1):
            steps[overflow.iteration] = None
        expected = momentum_steps(start.weight.detach(), steps), momentum_steps(start.norm.weight.detach(), steps)
        assert torch.equal(model.weight.detach().double(), expected[0])
        assert torch.equal(model.norm.weight.detach().double(), expected[1])


def _check_scales(num_losses, overflow):
    scales = [value["loss_scale"] for key, value in amp.state_dict().items() if key.startswith("loss_scaler")]
    expected = [128.0] * num_losses
    if overflow is not None:
        expected[min(overflow.loss, num_losses - 1)] = 64.0
    assert scales == expected


def _one(opt_level, **options):
    model = Product(1.0)
    return _initialized(model, sgd(model), opt_level, **options)


@pytest.mark.parametrize("opt_level", LEVELS)
@pytest.mark.parametrize("delay", [False, True])
@pytest.mark.parametrize("set_to_none", [False, True])
def test_gradients_of_several_backward_passes_are_summed(opt_level, delay, set_to_none):
    model, optimizer = _one(opt_level)
    for _ in range(2):
        optimizer.zero_grad(set_to_none=set_to_none)
        for index, x in enumerate(INPUTS):
            with amp.scale_loss(model(x), optimizer, delay_unscale=delay and index == 0) as scaled:
                scaled.backward()
        for param in amp.master_params(optimizer):
            if param.grad is not None and param.grad.any():
                assert torch.equal(param.grad.double(), sum(INPUTS).double())
        optimizer.step()
    assert torch.equal(model.weight.detach().double(), momentum_steps(torch.tensor([1.0, 0.5]), [sum(INPUTS)] * 2))
    expected_count = 2 if delay else 4
    assert amp.state_dict()["loss_scaler0"]["unskipped"] == expected_count


@pytest.mark.parametrize("opt_level", LEVELS)
def test_every_overflow_of_an_accumulation_halves_the_scale_and_one_skips_the_step(opt_level):
    model, optimizer = _one(opt_level)
    for overflow in (True, True, False):
        with amp.scale_loss(model(INPUTS[0]), optimizer) as scaled:
            scaled.backward()
            if overflow:
                inject(model, "weight")
    optimizer.step()
    assert amp.step_was_skipped(optimizer)
    assert amp.state_dict()["loss_scaler0"] == {"loss_scale": 32.0, "unskipped": 1}
    assert torch.equal(model.weight.detach().float(), torch.tensor([1.0, 0.5]))


def test_the_scale_is_visible_before_the_step():
    model, optimizer = _one("O2")
    with amp.scale_loss(model(INPUTS[0]), optimizer) as scaled:
        assert scaled.item() == 128.0 * model(INPUTS[0]).item()
        scaled.backward()
        inject(model, "weight")
    assert amp.state_dict()["loss_scaler0"]["loss_scale"] == 64.0


def test_an_overflow_is_told_in_the_words_of_apex(capsys):
    model, optimizer = _one("O2", verbosity=1, num_losses=2)
    assert "opt_level=O2" in capsys.readouterr().out
    with amp.scale_loss(model(INPUTS[0]), optimizer, loss_id=1) as scaled:
        scaled.backward()
        inject(model, "weight")
    optimizer.step()
    assert capsys.readouterr().out == ("Gradient overflow.  Skipping step, loss scaler 1 reducing loss scale to 64.0\n")


@pytest.mark.parametrize("bad", [float("inf"), float("-inf"), float("nan")])
@pytest.mark.parametrize("opt_level", LEVELS)
def test_infinities_and_nan_are_overflows_of_dynamic_scalers_alone(opt_level, bad):
    for loss_scale, skipped in (("dynamic", True), (128.0, False)):
        model, optimizer = _one(opt_level, loss_scale=loss_scale)
        with amp.scale_loss(model(INPUTS[0]), optimizer) as scaled:
            scaled.backward()
            model.weight.grad[1] = bad
        optimizer.step()
        assert amp.step_was_skipped(optimizer) is skipped
        assert bool(model.weight.isfinite().all()) is skipped


def test_a_static_scale_of_one_scales_nothing():
    model, optimizer = _one("O1", loss_scale=1.0)
    loss = model(INPUTS[0])
    with amp.scale_loss(loss, optimizer) as scaled:
        assert torch.equal(scaled, loss)
        scaled.backward()
    assert torch.equal(model.weight.grad, INPUTS[0])


def test_a_float64_loss_and_its_gradients_keep_their_accuracy():
    weight = torch.ones(1, dtype=torch.float64, requires_grad=True)
    _, optimizer = amp.initialize([], torch.optim.SGD([weight], 0.1), opt_level="O0", loss_scale=100.0, verbosity=0)
    with amp.scale_loss((weight / 3).sum(), optimizer) as scaled:
        assert scaled.dtype is torch.float64
        scaled.backward()
    assert weight.grad.item() == pytest.approx(1 / 3, rel=1e-15)


def test_after_a_delayed_check_the_next_one_counts():
    model, optimizer = _one("O2")
    with amp.scale_loss(model(INPUTS[0]), optimizer, delay_overflow_check=True) as scaled:
        scaled.backward()
        inject(model, "weight")
    assert amp.state_dict()["loss_scaler0"] == {"loss_scale": 128.0, "unskipped": 0}
    with amp.scale_loss(model(INPUTS[0]), optimizer) as scaled:
        scaled.backward()
    optimizer.step()
    assert amp.step_was_skipped(optimizer)


@pytest.mark.parametrize("opt_level", LEVELS)
def test_an_error_in_the_block_leaves_the_gradients_of_before(opt_level):
    model, optimizer = _one(opt_level)
    with amp.scale_loss(model(INPUTS[0]), optimizer) as scaled:
        scaled.backward()
    before = [param.grad.clone() for param in amp.master_params(optimizer) if param.grad is not None]
    with pytest.raises(KeyError), amp.scale_loss(model(INPUTS[1]), optimizer) as scaled:
        scaled.backward()
        raise KeyError
    after = [param.grad for param in amp.master_params(optimizer) if param.grad is not None]
    assert len(before) == len(after) == 2
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))


def test_sparse_gradients_are_unscaled_and_summed():
    embedding = nn.Embedding(5, 2, sparse=True)
    optimizer = torch.optim.SGD(embedding.parameters(), lr=1.0)
    before = embedding.weight.detach().clone()
    embedding, optimizer = amp.initialize(embedding, optimizer, loss_scale=128.0, verbosity=0)
    for _ in range(2):
        with amp.scale_loss(embedding(torch.tensor([1, 1, 3])).sum(), optimizer) as scaled:
            scaled.backward()
    assert embedding.weight.grad.is_sparse
    optimizer.step()
    moved = (before - embedding.weight.detach())[:, 0]
    torch.testing.assert_close(moved, torch.tensor([0.0, 4.0, 0.0, 2.0, 0.0]))


def test_wrong_calls_are_refused_with_a_remedy():
    weight = torch.ones(1, requires_grad=True)
    other = torch.optim.SGD([weight], MOMENTUM)
    with pytest.raises(amp.AmpError, match=r"amp.scale_loss: expected amp.initialize before it.*Call amp.initialize"):
        amp.scale_loss(weight.sum(), other).__enter__()
    _, optimizer = _one("O2")
    with pytest.raises(amp.AmpError, match=r"expected an optimizer that amp.initialize returned, got another SGD"):
        amp.scale_loss(weight.sum(), [optimizer, other]).__enter__()
    with pytest.raises(amp.AmpError, match=r"expected loss_id from 0 to 0, got 1. Pass num_losses=2"):
        amp.scale_loss(weight.sum(), optimizer, loss_id=1).__enter__()


@pytest.mark.parametrize(
    ("loss_scale", "scale", "said"),
    [("dynamic", 2.0**-128, "got 2.94e-39 after endless overflows.*NaN in the loss.*min_loss_scale sets a floor"),
     ("dynamic", 0.0, "got 0 after endless overflows"),
     (2.0**-128, 2.0**-128, "got 2.94e-39. Pass a larger one, or 'dynamic'")],
)  # fmt: skip
@pytest.mark.parametrize("opt_level", LEVELS)
def test_a_scale_whose_inverse_float32_cannot_hold_is_refused(opt_level, loss_scale, scale, said):
    model, optimizer = _one(opt_level, loss_scale=loss_scale)
    amp.load_state_dict({"loss_scaler0": {"loss_scale": scale, "unskipped": 0}})
    expected = r"amp.scale_loss: expected a loss scale of at least 5.88e-39, whose inverse float32 can hold, " + said
    with pytest.raises(amp.AmpError, match=expected):
        amp.scale_loss(model(INPUTS[0]), optimizer).__enter__()


@pytest.mark.parametrize("opt_level", LEVELS)
def test_the_least_scale_is_taken_and_overflows_below_it_end_with_an_error(opt_level):
    model, optimizer = _one(opt_level, loss_scale="dynamic")
    amp.load_state_dict({"loss_scaler0": {"loss_scale": 2.0**-127, "unskipped": 0}})
    before = [param.clone() for param in amp.master_params(optimizer)]
    with amp.scale_loss(model(INPUTS[0]) * float("nan"), optimizer) as scaled:
        scaled.backward()
    optimizer.step()
    assert all(torch.equal(param, old) for param, old in zip(amp.master_params(optimizer), before, strict=True))
    with pytest.raises(amp.AmpError, match=r"got 2\.94e-39 after endless overflows"):
        amp.scale_loss(model(INPUTS[0]), optimizer).__enter__()


@pytest.mark.parametrize("opt_level", LEVELS)
def test_zero_grad_forgets_gradients_that_wait(opt_level):
    model, optimizer = _one(opt_level, num_losses=2)
    amp.load_state_dict({f"loss_scaler{i}": {"loss_scale": 2.0 + i, "unskipped": 0} for i in range(2)})
    for delay in (False, True):
        with amp.scale_loss(model(INPUTS[0]), optimizer, loss_id=0, delay_unscale=delay) as scaled:
            scaled.backward()
    optimizer.zero_grad()
    with amp.scale_loss(model(INPUTS[1]), optimizer, loss_id=1) as scaled:
        scaled.backward()
    for param in list(amp.master_params(optimizer))[:2]:
        torch.testing.assert_close(param.grad.float(), INPUTS[1], rtol=1e-3, atol=0)


def test_gradients_that_wait_under_another_scale_are_refused():
    model, optimizer = _one("O1", num_losses=2)
    amp.load_state_dict({f"loss_scaler{i}": {"loss_scale": 2.0**i, "unskipped": 0} for i in range(2)})
    with amp.scale_loss(model(INPUTS[0]), optimizer, loss_id=0, delay_unscale=True) as scaled:
        scaled.backward()
    with pytest.raises(amp.AmpError, match=r"expected the loss scale 1.0 of the gradients that wait.*got 2.0. Use the"):
        amp.scale_loss(model(INPUTS[0]), optimizer, loss_id=1).__enter__()
