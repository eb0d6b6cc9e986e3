import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from torch_ddp import GradientReduction, Rank


class Strided(nn.Module):
    """A convolution and a weight that has holes in memory, which DDP lays out contiguously."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 5, 3).double()
        self.holes = nn.Parameter(torch.arange(12.0, dtype=torch.float64).reshape(3, 4)[:, ::2])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x).sum(dim=(0, 2, 3)).mul(torch.arange(5.0)).sum() + (self.holes**2).sum()


def kept_and_true(rank: Rank) -> list[bool]:
    torch.manual_seed(0)
    model = DistributedDataParallel(Strided().to(memory_format=torch.channels_last))
    reduction = GradientReduction(model)
    reduction.keep = True
    images = torch.arange(150.0, dtype=torch.float64).reshape(2, 3, 5, 5).sqrt()
    model(images).backward()
    # Every rank sees the same images: its own gradient is the combined one, which is in the parameter.
    own = {name: value.grad for name, value in model.module.named_parameters()}
    assert own["conv.weight"].stride() == model.module.conv.weight.stride() != torch.empty(5, 3, 3, 3).stride()
    return [torch.equal(kept[name], own[name]) for kept in (reduction.local, reduction.reduced) for name in own]


def test_a_weight_in_channels_last_keeps_its_gradient_in_the_right_order(two_ranks):
    assert two_ranks.run(kept_and_true) == [[True] * 6] * 2
