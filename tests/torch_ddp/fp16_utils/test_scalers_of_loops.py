"""The loss scalers of loops written by hand."""

import pytest
import torch

from torch_ddp.fp16_utils import DynamicLossScaler, LossScaler


def reference(init, factor, window, overflows):
    """Yields the scales, by apex/fp16_utils/loss_scaler.py, 25.04, written out."""
    scale, last = init, -1
    for iteration, overflow in enumerate(overflows):
        if overflow:
            scale, last = max(scale / factor, 1), iteration
        elif (iteration - last) % window == 0:
            scale *= factor
        yield scale


@pytest.mark.parametrize("window", [1, 3, 10])
@pytest.mark.parametrize("rate", [0.0, 0.1, 0.6])
def test_the_scale_moves_as_in_apex(rate, window):
    overflows = (torch.rand(900) < rate).tolist()  # without one, 2^905: within float64
    scaler = DynamicLossScaler(init_scale=2**5, scale_factor=2.0, scale_window=window)
    scales = []
    for overflow in overflows:
        scaler.update_scale(overflow)
        scales.append(scaler.loss_scale)
    assert scales == list(reference(2**5, 2.0, window, overflows))


@pytest.mark.parametrize(
    ("grad", "overflows"), [(1e30, False), (float("inf"), True), (float("nan"), True), (None, False)]
)
def test_an_overflow_is_seen_in_any_gradient(grad, overflows):
    params = [torch.zeros(2, requires_grad=True) for _ in range(2)]
    params[0].grad = torch.ones(2)
    params[1].grad = None if grad is None else torch.tensor([0.0, grad])
    assert DynamicLossScaler().has_overflow(params) is overflows
    assert LossScaler(4).has_overflow(params) is False


@pytest.mark.parametrize("scaler", [LossScaler(4.0), DynamicLossScaler(4.0)])
def test_backward_and_the_hook_multiply(scaler):
    x = torch.ones(2, requires_grad=True)
    scaler.backward((3 * x).sum())
    assert torch.equal(x.grad, torch.full((2,), 12.0))
    assert torch.equal(scaler.scale_gradient(None, (torch.ones(1),), None)[0], torch.full((1,), 4.0))
    scaler.update_scale(False)
    assert LossScaler(4.0).loss_scale == 4.0
