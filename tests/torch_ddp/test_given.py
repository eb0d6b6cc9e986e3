"""A loss that goes on from given outputs."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from torch_ddp.errors import TorchDdpError
from torch_ddp.step.activation_patching import with_given_outputs


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.second = nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)
        self.lstm = nn.LSTM(2, 2, batch_first=True)

    def forward(self, x):
        hidden = F.relu(self.norm(self.first(x)))
        logits = self.second(hidden)
        out, _ = self.lstm(logits[None])
        return {"hidden": hidden, "logits": logits, "out": out, "x": x}


def loss(model, x):
    outputs = model(x)
    return outputs["out"].square().sum() + outputs["logits"].sum(), outputs


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Net().double()


X = torch.arange(15.0, dtype=torch.float64).reshape(5, 3).sin()


def test_what_comes_after_a_given_output_is_computed_from_it(model):
    hidden = torch.ones(5, 4, dtype=torch.float64)
    _, outputs = with_given_outputs(loss, model, {"x": X}, {"hidden": hidden}, cut=False)
    assert torch.equal(outputs["hidden"], hidden)
    assert torch.equal(outputs["logits"], model.second(hidden))


def test_one_of_several_results_of_a_call_can_be_given(model):
    out = torch.full((1, 5, 2), 2.0, dtype=torch.float64)
    value, outputs = with_given_outputs(loss, model, {"x": X}, {"out": out}, cut=False)
    assert value.item() == pytest.approx((40 + outputs["logits"].sum()).item())


def test_gradients_pass_a_given_output_unless_they_are_cut(model):
    gradients = {}
    for cut in (False, True):
        model.zero_grad()
        hidden = torch.ones(5, 4, dtype=torch.float64)
        with_given_outputs(loss, model, {"x": X}, {"hidden": hidden}, cut)[0].backward()
        gradients[cut] = model.first.weight.grad, model.second.weight.grad
    assert gradients[False][0].any() and not gradients[True][0].any()
    assert torch.equal(gradients[False][1], gradients[True][1]) and gradients[True][1].any()


def test_the_call_that_looks_for_outputs_leaves_no_trace(model):
    other = Net().double()
    other.load_state_dict(model.state_dict())
    state = torch.get_rng_state()
    given = with_given_outputs(loss, model, {"x": X}, {"logits": other(X)["logits"].detach()}, cut=False)[0]
    assert torch.equal(torch.get_rng_state(), state)
    assert int(model.norm.num_batches_tracked) == 1
    assert torch.isfinite(given)


def test_an_output_that_no_call_makes_is_refused(model):
    for name, value in (("x", X), ("absent", X), ("hidden", X)):
        with pytest.raises(TorchDdpError, match=f"given: expected the loss to return an output '{name}' of shape"):
            with_given_outputs(loss, model, {"x": X}, {name: value}, cut=False)
