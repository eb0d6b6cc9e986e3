"""A port evaluated after training."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from torch_ddp.errors import TorchDdpError
from torch_ddp.step.inference import evaluate_whole


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        self.dropout = nn.Dropout(0.5)
        self.out = nn.Linear(3, 2)
        self.frozen = nn.BatchNorm1d(3).eval()

    def forward(self, x):
        return self.out(self.dropout(self.norm(x)))


def loss(model, x):
    out = model(x)
    return out.square().mean(), {"out": out}


@pytest.fixture
def net():
    torch.manual_seed(0)
    return Net()


X = torch.randn(5, 3, generator=torch.Generator().manual_seed(1))


def test_it_is_what_eval_gives_with_the_weights_and_with_their_averages(net):
    averages = {name: torch.randn_like(parameter) for name, parameter in net.named_parameters()}
    found = evaluate_whole(net, loss, {"x": X}, averages)
    net.eval()
    with torch.no_grad():
        assert torch.equal(found["eval/out"], net(X))
        for name, parameter in net.named_parameters():
            parameter.copy_(averages[name])
        assert torch.equal(found["eval/ema/out"], net(X))
    assert list(found) == ["eval/out", "eval/loss", "eval/ema/out", "eval/ema/loss"]


def test_it_leaves_modes_weights_buffers_and_the_random_state_as_they_were(net):
    averages = {name: torch.randn_like(parameter) for name, parameter in net.named_parameters()}
    before = {name: value.clone() for name, value in net.state_dict().items()}
    modes, state = [module.training for module in net.modules()], torch.get_rng_state()
    for evaluation in ("eval", "train", "other draws"):
        evaluate_whole(net, loss, {"x": X}, averages, evaluation)
    assert [module.training for module in net.modules()] == modes
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)
    assert all(parameter.grad is None for parameter in net.parameters())


def test_draws_are_the_same_each_time_and_others_where_asked_for(net):
    def dropping(model, x):
        return F.dropout(model(x), 0.5).sum()

    first, again, other = (
        evaluate_whole(net, dropping, {"x": X}, {}, evaluation)["eval/loss"]
        for evaluation in ("eval", "eval", "other draws")
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_train_mode_normalises_with_the_batch_itself(net):
    in_training = evaluate_whole(net, lambda model, x: (x.sum(), {"normal": model.norm(x)}), {"x": X}, {}, "train")
    assert torch.allclose(in_training["eval/normal"].mean(0), torch.zeros(3), atol=1e-6)


def test_a_loss_that_is_no_scalar_is_refused(net):
    with pytest.raises(
        TorchDdpError, match=r"^loss: expected a scalar, got shape \(5, 2\)\. Reduce it, e\.g\. with mean"
    ):
        evaluate_whole(net, lambda model, x: model(x), {"x": X}, {})
