"""Betas whose powers are those of TensorFlow's graph."""

import copy
import math

import numpy as np
import pytest
import torch

from torch_ddp import like_tf, round_hyper_parameters
from torch_ddp.step.optimizer import Float32Beta


class Adam(torch.optim.Optimizer):
    """As people port TensorFlow's: epsilon beside the root of the uncorrected moment, powers by `**`."""

    def __init__(self, params, lr, betas, eps):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                state = self.state[p]
                state.setdefault("step", 0)
                for slot in ("m", "v"):
                    state.setdefault(slot, torch.zeros_like(p))
                state["step"] += 1
                state["m"].mul_(beta1).add_(p.grad, alpha=1 - beta1)
                state["v"].mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                rate = group["lr"] * math.sqrt(1 - beta2 ** state["step"]) / (1 - beta1 ** state["step"])
                p.addcdiv_(state["m"], state["v"].sqrt().add_(group["eps"]), value=-rate)


def test_a_ports_own_adam_with_rounded_betas_is_tensorflows_to_rounding():
    drawn = np.random.default_rng(0)
    ours, theirs = (torch.nn.Parameter(torch.zeros(20, dtype=torch.float64)) for _ in range(2))
    tensorflows = like_tf.Adam([ours], lr=0.005, beta1=0.9, beta2=0.999, epsilon=1e-6)
    port = Adam([theirs], lr=0.005, betas=(0.9, 0.999), eps=1e-6)
    round_hyper_parameters(port)
    for _ in range(50):
        gradient = torch.tensor(drawn.normal(size=20))
        ours.grad, theirs.grad = gradient, gradient.clone()
        tensorflows.step()
        port.step()
    # Powers rounded once leave 2e-8 of it.
    assert float((ours - theirs).detach().norm() / ours.detach().norm()) < 1e-13


@pytest.mark.parametrize("beta", [0.9, 0.98, 0.999])
def test_powers_are_multiplied_up_in_float32(beta):
    power = np.float32(beta)
    rounded = Float32Beta(beta)
    assert rounded == float(np.float32(beta))
    assert rounded**0 == 1.0
    for step in range(1, 40):
        assert rounded**step == rounded ** float(step) == float(power)
        assert torch.equal(rounded ** torch.tensor(step, dtype=torch.float64), torch.tensor(float(power)).double())
        power = power * np.float32(beta)
    assert rounded**0.5 == float(np.float32(beta)) ** 0.5
    assert rounded**-1 == 1.0 / float(np.float32(beta))
    assert type(1 - rounded) is float


def test_a_rounded_beta_is_copied_as_one_and_taken_by_torchs_own_optimizers():
    assert type(copy.deepcopy(Float32Beta(0.9))) is Float32Beta
    for foreach in (False, True):
        parameter = torch.nn.Parameter(torch.ones(3))
        optimizer = torch.optim.Adam([parameter], foreach=foreach)
        round_hyper_parameters(optimizer)
        parameter.grad = torch.ones(3)
        optimizer.step()
        assert parameter.isfinite().all()
        assert [type(beta) for beta in optimizer.param_groups[0]["betas"]] == [Float32Beta, Float32Beta]


def test_what_a_float64_graph_holds_in_float64_stays_but_a_rate_of_the_same_number():
    parameter = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([{"params": [parameter], "limit": 0.05, "bound": 0.3}], lr=0.05)
    round_hyper_parameters(optimizer, exact=[0.05])
    group = optimizer.param_groups[0]
    assert (group["limit"], group["bound"]) == (0.05, float(np.float32(0.3)))
    assert group["lr"] == float(np.float32(0.05))
