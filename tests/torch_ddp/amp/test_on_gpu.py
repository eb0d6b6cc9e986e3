"""On a GPU: the same dtypes as on the CPU, threads of the device's backward pass, and training at every level."""

import threading

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from torch_ddp import amp

from .test_casts import BLACK, UNLISTED

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="no CUDA GPU here: run this file on a machine with one to enable it"
)
HALF, FLOAT = torch.float16, torch.float32


@pytest.mark.parametrize("dtype", [HALF, FLOAT])
@pytest.mark.parametrize("name", sorted(BLACK.keys() - {"grid_sample", "cross_entropy", "nll_loss"}))
def test_functions_run_in_the_dtype_they_run_in_on_the_cpu(casts, name, dtype):
    x = (torch.rand(4, 4) + 0.1).to(dtype)
    assert BLACK[name](x.cuda()).dtype is BLACK[name](x).dtype is FLOAT


@pytest.mark.parametrize("name", sorted(UNLISTED.keys() - {"batch_norm"}))
def test_functions_on_no_list_keep_half(casts, name):
    assert UNLISTED[name](torch.ones(4, 4, dtype=HALF, device="cuda")).dtype is HALF


def test_the_thread_of_the_device_casts(casts):
    seen = []

    class Record(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            seen.append((threading.get_ident(), F.linear(torch.ones(2, 3).cuda(), torch.ones(4, 3).cuda()).dtype))
            return grad

    Record.apply(torch.ones(1, device="cuda", requires_grad=True)).sum().backward()
    assert seen[0][0] != threading.get_ident()
    assert seen[0][1] is HALF


@pytest.mark.parametrize("opt_level", ["O0", "O1", "O2", "O3"])
@pytest.mark.parametrize("half", [HALF, torch.bfloat16])
def test_every_level_learns_on_the_gpu_what_it_learns_on_the_cpu(opt_level, half):
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(32, 3, generator=generator)
    labels = (inputs.sum(1) > 0).long()
    losses = []
    for device in ("cpu", "cuda"):
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
        model, optimizer = amp.initialize(model, optimizer, opt_level=opt_level, half_dtype=half, verbosity=0)
        for _ in range(10):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs.to(device)), labels.to(device))
            with amp.scale_loss(loss, optimizer) as scaled:
                scaled.backward()
            optimizer.step()
        losses.append(loss.item())
    assert losses[1] == pytest.approx(losses[0], rel=1e-3 if opt_level == "O0" else 5e-2)


def test_an_overflow_on_the_gpu_skips_the_step():
    model = nn.Linear(2, 1).cuda()
    before = model.weight.detach().clone()
    model, optimizer = amp.initialize(model, torch.optim.SGD(model.parameters(), 0.1), opt_level="O2", verbosity=0)
    with amp.scale_loss(model(torch.ones(1, 2, device="cuda")).sum(), optimizer) as scaled:
        scaled.backward()
        model.weight.grad.fill_(float("inf"))
    optimizer.step()
    assert amp.step_was_skipped(optimizer)
    assert torch.equal(model.weight, before.half())
    assert amp.state_dict()["loss_scaler0"]["loss_scale"] == 2.0**15
