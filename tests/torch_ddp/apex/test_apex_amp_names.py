"""The parts of Apex's amp that scripts and its own tests look into: state, scalers, handle, old interface."""

import pytest
import torch
from torch import nn

from torch_ddp.amp import AmpError
from torch_ddp.apex import amp
from torch_ddp.apex.amp import _amp_state
from torch_ddp.apex.amp.scaler import LossScaler


def model_and_optimizer():
    model = nn.Linear(3, 2)
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def test_before_initialize_the_state_has_nothing_to_show():
    assert not hasattr(_amp_state, "opt_properties")
    assert not hasattr(_amp_state, "loss_scalers")
    assert not hasattr(_amp_state, "handle")
    assert _amp_state.verbosity == 1


def test_the_state_shows_options_and_scalers():
    amp.initialize(*model_and_optimizer(), opt_level="O2", loss_scale="128.0", num_losses=2, verbosity=0)
    options = _amp_state.opt_properties
    assert (options.enabled, options.opt_level, options.loss_scale, options.master_weights) == (True, "O2", 128.0, True)
    assert options.options["keep_batchnorm_fp32"] is True
    assert not hasattr(options, "speed")
    assert [scaler.loss_scale() for scaler in _amp_state.loss_scalers] == [128.0, 128.0]
    assert _amp_state.verbosity == 0


def test_a_scaler_of_the_state_is_the_one_of_the_session():
    model, optimizer = amp.initialize(*model_and_optimizer(), opt_level="O2", verbosity=0)
    scaler = _amp_state.loss_scalers[0]
    assert scaler is _amp_state.loss_scalers[0]
    scaler._loss_scale, scaler._unskipped, scaler._min_loss_scale = 4.0, 1999, 2.0
    with amp.scale_loss(model(torch.ones(1, 3)).sum(), optimizer) as scaled:
        scaled.backward()
    assert (scaler.loss_scale(), scaler._unskipped) == (8.0, 0)
    assert amp.state_dict()["loss_scaler0"] == {"loss_scale": 8.0, "unskipped": 0}


def test_the_state_lets_models_in_that_are_not_float32(monkeypatch):
    model = nn.Linear(3, 2).half()
    with pytest.raises(AmpError, match="expected float32"):
        amp.initialize(model, verbosity=0)
    monkeypatch.setattr(_amp_state, "allow_incoming_model_not_fp32", True)
    amp.initialize(model, verbosity=0)


def test_disabled_amp_says_so():
    amp.initialize(*model_and_optimizer(), enabled=False)
    assert _amp_state.opt_properties.enabled is False
    assert not _amp_state.handle.is_active()


def test_init_casts_until_its_handle_ends_it():
    handle = amp.init(allow_banned=True)
    half = torch.full((2,), 0.5, dtype=torch.half)
    assert handle.is_active()
    assert torch.nn.functional.binary_cross_entropy(half, half).dtype is torch.float32
    with handle._disable_casts():
        assert not handle.is_active()
    handle._deactivate()
    assert torch.softmax(half, 0).dtype is torch.half
    assert not amp.init(enabled=False).is_active()


def test_the_oldest_interface_is_refused_as_in_apex():
    with pytest.raises(RuntimeError, match=r"Call amp\.initialize"):
        amp.init().scale_loss(None, None)


def test_a_wrapped_optimizer_trains_with_two_losses_as_without_amp():
    runs = []
    for enabled in (True, False):
        torch.manual_seed(1)
        model = nn.Linear(3, 2).bfloat16().float()
        handle = amp.init(enabled=enabled)
        optimizer = handle.wrap_optimizer(torch.optim.SGD(model.parameters(), lr=0.5), num_loss=2)
        for _ in range(2):
            optimizer.zero_grad()
            # In float32 throughout, so that only the scaling could differ; powers of 2 leave the digits alone.
            for factor in (1.0, 2.0):
                with handle._disable_casts():
                    loss = (model(torch.ones(4, 3)) * factor).square().sum()
                with optimizer.scale_loss(loss) as scaled:
                    scaled.backward()
            optimizer.step()
        handle._deactivate()
        runs.append(model.weight.detach().clone())
    assert torch.equal(*runs)


def test_a_wrapped_optimizer_skips_after_an_overflow_and_counts_its_losses(capsys):
    model, inner = model_and_optimizer()
    before = model.weight.detach().clone()
    optimizer = amp.init().wrap_optimizer(inner)
    with optimizer.scale_loss(model(torch.full((1, 3), float("inf"))).sum()) as scaled:
        scaled.backward()
    with pytest.raises(AmpError, match="num_loss=2"), optimizer.scale_loss(torch.zeros(())):
        pass
    optimizer.step()
    assert torch.equal(model.weight, before)
    assert optimizer._loss_scaler[0].loss_scale() == 2.0**15
    assert "Gradient overflow" in capsys.readouterr().out
    assert optimizer.param_groups is inner.param_groups


@pytest.mark.parametrize("scale", [2.0**-128, 0.0])
def test_a_wrapped_optimizer_refuses_a_scale_whose_inverse_float32_cannot_hold(scale):
    model, inner = model_and_optimizer()
    optimizer = amp.init().wrap_optimizer(inner)
    optimizer._loss_scaler[0]._loss_scale = scale
    with (
        pytest.raises(AmpError, match=r"OptimWrapper.scale_loss: expected a loss scale of at least 5.88e-39.*endless"),
        optimizer.scale_loss(model(torch.ones(1, 3)).sum()),
    ):
        pass


def test_a_scaler_unscales_checks_and_moves():
    scaler = LossScaler("dynamic", init_scale=8.0, scale_window=2)
    grads, masters = [torch.tensor([8.0, 16.0]).half(), None], [torch.zeros(2), None]
    scaler.unscale(grads, masters, None)
    assert torch.equal(masters[0], torch.tensor([1.0, 2.0]))
    assert scaler.update_scale() is False
    scaler.unscale_with_stashed([grads[0]], [torch.ones(2)], [masters[0]])
    assert torch.equal(masters[0], torch.tensor([2.0, 3.0]))
    scaler.update_scale()
    assert scaler.loss_scale() == 16.0
    scaler.unscale([torch.tensor([float("nan")])], [torch.zeros(1)], None)
    assert scaler.update_scale() is True
    assert scaler.loss_scale() == 8.0
    scaler.clear_overflow_state()
    assert not scaler._has_overflow
