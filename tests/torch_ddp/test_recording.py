"""Recording a torch loop changes nothing of it, and says what a step did."""

import numpy as np
import pytest
import torch

import torch_ddp
from parity.experiment.compare import compare_traces
from parity.trace import Trace
from torch_ddp.errors import TorchDdpError


def trained(out, clip=None, steps=3):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)

    def one(x):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()

    batches = [torch.randn(5, 3) for _ in range(steps)]
    if out is None:
        for x in batches:
            one(x)
        return model
    with torch_ddp.recording(out, model, optimizer) as record:
        for x in batches:
            with record.step(x=x):
                one(x)
    return model


def test_weights_are_bit_equal_with_and_without_recording(tmp_path):
    bare, recorded = trained(None), trained(tmp_path / "trace")
    for one, other in zip(bare.state_dict().values(), recorded.state_dict().values(), strict=True):
        assert torch.equal(one, other)


def test_a_step_holds_what_happened_in_it(tmp_path):
    model = trained(tmp_path / "trace", clip=1e-3)
    trace = Trace(tmp_path / "trace")
    assert (trace.step_numbers, trace.facts["slots"]) == ([0, 1, 2], ["exp_avg", "exp_avg_sq"])
    step = trace.step(2)
    np.testing.assert_array_equal(step.read("var/0.weight"), model[0].weight.detach().numpy())
    np.testing.assert_array_equal(step.read("tower_grad/0/0.weight"), step.read("grad/0.weight"))
    ratio = step.read("clip/2.weight") / step.read("grad/2.weight")
    assert np.all(ratio < 1)
    assert step.read("feed/0/x").shape == (5, 3)
    assert int(step.read("state/global_step")) == 2
    assert step.read("loss/0").shape == ()


def test_a_step_without_an_update_is_refused(tmp_path):
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with (
        pytest.raises(TorchDdpError, match="expected one backward and one update in a step, got 0 updates"),
        torch_ddp.recording(tmp_path / "trace", model, optimizer) as record,
        record.step(),
    ):
        model(torch.ones(1, 1)).sum().backward()
    assert not Trace(tmp_path / "trace", whole=False).complete


def test_two_recordings_are_compared_layer_by_layer(tmp_path):
    x = torch.arange(15.0).reshape(5, 3) - 7

    def recorded(name, activation):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(3, 4), activation, torch.nn.Linear(4, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with torch_ddp.recording(tmp_path / name, model, optimizer) as record, record.step(x=x):
            model(x).square().mean().backward()
            optimizer.step()
        return tmp_path / name

    result = compare_traces(recorded("one", torch.nn.ReLU()), recorded("other", torch.nn.LeakyReLU(0.3)))
    first = result.first_difference
    assert (result.verdict, first.check.key) == ("different", "act/0/0/1")
    assert "in the layer 0/1: 1 (relu), in the port 1 (leaky_relu); its inputs and weights are the same" in first.where
