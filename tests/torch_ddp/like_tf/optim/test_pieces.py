import numpy as np
import pytest
import torch

from torch_ddp import like_tf
from torch_ddp.like_tf.graph_scalar import kernel_scalar
from torch_ddp.like_tf.optim import pieces as pieces_module
from torch_ddp.like_tf.optim.pieces import pieces

SHAPES = [(), (1,), (3,), (7, 5), (0,), (2, 3, 5, 4), (517,)]


def adam_by_single_operations(w, m, v, g, powers, dtype):
    """One step of Adam as TensorFlow's kernel writes it, each operation rounded by itself."""
    lr, beta1, beta2, epsilon = (kernel_scalar(x, dtype) for x in (0.001, 0.9, 0.999, 1e-8))
    one = kernel_scalar(1.0, dtype)
    m = m + (g - m) * (one - beta1)
    v = v + (g * g - v) * (one - beta2)
    alpha = lr * (one - kernel_scalar(powers[1], dtype)).sqrt() / (one - kernel_scalar(powers[0], dtype))
    return w - (m * alpha) / (v.sqrt() + epsilon), m, v


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("piece", [262_144, 64])
def test_adam_rounds_every_operation_by_itself_in_whatever_pieces(dtype, piece, monkeypatch):
    monkeypatch.setattr(pieces_module, "PIECE", piece)
    monkeypatch.setattr(pieces_module, "FOR_A_THREAD", 1)
    start = [torch.randn(shape, dtype=torch.float64).to(dtype) for shape in SHAPES]
    parameters = [torch.nn.Parameter(w.clone()) for w in start]
    parameters[5].data = parameters[5].data.to(memory_format=torch.channels_last)
    adam = like_tf.Adam(parameters)
    want = [(w, torch.zeros_like(w), torch.zeros_like(w)) for w in start]
    powers = [np.float32(0.9), np.float32(0.999)]
    for step in range(5):
        for index, parameter in enumerate(parameters):
            grad = (torch.randn(parameter.shape, dtype=torch.float64) * 10.0**-step).to(dtype)
            parameter.grad = grad
            want[index] = adam_by_single_operations(*want[index], grad, powers, dtype)
        adam.step()
        powers = [powers[0] * np.float32(0.9), powers[1] * np.float32(0.999)]
    for parameter, (w, m, v) in zip(parameters, want, strict=True):
        assert torch.equal(parameter, w)
        assert torch.equal(adam.state[parameter]["m"], m)
        assert torch.equal(adam.state[parameter]["v"], v)


@pytest.mark.parametrize("name", ["GradientDescent", "Momentum", "RMSProp", "Adagrad", "Adadelta", "Ftrl", "Adam"])
def test_pieces_change_no_bit_and_no_gradient(name, monkeypatch):
    start = [torch.randn(shape, dtype=torch.float32) for shape in SHAPES]
    grads = [[torch.randn(shape) for shape in SHAPES] for _ in range(3)]
    ends = []
    for piece in (262_144, 64, 7):
        monkeypatch.setattr(pieces_module, "PIECE", piece)
        monkeypatch.setattr(pieces_module, "FOR_A_THREAD", 1)
        parameters = [torch.nn.Parameter(w.clone()) for w in start]
        optimizer = getattr(like_tf, name)(parameters, lr=0.1)
        for row in grads:
            for parameter, grad in zip(parameters, row, strict=True):
                parameter.grad = grad.clone()
            optimizer.step()
            assert all(torch.equal(p.grad, grad) for p, grad in zip(parameters, row, strict=True))
        ends.append(parameters)
    for first, *others in zip(*ends, strict=True):
        assert all(torch.equal(first, other) for other in others)


def _sizes(counts, monkeypatch, contiguous=True):
    monkeypatch.setattr(pieces_module, "PIECE", 100)
    monkeypatch.setattr(pieces_module, "FOR_A_THREAD", 1)
    shaped = torch.zeros if contiguous else lambda count, _: torch.zeros(count).expand(2, -1)
    rows = [(shaped(count, 1), shaped(count, 1)) for count in counts]
    return [[row[0].numel() for row in piece] for piece in pieces(rows)]


@pytest.mark.on_cpu("pieces are of a CPU's cache")
def test_small_parameters_are_joined_up_to_a_piece_and_large_ones_cut(monkeypatch):
    assert _sizes([60, 40, 1, 99, 1], monkeypatch) == [[60, 40], [1, 99], [1]]
    assert _sizes([10, 250, 10], monkeypatch) == [[100], [100], [50], [10, 10]]
    assert _sizes([100], monkeypatch) == [[100]]
    assert _sizes([101], monkeypatch) == [[100], [1]]
    assert _sizes([], monkeypatch) == []


def test_a_parameter_whose_elements_are_not_in_a_row_is_not_cut(monkeypatch):
    assert _sizes([150], monkeypatch, contiguous=False) == [[300]]


def test_a_learning_rate_that_is_a_tensor_is_read_in_every_step():
    parameter = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
    rate = torch.tensor(1.0)
    optimizer = like_tf.GradientDescent([parameter], lr=1.0)
    optimizer.param_groups[0]["lr"] = rate
    parameter.grad = torch.ones(1, dtype=torch.float64)
    optimizer.step()
    rate.fill_(0.5)
    optimizer.step()
    assert parameter.item() == -1.5
