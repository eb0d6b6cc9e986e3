"""`precision="native"`: torch.autocast and GradScaler behind the same calls."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from support.device import DEVICE
from torch import nn

from torch_ddp import amp
from torch_ddp.amp.native import GradScalerAsLossScaler

HALF, FLOAT = torch.float16, torch.float32


class _Seeing(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.seen = []

    def forward(self, x):
        output = self.layer(x)
        self.seen.append((output.dtype, torch.is_autocast_enabled(DEVICE)))
        return output


def _native(**options):
    torch.manual_seed(0)
    model = _Seeing()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return amp.initialize(model, optimizer, precision="native", verbosity=0, **options)


@pytest.mark.parametrize("half", [HALF, torch.bfloat16])
def test_models_run_under_autocast_and_return_float32(half):
    model, _ = _native(half_dtype=half)
    assert model(torch.ones(1, 3)).dtype is FLOAT
    assert model.seen == [(half, True)]
    assert not torch.is_autocast_enabled(DEVICE)


def test_outputs_are_cast_as_asked():
    model, _ = _native(cast_model_outputs=HALF)
    assert model(torch.ones(1, 3)).dtype is HALF


def test_every_thread_that_calls_a_model_runs_it_under_autocast():
    model, _ = _native()
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: model(torch.ones(1, 3)).dtype).result(60) is FLOAT
        assert pool.submit(lambda: torch.is_autocast_enabled(DEVICE)).result(60) is False
    assert model.seen == [(HALF, True)]


def test_an_error_in_a_model_leaves_no_autocast_on():
    model, _ = _native()
    with pytest.raises(RuntimeError):
        model(torch.ones(1, 7))
    assert not torch.is_autocast_enabled(DEVICE)


def test_o0_is_float32_throughout():
    model, _ = _native(opt_level="O0")
    model(torch.ones(1, 3))
    assert model.seen == [(FLOAT, False)]


def _by_hand(inputs, overflows):
    """The usual loop of torch, with GradScaler."""
    torch.manual_seed(0)
    model = _Seeing()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler(DEVICE)
    for x, overflow in zip(inputs, overflows, strict=True):
        optimizer.zero_grad()
        with torch.autocast(DEVICE, dtype=HALF):
            output = model(x)
        scaler.scale(output.float().pow(2).mean()).backward()
        if overflow:
            model.layer.weight.grad[0, 0] = float("inf")
        scaler.step(optimizer)
        scaler.update()
    return model, scaler.get_scale()


@pytest.mark.parametrize("precision", ["native", "apex"])
def test_training_is_bit_for_bit_that_of_the_usual_loop(precision):
    inputs = torch.randn(6, 4, 3)
    overflows = [False, True, False, False, True, False]
    expected, scale = _by_hand(inputs, overflows)
    torch.manual_seed(0)
    model = _Seeing()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = amp.initialize(model, optimizer, precision=precision, verbosity=0)
    for x, overflow in zip(inputs, overflows, strict=True):
        optimizer.zero_grad()
        with amp.scale_loss(model(x).float().pow(2).mean(), optimizer) as scaled:
            scaled.backward()
            if overflow:
                model.layer.weight.grad[0, 0] = float("inf")
        optimizer.step()
        assert amp.step_was_skipped(optimizer) is overflow
    for one, other in zip(model.parameters(), expected.parameters(), strict=True):
        assert torch.equal(one, other)
    assert amp.state_dict()["loss_scaler0"] == {"loss_scale": scale, "unskipped": 1}
    assert scale == 2.0**14


def test_optimizers_skip_together_where_grad_scaler_alone_would_not():
    models = [nn.Linear(1, 1), nn.Linear(1, 1)]
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in models]
    models, optimizers = amp.initialize(models, optimizers, precision="native", verbosity=0)
    before = [model.weight.item() for model in models]
    with amp.scale_loss(sum(model(torch.ones(1, 1)).sum() * 2.0**-8 for model in models), optimizers) as scaled:
        scaled.backward()
        models[0].weight.grad.fill_(float("nan"))
    for optimizer in optimizers:
        optimizer.step()
    assert [amp.step_was_skipped(optimizer) for optimizer in optimizers] == [True, True]
    assert [model.weight.item() for model in models] == before


def test_gradients_of_several_passes_are_summed():
    model, optimizer = _native()
    x = torch.randn(2, 4, 3)
    for one in x:
        with amp.scale_loss(model(one).sum() * 2.0**-8, optimizer) as scaled:
            scaled.backward()
    torch.testing.assert_close(model.layer.weight.grad[0], x.sum((0, 1)) * 2.0**-8, rtol=2e-3, atol=2e-5)


def test_the_state_moves_between_the_two_precisions():
    model, optimizer = _native()
    for _ in range(3):
        with amp.scale_loss(model(torch.ones(1, 3)).mean(), optimizer) as scaled:
            scaled.backward()
    state = amp.state_dict()
    assert state == {"loss_scaler0": {"loss_scale": 65536.0, "unskipped": 3}}
    amp.initialize([], verbosity=0)
    amp.load_state_dict({"loss_scaler0": {"loss_scale": 512.0, "unskipped": 1999}})
    state = amp.state_dict()
    model, optimizer = _native()
    amp.load_state_dict(state)
    assert amp.state_dict() == state
    with amp.scale_loss(model(torch.ones(1, 3)).mean(), optimizer) as scaled:
        assert scaled.item() == pytest.approx(512 * model(torch.ones(1, 3)).mean().item())
        scaled.backward()
    assert amp.state_dict()["loss_scaler0"] == {"loss_scale": 1024.0, "unskipped": 0}


def test_a_backward_pass_without_gradients_changes_nothing():
    scaler = GradScalerAsLossScaler("cpu")
    scaler.scale(torch.ones(()))
    assert scaler.unscale_and_update([torch.optim.SGD([torch.ones(1, requires_grad=True)], 0.1)]) is False
    assert (scaler.loss_scale, scaler.unskipped) == (65536.0, 0)


def test_a_static_scale_stays():
    model, optimizer = _native(loss_scale=128.0)
    with amp.scale_loss(model(torch.ones(1, 3)).sum(), optimizer) as scaled:
        scaled.backward()
    torch.testing.assert_close(model.layer.weight.grad, torch.ones(2, 3))
