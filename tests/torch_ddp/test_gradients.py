import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from torch_ddp import GradientReduction, Rank, TorchDdpError, process_group, shard, unreduced

FEATURES = 3


class Line(nn.Module):
    """Maps ``[n, 3]`` to ``[n]``."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64))
        self.bias = nn.Parameter(torch.tensor(0.25, dtype=torch.float64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight + self.bias


class Partly(Line):
    """Has one parameter that the loss does not reach."""

    def __init__(self) -> None:
        super().__init__()
        self.unused = nn.Parameter(torch.zeros(2, dtype=torch.float64))


def data(batch: int) -> dict[str, torch.Tensor]:
    random = np.random.default_rng(1)
    return {
        "x": torch.from_numpy(random.standard_normal((batch, FEATURES))),
        "y": torch.from_numpy(random.standard_normal(batch)),
    }


def squared_error(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return ((model(x) - y) ** 2).mean()


def by_hand(x: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    """Returns the gradient of the mean of (w x + b - y)^2: 2 r x / n and 2 r / n, summed over the examples."""
    residual = x @ np.array([0.5, -1.0, 2.0]) + 0.25 - y
    return {"weight": 2 * residual @ x / len(y), "bias": np.array(2 * residual.mean())}


def gradients_under_ddp(rank: Rank, reduce: str, batch: int, keep: bool) -> dict[str, dict[str, np.ndarray]]:
    model = DistributedDataParallel(Line())
    reduction = GradientReduction(model, reduce)
    reduction.keep = keep
    squared_error(model, **shard(data(batch), rank.rank, rank.world_size)).backward()
    combined = {name: value.grad.numpy() for name, value in model.module.named_parameters()}
    return {"combined": combined, "local": {name: value.numpy() for name, value in reduction.local.items()}}


def plain_ddp_and_hook(rank: Rank, batch: int) -> bool:
    piece = shard(data(batch), rank.rank, rank.world_size)
    models = [DistributedDataParallel(Line()) for _ in range(2)]
    GradientReduction(models[1], "mean")
    for model in models:
        squared_error(model, **piece).backward()
    one, other = ([value.grad for value in model.parameters()] for model in models)
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def unreduced_names(rank: Rank) -> list[str]:
    model = DistributedDataParallel(Partly(), find_unused_parameters=True)
    squared_error(model, **shard(data(4), rank.rank, rank.world_size)).backward()
    return unreduced(model.module)


@pytest.mark.parametrize("reduce", ["mean", "sum"])
@pytest.mark.parametrize("ranks", ["two_ranks", "three_ranks"])
def test_ranks_combine_their_gradients_as_worked_out_by_hand(request, ranks, reduce):
    batch = data(12)
    found = request.getfixturevalue(ranks).run(gradients_under_ddp, reduce, 12, True)
    world = len(found)
    towers = [by_hand(*(v.numpy() for v in shard(batch, rank, world).values())) for rank in range(world)]
    for rank, gradients in enumerate(found):
        for name in ("weight", "bias"):
            expected = sum(tower[name] for tower in towers) / (world if reduce == "mean" else 1)
            np.testing.assert_allclose(gradients["combined"][name], expected, rtol=1e-14, atol=1e-15)
            np.testing.assert_allclose(gradients["local"][name], towers[rank][name], rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize(("reduce", "factor"), [("mean", 1), ("sum", 2)])
def test_two_ranks_have_the_gradient_of_one_process_on_the_whole_batch(two_ranks, reduce, factor):
    alone = by_hand(*(value.numpy() for value in data(8).values()))
    for gradients in two_ranks.run(gradients_under_ddp, reduce, 8, False):
        for name, whole in alone.items():
            np.testing.assert_allclose(gradients["combined"][name], factor * whole, rtol=1e-14, atol=1e-15)
        assert gradients["local"] == {}


def test_attaching_the_mean_changes_no_bit_of_what_ddp_does(two_ranks):
    assert two_ranks.run(plain_ddp_and_hook, 8) == [True, True]


def test_parameters_that_got_no_gradient_are_named(two_ranks):
    assert two_ranks.run(unreduced_names) == [["unused"], ["unused"]]


def test_another_reduction_is_refused(tmp_path):
    refused = pytest.raises(TorchDdpError, match=r"^gradients: expected reduce to be .*'mean'.*'sum'.*, got 'median'\.")
    with process_group(Rank(0, 0, 1), "gloo", (tmp_path / "meeting").as_uri()), refused:
        GradientReduction(DistributedDataParallel(Line()), "median")


def kept_later(rank: Rank) -> tuple:
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(3, 2).double())
    reduction = GradientReduction(model)
    hooks = [len(model._comm_hooks)]
    x = torch.arange(6.0, dtype=torch.float64).reshape(2, 3) + rank.rank
    found = []
    for keep in (False, True, False, True):
        reduction.keep = keep
        model.zero_grad(set_to_none=True)
        model(x).square().sum().backward()
        hooks.append(len(model._comm_hooks))
        found.append(model.module.weight.grad.numpy().copy())
    return hooks, found, reduction.local["weight"].numpy(), reduction.reduced["weight"].numpy()


def test_the_mean_costs_nothing_until_something_is_kept(two_ranks):
    answers = two_ranks.run(kept_later)
    (hooks, found, own, reduced), (_, _, other, _) = answers
    assert hooks == [0, 0, 1, 1, 1]
    assert all((each == found[0]).all() for each in found)
    assert (reduced == found[0]).all()
    assert ((own / 2 + other / 2) == reduced).all() and (own != reduced).any()
