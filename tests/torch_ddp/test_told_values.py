"""What a port holds and does not train is told number by number, and a bias beside it that may hold a part of it."""

import torch
from torch import nn

from torch_ddp.step.trace_names import own_values, told_values


def test_what_is_frozen_is_told_and_the_bias_that_trains_beside_it():
    cell, plain = nn.LSTMCell(2, 1), nn.Linear(2, 1)
    cell.bias_hh.requires_grad_(False)
    model = nn.ModuleDict({"cell": cell, "plain": plain})
    model.register_buffer("mean", torch.tensor([0.5]))
    told = told_values(model, own_values(model))
    assert set(told) == {"stat/mean", "var/cell.bias_hh", "var/cell.bias_ih"}
    assert told["var/cell.bias_ih"] == cell.bias_ih.tolist()
    cell.bias_hh.requires_grad_(True)
    assert set(told_values(model, own_values(model))) == {"stat/mean"}
