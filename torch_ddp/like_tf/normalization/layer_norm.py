"""Layer normalisation over everything but the batch."""

from torch import Tensor, nn


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
    output = nn.functional.layer_norm(x, x.shape[1:], eps=eps)
    shape = (-1, *[1] * (x.dim() - 2))
    if weight is not None:
        output = output * weight.reshape(shape)
    return output if bias is None else output + bias.reshape(shape)
