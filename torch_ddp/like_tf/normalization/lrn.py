"""Local response normalisation over neighbouring channels."""

import torch.nn.functional as F
from torch import Tensor


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
    size = 2 * depth_radius + 1
    return F.local_response_norm(x, size, alpha * size, beta, bias)
