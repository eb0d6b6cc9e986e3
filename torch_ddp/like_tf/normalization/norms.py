"""Layer norm, l2 normalisation and local response normalisation as TensorFlow computes them."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def local_response_normalization(
    x: Tensor, depth_radius: int = 5, bias: float = 1.0, alpha: float = 1.0, beta: float = 0.5
) -> Tensor:
    """Divides by ``(bias + alpha * sum of squares over 2 * depth_radius + 1 channels) ** beta``.

    torch divides ``alpha`` by the number of channels and has other defaults. TensorFlow has no float64 kernel. Source:
    tensorflow/core/kernels/lrn_op.cc, 1.15.

    Args:
        x: shape [batch, channels, *space].
        depth_radius: channels to either side.
        bias: positive offset.
        alpha: weight of each square.
        beta: exponent.

    Returns:
        The shape of ``x``.

    Counterpart: tf.compat.v1.nn.local_response_normalization.
    """
    # torch divides alpha by the size of the window, which the product undoes.
    size = 2 * depth_radius + 1
    return F.local_response_norm(x, size, alpha * size, beta, bias)


def layer_norm(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-12) -> Tensor:
    """Normalises each example over **all** its axes, then scales and shifts per channel.

    Source: layer_norm in tensorflow/contrib/layers/python/layers/layers.py, 1.15, with begin_norm_axis=1 and
    begin_params_axis=-1.

    Args:
        x: shape [batch, channels, *space] or [batch, channels].
        weight: gamma, shape [channels], or None.
        bias: beta, shape [channels], or None.
        eps: added to the variance.

    Returns:
        The shape of ``x``.

    Counterpart: tf.contrib.layers.layer_norm.
    """
    # Without weight and bias: torch's have the shape of all normalised axes, those of contrib are per channel.
    output = nn.functional.layer_norm(x, x.shape[1:], eps=eps)
    shape = (-1, *[1] * (x.dim() - 2))
    if weight is not None:
        output = output * weight.reshape(shape)
    return output if bias is None else output + bias.reshape(shape)


def l2_normalize(x: Tensor, axis: int | tuple[int, ...], epsilon: float = 1e-12) -> Tensor:
    """Scales to unit length: ``x * rsqrt(max(sum(x * x), epsilon))``.

    torch's ``normalize`` has its floor under the length and not under its square: vectors shorter than 1e-6 come out
    otherwise. Source: l2_normalize_v2 in tensorflow/python/ops/nn_impl.py, 1.15.

    Args:
        x: any shape.
        axis: one axis or more to sum over.
        epsilon: least sum of squares.

    Returns:
        The shape of ``x``.

    Counterpart: tf.compat.v1.nn.l2_normalize.
    """
    # The floor of 1e-12 is one of 1e-6 for lengths: a vector of length 1e-7 gets the length 0.1 here, and 1 from
    # torch.
    squares = x.square().sum(axis, keepdim=True)
    floor = torch.full_like(squares, epsilon)
    # TensorFlow's maximum gives a tie to its first argument, torch's halves it.
    return x * torch.where(squares >= floor, squares, floor).rsqrt()
