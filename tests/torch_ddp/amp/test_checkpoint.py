"""Saving and resuming: Apex's format, and bit for bit at every level."""

import io
import itertools

import pytest
import torch
from torch import nn

from torch_ddp import amp

from .linear_models import LEVELS, Product, inject, sgd

X = torch.tensor([0.5, 1.0])


def _network(opt_level):
    model = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, eps=1e-3)  # 1e-8 is 0 in half, under O3
    return amp.initialize(model, optimizer, opt_level=opt_level, loss_scale="dynamic", verbosity=0)


def _train(model, optimizer, steps, seed=0, overflow_at=None):
    generator = torch.Generator().manual_seed(seed)
    for step in range(steps):
        x = torch.randn(8, 3, generator=generator)
        optimizer.zero_grad()
        with amp.scale_loss(model(x).float().pow(2).mean(), optimizer) as scaled:
            scaled.backward()
            if step == overflow_at:
                model[0].weight.grad[0, 0] = float("inf")
        optimizer.step()


def _everything(model, optimizer):
    state = [value.detach().clone() for value in itertools.chain(model.parameters(), model.buffers())]
    state += [param.detach().clone() for param in amp.master_params(optimizer)]
    return [*state, *(value.clone() for one in optimizer.state.values() for value in one.values())]


def _through_a_file(value):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@pytest.mark.parametrize("opt_level", LEVELS)
@pytest.mark.parametrize("order", list(itertools.permutations(("model", "optimizer", "amp"))), ids="-".join)
def test_a_resumed_run_goes_on_bit_for_bit(opt_level, order):
    model, optimizer = _network(opt_level)
    _train(model, optimizer, 5, overflow_at=2)
    saved = _through_a_file({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "amp": amp.state_dict()})
    _train(model, optimizer, 5, seed=1, overflow_at=1)
    expected, expected_amp = _everything(model, optimizer), amp.state_dict(master_weights=False)

    torch.manual_seed(9)
    model, optimizer = _network(opt_level)
    load = {"model": model.load_state_dict, "optimizer": optimizer.load_state_dict, "amp": amp.load_state_dict}
    for part in order:
        load[part](saved[part])
    _train(model, optimizer, 5, seed=1, overflow_at=1)
    got = _everything(model, optimizer)
    assert len(got) == len(expected) > 10
    assert all(torch.equal(one, other) for one, other in zip(got, expected, strict=True))
    assert amp.state_dict(master_weights=False) == expected_amp
    assert expected_amp["loss_scaler0"] == {"loss_scale": 2.0**14, "unskipped": 3}


def test_without_the_masters_o2_goes_on_from_rounded_weights():
    model, optimizer = _network("O2")
    _train(model, optimizer, 5)
    saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "amp": amp.state_dict()}
    masters = [param.detach().clone() for param in amp.master_params(optimizer)]
    del saved["amp"]["master_weights"]
    model, optimizer = _network("O2")
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    amp.load_state_dict(saved["amp"])
    rounded = [param.detach() for param in amp.master_params(optimizer)]
    assert not torch.equal(masters[0], rounded[0])
    assert torch.equal(masters[0].half().float(), rounded[0])


def test_masters_alone_bring_the_weights_back():
    model, optimizer = _network("O2")
    _train(model, optimizer, 5)
    saved = amp.state_dict()
    weight = model[0].weight.detach().clone()
    torch.manual_seed(9)
    model, optimizer = _network("O2")
    assert not torch.equal(model[0].weight, weight)
    amp.load_state_dict(saved)
    assert torch.equal(model[0].weight, weight)


def test_weights_loaded_in_the_middle_of_a_run_reach_the_masters():
    model, optimizer = _network("O2")
    start = model.state_dict()
    _train(model, optimizer, 3)
    model.load_state_dict(start)
    assert torch.equal(next(amp.master_params(optimizer)).detach(), start["0.weight"])
    _train(model, optimizer, 1)
    assert (model[0].weight.detach() - start["0.weight"]).abs().max() < 0.02


@pytest.mark.parametrize("opt_level", LEVELS)
def test_the_format_of_the_scalers_is_that_of_apex(opt_level):
    model = Product(1.0)
    model, optimizer = amp.initialize(
        model, sgd(model), opt_level=opt_level, loss_scale="dynamic", num_losses=2, verbosity=0
    )
    with amp.scale_loss(model(X), optimizer, loss_id=1) as scaled:
        scaled.backward()
        inject(model, "weight")
    state = amp.state_dict(master_weights=False)
    assert state == {
        "loss_scaler0": {"loss_scale": 65536.0, "unskipped": 0},
        "loss_scaler1": {"loss_scale": 32768.0, "unskipped": 0},
    }
    assert set(amp.state_dict()) - set(state) == ({"master_weights"} if opt_level == "O2" else set())
    destination = {}
    assert amp.state_dict(destination) is destination


def test_every_forced_overflow_halves_the_saved_scale():
    model = Product(1.0)
    model, optimizer = amp.initialize(model, sgd(model), opt_level="O2", verbosity=0)
    for halvings in range(1, 5):
        with amp.scale_loss(model(X), optimizer) as scaled:
            scaled.backward()
            inject(model, "weight")
        optimizer.step()
        assert amp.state_dict()["loss_scaler0"]["loss_scale"] == 2.0 ** (16 - halvings)


def test_a_state_of_apex_loads():
    amp.initialize([], num_losses=2, verbosity=0)
    state = {f"loss_scaler{i}": {"loss_scale": 1024.0 * (i + 1), "unskipped": 7} for i in range(2)}
    amp.load_state_dict(state)
    assert amp.state_dict() == state


@pytest.mark.parametrize("count", [1, 3])
def test_another_number_of_scalers_is_told(count):
    amp.initialize([], num_losses=2, verbosity=0)
    state = {f"loss_scaler{i}": {"loss_scale": 8.0, "unskipped": 1} for i in range(count)}
    with pytest.warns(UserWarning, match=rf"expected 2 loss scalers, got {count}; the first {min(count, 2)} are rest"):
        amp.load_state_dict(state)
    scales = [value["loss_scale"] for value in amp.state_dict().values()]
    assert scales == ([8.0, 65536.0] if count == 1 else [8.0, 8.0])


def test_unknown_keys_and_masters_of_other_weights_are_refused():
    model, _ = _network("O2")
    with pytest.raises(amp.AmpError, match=r"expected keys loss_scaler0.*got \['scale'\]. Pass what amp.state_dict"):
        amp.load_state_dict({"scale": 1.0})
    state = amp.state_dict()
    state["master_weights"][0] = state["master_weights"][0][:-1]
    before = model[0].weight.detach().clone()
    with pytest.raises(amp.AmpError, match=r"expected master weights of shapes .* by optimizer.*in the same order"):
        amp.load_state_dict(state)
    assert torch.equal(model[0].weight, before)
