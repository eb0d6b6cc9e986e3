"""What `initialize` accepts, refuses and gives back."""

import pytest
import torch
from torch import nn

from torch_ddp import amp


def _model():
    return nn.Linear(2, 2)


def _sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)


def test_what_is_given_comes_back_in_the_form_given():
    model = _model()
    assert amp.initialize(model, verbosity=0) is model
    models = [_model(), _model()]
    assert amp.initialize(models, verbosity=0) is models
    optimizer = _sgd(model)
    assert amp.initialize([model], optimizer, verbosity=0) == ([model], optimizer)
    optimizers = (_sgd(model), _sgd(model))
    assert amp.initialize(model, optimizers, verbosity=0) == (model, optimizers)


@pytest.mark.parametrize("opt_level", ["O0", "O1", "O2", "O3"])
def test_disabled_it_changes_nothing_and_every_call_passes(opt_level):
    model = _model()
    optimizer = _sgd(model)
    step = optimizer.step
    same = amp.initialize(model, optimizer, enabled=False, opt_level=opt_level)
    assert same == (model, optimizer)
    assert model.weight.dtype is torch.float32
    assert optimizer.step == step
    loss = model(torch.ones(1, 2)).sum()
    assert loss.dtype is torch.float32
    with amp.scale_loss(loss, optimizer) as scaled:
        assert scaled is loss
        scaled.backward()
    optimizer.step()
    assert not amp.step_was_skipped(optimizer)
    assert list(amp.master_params(optimizer)) == list(model.parameters())
    assert amp.state_dict() == {}
    amp.load_state_dict({})
    with amp.disable_casts():
        pass
    amp.deactivate()


def test_it_says_what_it_does_unless_told_not_to(capsys):
    amp.initialize(_model(), opt_level="O3")
    assert "opt_level=O3, cast_model_type=torch.float16" in capsys.readouterr().out
    amp.initialize(_model(), verbosity=0)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"models": "model"}, r"expected models to be one torch Module or a list of them, got str"),
        ({"optimizers": [3]}, r"expected optimizers to be one torch Optimizer or a list of them, got int"),
        ({"opt_level": "02"}, r"Write the letter O, not the number zero"),
        ({"models": nn.DataParallel(nn.Linear(2, 2))}, r"expected a bare model, got DataParallel. Wrap what"),
        ({"models": nn.Linear(2, 2).half()}, r"got torch.float16 in 'weight'. Leave out .half\(\)"),
        ({"models": nn.Linear(2, 2).double()}, r"got torch.float64 in 'weight'.*allow_incoming_model_not_fp32=True"),
        ({"precision": "tf32"}, r"expected precision 'apex' or 'native', got 'tf32'"),
        ({"precision": "native", "opt_level": "O2"}, r"expected O0 or O1 with precision='native', got O2"),
        (
            {"precision": "native", "min_loss_scale": 1.0},
            r"expected no min_loss_scale or max_loss_scale with precision",
        ),
        ({"num_losses": 0}, r"expected num_losses to be at least 1, got 0"),
    ],
)
def test_what_cannot_work_is_refused_with_a_remedy(arguments, message):
    arguments = {"models": _model(), "verbosity": 0} | arguments
    with pytest.raises(amp.AmpError, match=message):
        amp.initialize(**arguments)


def test_a_half_buffer_is_refused_too():
    model = _model()
    model.register_buffer("table", torch.ones(2, dtype=torch.bfloat16))
    model.register_buffer("count", torch.ones(2, dtype=torch.long))
    with pytest.raises(amp.AmpError, match=r"got torch.bfloat16 in 'table'"):
        amp.initialize(model, verbosity=0)


def test_an_optimizer_is_initialized_once_and_a_refusal_changes_nothing():
    first, second = _model(), _model()
    _, optimizer = amp.initialize(first, _sgd(first), verbosity=0)
    with pytest.raises(amp.AmpError, match=r"expected a fresh SGD, got one that was initialized before. Call amp.init"):
        amp.initialize(second, optimizer, opt_level="O3", verbosity=0)
    assert second.weight.dtype is torch.float32


class _Multiplies(torch.optim.SGD):
    """Steps by a matrix product, which O1 would cast, before its closure."""

    seen = None

    def step(self, closure=None):
        weight = self.param_groups[0]["params"][0]
        self.seen = torch.mm(weight.detach(), weight.detach()).dtype
        if closure is not None:
            closure()


def _passes(model, optimizer):
    with amp.scale_loss(model(torch.ones(1, 2)).sum(), optimizer) as scaled:
        scaled.backward()
    optimizer.step()


def test_the_step_of_an_optimizer_of_an_earlier_call_keeps_out_of_the_casts():
    first, second = _model(), _model()
    _, optimizer = amp.initialize(first, _Multiplies(first.parameters(), lr=0.1), verbosity=0)
    amp.initialize(second, _sgd(second), verbosity=0)
    in_closure = []
    optimizer.step(lambda: in_closure.append(first(torch.ones(1, 2)).dtype))
    assert optimizer.seen is torch.float32
    assert in_closure == [torch.float16]


def test_the_state_holds_the_masters_of_both_calls_where_both_optimizers_train():
    models = [_model(), _model()]
    optimizers = [amp.initialize(m, _sgd(m), opt_level="O2", loss_scale=1.0, verbosity=0)[1] for m in models]
    for model, optimizer in zip(reversed(models), reversed(optimizers), strict=True):
        _passes(model, optimizer)
    saved = amp.state_dict()
    masters = [list(amp.master_params(optimizer)) for optimizer in optimizers]
    assert len(saved["master_weights"]) == 2
    for stored, own in zip(saved["master_weights"], masters, strict=True):
        assert all(torch.equal(one, other) for one, other in zip(stored, own, strict=True))

    exact = [[master.detach() + 1e-5 for master in one] for one in masters]
    again = [_model(), _model()]
    anew = [amp.initialize(m, _sgd(m), opt_level="O2", loss_scale=1.0, verbosity=0)[1] for m in again]
    del optimizers, optimizer, masters, models, model
    amp.load_state_dict({**saved, "master_weights": exact})
    for stored, optimizer in zip(exact, anew, strict=True):
        loaded = amp.master_params(optimizer)
        assert all(torch.equal(one, other) for one, other in zip(stored, loaded, strict=True))


def test_the_state_holds_no_masters_of_an_earlier_training():
    for _ in range(2):
        model = _model()
        _, optimizer = amp.initialize(model, _sgd(model), opt_level="O2", verbosity=0)
        _passes(model, optimizer)
        assert len(amp.state_dict()["master_weights"]) == 1


# torch.jit is deprecated; scripts that have it are why it is tried.
scripted = pytest.mark.filterwarnings("ignore:.*torch.jit.script.* is deprecated:DeprecationWarning")


@scripted
def test_a_scripted_module_runs_at_o1_as_it_is():
    model = torch.jit.script(_model())
    model, optimizer = amp.initialize(model, _sgd(model), opt_level="O1", verbosity=0)
    before = model.weight.clone()
    assert model(torch.ones(1, 2)).dtype is torch.float32
    assert torch.mm(torch.ones(1, 2), torch.ones(2, 1)).dtype is torch.float16
    _passes(model, optimizer)
    assert not torch.equal(model.weight, before)


@scripted
@pytest.mark.parametrize(
    "arguments", [{"opt_level": "O2"}, {"cast_model_outputs": torch.float16}, {"precision": "native"}]
)
def test_a_scripted_module_is_refused_unchanged_where_hooks_are_needed(arguments):
    model = torch.jit.script(_model())
    with pytest.raises(amp.AmpError, match=r"expected a module that takes hooks, got RecursiveScriptModule"):
        amp.initialize(model, verbosity=0, **arguments)
    assert model.weight.dtype is torch.float32


def test_calls_before_it_are_refused():
    for call in (amp.state_dict, lambda: amp.load_state_dict({}), lambda: amp.step_was_skipped(None)):
        with pytest.raises(amp.AmpError, match=r"expected amp.initialize before it, got no call of it"):
            call()
