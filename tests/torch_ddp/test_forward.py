"""What is kept of a port's forward pass: which function takes what, reads which weights, and gives what."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from torch_ddp.step import forward_watch
from torch_ddp.step.forward_watch import ForwardWatch


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3)
        self.scale = nn.Parameter(torch.tensor([2.0, 3.0]))
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.conv(x), inplace=True)
        x = x * (self.scale / 2)[:, None, None]
        x = x.flatten(2).transpose(1, 2)
        x = x.reshape(len(x), -1, 8)
        return self.attention(x, x, x)[0]


def watched(part: int = 0, passes: int = 1) -> tuple[Net, ForwardWatch]:
    torch.manual_seed(0)
    model = Net().double()
    watch = ForwardWatch(model, part)
    images = [torch.arange(72.0, dtype=torch.float64).reshape(2, 1, 6, 6) / 7 + number for number in range(passes)]
    with watch.watching():
        for x in images:
            model(x).square().mean().backward()
    return model, watch


def ops(watch, kind):
    return [(number, op) for number, (op, _) in enumerate(watch.passed) if op.kind == kind]


def test_each_function_is_kept_with_its_module_its_weights_and_what_it_takes():
    model, watch = watched()
    (bare, plain), (number, conv) = *ops(watch, "conv2d without bias"), *ops(watch, "conv2d")
    assert (plain.name, plain.weights, plain.attributes["module"]) == ("conv", ["conv.weight"], "Conv2d")
    assert (conv.name, conv.weights, conv.inputs) == ("conv", ["conv.bias"], [bare])
    bias = model.conv.bias.detach().numpy()[:, None, None]
    np.testing.assert_allclose(watch.passed[bare][1] + bias, watch.passed[number][1], atol=1e-12)
    [(relu, _)] = ops(watch, "relu_")
    scaled = next(op for _, op in ops(watch, "mul") if "scale" in op.weights)
    assert (scaled.inputs, scaled.weights) == ([relu], ["scale"]), (
        "a weight is read through what is computed of it alone"
    )
    assert watch.passed[number][1].min() < 0, "what an op in place changes later was kept before"


def test_each_function_says_which_line_of_the_port_calls_it():
    _, watch = watched()
    lines = {op.kind: op.line for op, _ in watch.passed}
    assert lines["conv2d"][2:4] == (
        "forward",
        "x = F.relu(self.conv(x), inplace=True)",
    )  # not the line of torch's Conv2d
    assert lines["conv2d"] == lines["relu_"] or lines["conv2d"] == lines["relu"]
    assert lines["mean"][2:4] == ("watched", "model(x).square().mean().backward()")
    assert lines["conv2d"].file.endswith("test_forward.py") and lines["conv2d"].line == lines["softmax"].line - 4


def test_each_function_says_what_it_takes():
    model, watch = watched()
    (number, conv) = ops(watch, "conv2d without bias")[0]
    image, kernel = conv.operands
    assert (image.op, kernel.name, kernel.shape) == (None, "conv.weight", [2, 1, 3, 3])
    np.testing.assert_array_equal(kernel.value, model.conv.weight.detach().numpy())
    biased = ops(watch, "conv2d")[0][1]
    assert (biased.operands[0].op, biased.operands[0].value, biased.operands[1].name) == (number, None, "conv.bias")
    relu = next(op for op, _ in watch.passed if op.kind.startswith("relu"))  # in place
    assert relu.operands[0].shape == [2, 2, 4, 4]
    assert [op.kind for op, _ in watch.passed if op.attributes.get("loss")] == ["mean"]


def test_what_was_laid_out_anew_says_by_which_function_and_line():
    _, watch = watched()
    taken = next(op for op, _ in watch.passed if op.name.startswith("attention") and op.operands).operands[0]
    assert (taken.laid_out.kind, taken.laid_out.name, taken.laid_out.line.file.endswith("test_forward.py")) in [
        ("reshape", "", True),
        ("transpose", "attention", True),
    ]
    scaled = next(op for _, op in ops(watch, "mul") if "scale" in op.weights)
    assert scaled.operands[0].laid_out is None


def test_functions_of_torch_are_seen_as_what_they_consist_of():
    _, watch = watched()
    kinds = {op.kind for op, _ in watch.passed if op.name == "attention"}
    assert kinds & {"softmax", "scaled_dot_product_attention"}
    read = {name for op, _ in watch.passed for name in op.weights}
    assert {"attention.in_proj_weight", "attention.in_proj_bias"} <= read
    assert any(op.name == "attention.out_proj" or "attention.out_proj.weight" in op.weights for op, _ in watch.passed)
    assert F.has_torch_function_unary(torch.zeros(1)) is False, "torch is as it was"


def test_the_pass_ends_where_its_backward_begins():
    _, once = watched(part=0, passes=2)
    _, second = watched(part=1, passes=2)
    assert [op.kind for op, _ in once.passed] == [op.kind for op, _ in second.passed]
    assert once.passed[-1][0].kind == "mean"
    assert not np.array_equal(once.passed[0][1], second.passed[0][1])


class Joined(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.fc(x).tanh()
        return (y * y.view(-1, 3).exp()).sum() + 0 * y.detach().sum() + self.fc.weight.sum() * y.mean()


def joined_loss(watch_of, model):
    x = torch.arange(6.0, dtype=torch.float64).reshape(2, 3) / 7
    model.zero_grad()
    watch = watch_of(model)
    with watch.watching():
        model(x).backward()
    return watch


def test_gradients_are_kept_in_place_of_outputs():
    torch.manual_seed(0)
    model = Joined().double()
    outputs = joined_loss(ForwardWatch, model).passed
    found = joined_loss(lambda model: ForwardWatch(model, gradients=True), model).passed
    # Of what ops take nothing is copied there, and the two were called from different lines of this test.
    assert [op[:6] for op, _ in found] == [op[:6] for op, _ in outputs]
    values = {op.kind: (value, gradient) for (op, value), (_, gradient) in zip(outputs, found, strict=True)}
    y, of_y = values["tanh"]
    np.testing.assert_allclose(of_y, np.exp(y) * (1 + y) + float(model.fc.weight.detach().sum()) / 6, rtol=1e-12)
    np.testing.assert_allclose(values["exp"][1], y, rtol=1e-12)
    assert values["linear without bias"][1] is None


def test_what_some_functions_take_is_detached():
    torch.manual_seed(0)
    model = Joined().double()
    plain = joined_loss(ForwardWatch, model)
    whole = model.fc.weight.grad.clone()
    numbers = {op.kind: number for number, (op, _) in enumerate(plain.passed)}
    joined_loss(lambda model: ForwardWatch(model, detached=[(numbers["exp"], numbers["tanh"])]), model)
    y = model.fc(torch.arange(6.0, dtype=torch.float64).reshape(2, 3) / 7).tanh()
    wanted = torch.autograd.grad((y * y.exp().detach()).sum() + model.fc.weight.sum() * y.mean(), model.fc.weight)[0]
    torch.testing.assert_close(model.fc.weight.grad, wanted)
    [reading] = [n for n, (op, _) in enumerate(plain.passed) if op.weights == ["fc.weight"] and op.kind == "mul"]
    joined_loss(lambda model: ForwardWatch(model, detached=[(reading, "fc.weight")]), model)
    torch.testing.assert_close(model.fc.weight.grad, whole - float(y.detach().mean()) * torch.ones_like(whole))


def test_shapes_made_the_same_by_torch_leave_each_tensor_what_it_comes_of():
    torch.manual_seed(0)
    model = nn.Linear(3, 3).double()
    x, target = torch.rand(2, 3, dtype=torch.float64), torch.rand(3, dtype=torch.float64)
    watch = ForwardWatch(model)
    with watch.watching():
        torch.distributions.Normal(model(x).tanh(), target.exp()).log_prob(x).sum().backward()
    kinds = [op.kind for op, _ in watch.passed]
    [(wide, expanded)] = ops(watch, "expand")
    [(tanh, _)], [(scale, _)] = ops(watch, "tanh"), ops(watch, "exp")
    assert "broadcast_tensors" not in kinds and expanded.inputs == [scale], kinds
    np.testing.assert_array_equal(watch.passed[wide][1], np.broadcast_to(target.exp(), (2, 3)))
    taken = {number for op, _ in watch.passed for number in op.inputs}
    assert {tanh, wide} <= taken, "what has the shape already is taken as it is"


@pytest.mark.parametrize(("columns", "kept"), [(2, True), (3, False)])
def test_an_operand_beyond_the_limit_is_kept_only_where_it_is_an_output(monkeypatch, columns, kept):
    monkeypatch.setattr(forward_watch, "MOST_KEPT_OF_AN_OPERAND", 4)
    model = nn.Linear(2, columns, bias=False).double()
    x, watch = torch.ones(2, 2, dtype=torch.float64), ForwardWatch(model)
    with watch.watching():
        model(x).tanh().sum().backward()
    [(product, linear)], [(_, tanh)] = ops(watch, "linear"), ops(watch, "tanh")
    image, weight = linear.operands
    np.testing.assert_array_equal(image.value, np.ones((2, 2)))
    assert (weight.name, weight.shape, weight.op) == ("weight", [columns, 2], None)
    assert (weight.value is not None) is kept
    assert (tanh.operands[0].op, tanh.operands[0].value) == (product, None)


@pytest.mark.on_cpu("shares its memory with numpy")
def test_an_output_that_was_changed_unseen_is_kept_as_it_is_taken(monkeypatch):
    monkeypatch.setattr(forward_watch, "MOST_KEPT_OF_AN_OPERAND", 1)
    model = nn.Linear(2, 2, bias=False).double()
    x, watch = torch.ones(2, 2, dtype=torch.float64), ForwardWatch(model)
    with watch.watching():
        made = model(x)
        made.detach().numpy()[:] = 7.0
        made.tanh().sum().backward()
    [(_, tanh)] = ops(watch, "tanh")
    np.testing.assert_array_equal(tanh.operands[0].value, np.full((2, 2), 7.0))


def test_a_pass_ends_at_the_output_that_is_named():
    weight, x = nn.Parameter(torch.ones(3)), torch.arange(3.0)
    watch = ForwardWatch(nn.ParameterList([weight]))
    with watch.watching():
        other = (weight * x).exp().sum()
        (weight * x).tanh().mean().backward()
    assert [op.kind for op, _ in watch.passed if op.attributes.get("loss")] == ["mean"]
    watch.ends_at(other)
    assert [op.kind for op, _ in watch.passed if op.attributes.get("loss")] == ["sum"]
    watch.ends_at(torch.ones(()))
    assert [op.kind for op, _ in watch.passed if op.attributes.get("loss")] == ["sum"], "of no op"


@pytest.mark.parametrize("how", ["expand_as", "type_as", "view_as", "reshape_as"])
def test_of_what_only_gives_its_shape_or_dtype_nothing_is_computed(how):
    weight, mask = nn.Parameter(torch.ones(2, 3)), torch.ones(2, 1 if how == "expand_as" else 3).neg()
    watch = ForwardWatch(nn.ParameterList([weight]))
    with watch.watching():
        shaped = weight * torch.arange(3.0)
        (getattr(mask.abs(), how)(shaped) + 1).square().sum().add(shaped.sum()).backward()
    (added,) = [op for op, _ in watch.passed if op.kind == "add" and op.shape == [2, 3]]
    behind, pending = set(), list(added.inputs)
    while pending:
        behind.add(each := pending.pop())
        pending += watch.passed[each][0].inputs
    assert all(not watch.passed[each][0].weights for each in behind)


def test_a_sparse_matrix_is_known_as_the_dense_one_and_a_huge_one_not_at_all():
    class Graph(nn.Module):
        def __init__(self, size: int) -> None:
            super().__init__()
            self.size, self.weight = size, nn.Parameter(torch.ones(size, 1, dtype=torch.float64))

        def forward(self, at: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
            return torch.sparse.mm(torch.sparse_coo_tensor(at, values, (self.size, self.size)), self.weight)

    at, values = torch.tensor([[0, 1, 1], [1, 0, 2]]), torch.tensor([2.0, 3.0, 4.0], dtype=torch.float64)
    for size in (3, 1 << 14):
        model = Graph(size)
        watch = ForwardWatch(model)
        with watch.watching():
            model(at, values).sum().backward()
        [product] = [each for op, each in watch.passed if "mm" in op.kind]
        np.testing.assert_array_equal(product[:3, 0], [2.0, 7.0, 0.0])
        [made] = [each for op, each in watch.passed if op.kind == "sparse_coo_tensor"]
        if size == 3:
            np.testing.assert_array_equal(made, [[0.0, 2.0, 0.0], [3.0, 0.0, 4.0], [0.0, 0.0, 0.0]])
        else:
            assert made is None
