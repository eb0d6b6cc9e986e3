"""Layer norm, l2 normalisation and local response normalisation as TensorFlow computes them."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torch_ddp.like_tf.arguments import also_named
from torch_ddp.like_tf.errors import LikeTfError


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


@also_named(epsilon="eps")
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


@also_named(gamma="weight", beta="bias", epsilon="eps")
def group_norm(
    x: Tensor, groups: int = 32, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-6
) -> Tensor:
    """Normalises each group of neighbouring channels of each example over its space, then scales and shifts per channel.

    torch's epsilon is 1e-5. Source: tensorflow/contrib/layers/python/layers/normalization.py, 1.15.

    Args:
        x: shape [batch, channels, *space].
        groups: how many; divides the channels.
        weight: gamma, shape [channels], or None.
        bias: beta, shape [channels], or None.
        eps: added to the variance.

    Returns:
        The shape of ``x``.

    Raises:
        LikeTfError: the groups do not divide the channels.

    Counterpart: tf.contrib.layers.group_norm.
    """
    if groups < 1 or x.shape[1] % groups:
        raise LikeTfError(
            f"group_norm: expected groups that divide {x.shape[1]} channels, got {groups}. Take a divisor of them."
        )
    return _normalised_groups(x, groups, weight, bias, eps)


@also_named(gamma="weight", beta="bias", epsilon="eps")
def instance_norm(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-6) -> Tensor:
    """Normalises each channel of each example over its space, then scales and shifts per channel.

    A space of one element gives the bias, where torch raises; torch's epsilon is 1e-5. Source:
    tensorflow/contrib/layers/python/layers/normalization.py, 1.15.

    Args:
        x: shape [batch, channels, *space].
        weight: gamma, shape [channels], or None.
        bias: beta, shape [channels], or None.
        eps: added to the variance.

    Returns:
        The shape of ``x``.

    Counterpart: tf.contrib.layers.instance_norm.
    """
    return _normalised_groups(x, x.shape[1], weight, bias, eps)


def _normalised_groups(x: Tensor, groups: int, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    # Not F.group_norm, which refuses a single element for each channel.
    grouped = x.reshape(x.shape[0], groups, -1)
    variance, mean = torch.var_mean(grouped, 2, correction=0, keepdim=True)
    output = ((grouped - mean) * (variance + eps).rsqrt()).reshape(x.shape)
    shape = (-1, *[1] * (x.dim() - 2))
    if weight is not None:
        output = output * weight.reshape(shape)
    return output if bias is None else output + bias.reshape(shape)


@also_named(axis="dim", epsilon="eps")
def l2_normalize(x: Tensor, dim: int | tuple[int, ...], eps: float = 1e-12) -> Tensor:
    """Scales to unit length: ``x * rsqrt(max(sum(x * x), eps))``.

    torch's ``normalize`` has its floor under the length and not under its square: vectors shorter than 1e-6 come out
    otherwise. Source: l2_normalize_v2 in tensorflow/python/ops/nn_impl.py, 1.15.

    Args:
        x: any shape.
        dim: one axis or more to sum over.
        eps: least sum of squares.

    Returns:
        The shape of ``x``.

    Counterpart: tf.compat.v1.nn.l2_normalize.
    """
    # The floor of 1e-12 is one of 1e-6 for lengths: a vector of length 1e-7 gets the length 0.1 here, and 1 from
    # torch.
    squares = x.square().sum(dim, keepdim=True)
    floor = torch.full_like(squares, eps)
    # TensorFlow's maximum gives a tie to its first argument, torch's halves it.
    return x * torch.where(squares >= floor, squares, floor).rsqrt()
