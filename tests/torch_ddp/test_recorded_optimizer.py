"""The twin of a recorded optimizer, and its learning rates step by step."""

import pytest
import torch

from torch_ddp.errors import TorchDdpError
from torch_ddp.worker.replay_optimizer import TWINS, recorded_optimizer


def test_every_step_has_the_recorded_learning_rate():
    model = torch.nn.Linear(1, 1, bias=False).double()
    optimizer = recorded_optimizer(model, {"name": "GradientDescentOptimizer"}, [0.5, 0.25])
    model.weight.data.fill_(1.0)
    values = []
    for _ in range(3):
        model.weight.grad = torch.ones_like(model.weight)
        optimizer.step()
        values.append(float(model.weight.detach()))
    assert values == [0.5, 0.25, 0.0]


@pytest.mark.on_cpu("a GPU fuses products and sums, by an ulp")
@pytest.mark.parametrize("name", TWINS)
def test_every_twin_takes_what_a_trace_says_of_it(name):
    facts = {"name": name, "momentum": 0.5, "beta1": 0.5, "epsilon": 0.125, "use_nesterov": True, "unknown": 1}
    facts.update(decay=0.25, rho=0.5, learning_rate=7.0)
    optimizer = recorded_optimizer(torch.nn.Linear(1, 1), facts, [0.1])
    group = optimizer.param_groups[0]
    assert all(group[key] == value for key, value in facts.items() if key in group)
    assert group["lr"] == pytest.approx(0.1)


def test_an_optimizer_without_a_twin_is_refused():
    with pytest.raises(TorchDdpError, match=r"among AdadeltaOptimizer, .*got LazyAdamOptimizer. Name your port's own"):
        recorded_optimizer(torch.nn.Linear(1, 1), {"name": "LazyAdamOptimizer"}, [0.1])
