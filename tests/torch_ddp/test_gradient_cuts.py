"""Calls that keep gradients from passing are found where the port makes them, and let them pass one by one."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from torch_ddp.step.gradient_cuts import GradientCuts


class Net(nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.how = how
        self.table = nn.Embedding(5, 3, padding_idx=2 if how == "padding_idx" else None)
        self.inner = nn.Linear(3, 3)
        self.double()

    def forward(self, words: Tensor) -> Tensor:
        x = self.table(words)
        return self.inner(x).tanh() + self.cut(x)

    def cut(self, x: Tensor) -> Tensor:
        if self.how == "detach":
            return (x * x).detach()
        if self.how == "data":
            return (x * x).data
        if self.how == "item":
            return x * x.sum().item()
        if self.how == "tensor":
            return torch.tensor(x * x)
        if self.how == "no_grad":
            with torch.no_grad():
                y = x * x
                return y + 1
        if self.how == "no_grad, picked":
            with torch.no_grad():
                return x[:, [2, 0, 1]]
        if self.how == "autograd.grad":
            (slope,) = torch.autograd.grad((x**3).sum(), x, retain_graph=True)
            return slope
        return x * x


def plain(how: str, x: Tensor) -> Tensor:
    if how == "no_grad, picked":
        return x[:, [2, 0, 1]]
    if how == "item":
        return x * x.sum()
    if how == "autograd.grad":
        return 3 * x * x
    return x * x + 1 if how == "no_grad" else x * x


def gradients(model: nn.Module, undone: tuple[str, ...] = ()) -> tuple[dict[str, Tensor], GradientCuts]:
    model.zero_grad()
    cuts = GradientCuts(model, undone)
    with cuts.watching():
        model(torch.tensor([1, 2, 4, 2])).square().sum().backward()
    return {name: value.grad.clone() for name, value in model.named_parameters()}, cuts


@pytest.mark.filterwarnings("ignore:To copy construct")
@pytest.mark.parametrize(
    "how", ["detach", "data", "item", "tensor", "no_grad", "no_grad, picked", "padding_idx", "autograd.grad"]
)
def test_gradients_pass_where_they_are_let(how):
    model = Net(how)
    cut, cuts = gradients(model)
    [told] = cuts.found.values()
    assert (told["kind"], told["module"], told["calls"]) == (how.partition(",")[0], "", 1)
    let, _ = gradients(model, tuple(cuts.found))
    if how == "padding_idx":
        words = F.embedding(torch.tensor([1, 2, 4, 2]), model.table.weight)
    else:
        words = model.table(torch.tensor([1, 2, 4, 2]))
    model.zero_grad()
    (model.inner(words).tanh() + plain(how, words)).square().sum().backward()
    for name, value in model.named_parameters():
        torch.testing.assert_close(let[name], value.grad)
    assert not torch.equal(cut["table.weight"], let["table.weight"])


def test_two_calls_in_one_line_are_two_places():
    class Both(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return self.weight.detach().sum() * self.bias.detach().sum() + super().forward(x).sum()

    model = Both(2, 2).double()
    cuts = GradientCuts(model)
    with cuts.watching():
        model(torch.ones(1, 2, dtype=torch.float64)).backward()
    assert [each["parameter"] for each in cuts.found.values()] == ["weight", "bias"]
    assert len({tuple(each["line"]) for each in cuts.found.values()}) == 1
    half = GradientCuts(model, list(cuts.found)[1:])
    with half.watching():
        model.zero_grad()
        model(torch.ones(1, 2, dtype=torch.float64)).backward()
    assert half.found == cuts.found
    torch.testing.assert_close(model.weight.grad, torch.ones_like(model.weight))
    torch.testing.assert_close(model.bias.grad, torch.ones_like(model.bias) * (1 + model.weight.detach().sum()))


def test_what_lets_gradients_pass_or_has_none_is_no_place():
    class Right(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            torch.autograd.grad((self.weight**2).sum(), self.weight, create_graph=True)
            with torch.no_grad():
                scale = x.abs().mean()
                self.bias.clamp_(-1, 1)
                self.bias *= 0.5
            return super().forward(x.detach() * scale).sum()

    model = Right(2, 2)
    cuts = GradientCuts(model)
    with cuts.watching():
        model(torch.ones(1, 2)).backward()
        torch.optim.SGD(model.parameters(), 0.1).step()
    assert cuts.found == {}


def test_what_leaves_torch_is_detached_where_gradients_pass():
    class Told(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            y = super().forward(x).sum()
            self.shown = y.detach().numpy()
            return y

    model = Told(2, 2)
    cuts = GradientCuts(model)
    with cuts.watching():
        model(torch.ones(1, 2))
    with GradientCuts(model, tuple(cuts.found)).watching():
        model(torch.ones(1, 2)).backward()
    assert model.shown.shape == ()
