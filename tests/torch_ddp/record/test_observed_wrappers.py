"""What is seen of a program's wrappers, as it makes and calls them."""

import contextlib
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from torch_ddp.record import start
from torch_ddp.record.facts import Observed
from torch_ddp.record.steps import Pass


@pytest.fixture
def wrapper():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
    dist.destroy_process_group()


@pytest.mark.parametrize(
    ("forward", "backward", "passes"),
    [
        (False, False, {"sync": 1}),
        (True, True, {"no_sync": 1}),
        (True, False, {"no_sync": 1}),
        (False, True, {"sync": 1, "no_sync_too_late": 1}),
    ],
)
def test_no_sync_counts_where_it_holds_the_forward_pass(wrapper, forward, backward, passes):
    observed = Observed()
    observed.wrapper_made(wrapper)
    with wrapper.no_sync() if forward else contextlib.nullcontext():
        observed.before_forward(wrapper.module, [])
    with wrapper.no_sync() if backward else contextlib.nullcontext():
        observed.before_backward(Pass(), [])
    assert observed.facts()["passes"] == passes


@pytest.mark.parametrize("switched_off", [True, False])
def test_a_model_that_is_not_compiled_is_no_wrapper_of_itself(monkeypatch, switched_off):
    made, model = [], torch.nn.Linear(2, 1)
    monkeypatch.setattr(torch, "compile", lambda model, **_: model if switched_off else torch.nn.Sequential(model))
    start._wrap_compile(SimpleNamespace(module_made=made.append))
    torch.compile(model)
    torch.compile(model=model)
    assert len(made) == (0 if switched_off else 2)
