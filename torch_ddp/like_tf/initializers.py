"""Initial values with TensorFlow's distributions; the numbers themselves come from torch's generator."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from torch_ddp.like_tf.errors import LikeTfError

# Standard deviation of a unit normal that is cut at two sigma; the constant of tensorflow/python/ops/init_ops.py, 1.15.
TRUNCATED_STDDEV = 0.87962566103423978


def truncated_normal_(tensor: Tensor, mean: float = 0.0, stddev: float = 1.0) -> Tensor:
    """Fills a tensor from a normal distribution that is cut at two standard deviations.

    The standard deviation of the result is ``0.88 * stddev``, as in TensorFlow. Source: tf.truncated_normal, 1.15.

    Args:
        tensor: any shape, floating point; changed in place.
        mean: centre of the distribution.
        stddev: standard deviation before the cut.

    Returns:
        The tensor.

    Counterpart: tf.compat.v1.truncated_normal_initializer.
    """
    # The limits are absolute numbers to torch, -2 and 2 by default whatever the deviation.
    return torch.nn.init.trunc_normal_(tensor, mean, stddev, mean - 2 * stddev, mean + 2 * stddev)


def variance_scaling_(
    tensor: Tensor, scale: float = 1.0, mode: str = "fan_in", distribution: str = "truncated_normal"
) -> Tensor:
    """Fills a tensor so that its variance is ``scale / fan``.

    The truncated normal is widened so that its variance after the cut is right. Source: VarianceScaling in
    tensorflow/python/ops/init_ops.py, 1.15.

    Args:
        tensor: shape [out, in, ...] as torch keeps kernels ([in, out, ...] of a transposed convolution has the
            fans that TensorFlow counts); an embedding [rows, width] has fan_in and fan_out exchanged.
        scale: positive.
        mode: "fan_in", "fan_out" or "fan_avg".
        distribution: "truncated_normal", "untruncated_normal" or "uniform".

    Returns:
        The tensor.

    Raises:
        LikeTfError: the mode or the distribution is unknown.

    Counterpart: tf.compat.v1.variance_scaling_initializer.
    """
    fill = _FILLS.get(distribution)
    fan = _fan(tensor, mode)
    if fill is None:
        raise LikeTfError(
            f"variance_scaling_: expected a distribution of {sorted(_FILLS)}, got {distribution!r}. Name one of them."
        )
    # At least 1: a kernel without inputs would divide by 0.
    return fill(tensor, scale / max(1.0, fan))


def glorot_uniform_(tensor: Tensor) -> Tensor:
    """Fills a tensor uniformly with variance ``2 / (fan_in + fan_out)``: the default of get_variable and tf.layers.

    Args:
        tensor: shape [out, in, ...].

    Returns:
        The tensor.

    Counterpart: tf.compat.v1.glorot_uniform_initializer.
    """
    return variance_scaling_(tensor, 1.0, "fan_avg", "uniform")


def glorot_normal_(tensor: Tensor) -> Tensor:
    """Fills a tensor from a truncated normal with variance ``2 / (fan_in + fan_out)``.

    Args:
        tensor: shape [out, in, ...].

    Returns:
        The tensor.

    Counterpart: tf.compat.v1.glorot_normal_initializer.
    """
    return variance_scaling_(tensor, 1.0, "fan_avg", "truncated_normal")


def he_normal_(tensor: Tensor) -> Tensor:
    """Fills a tensor from a truncated normal with variance ``2 / fan_in``.

    Args:
        tensor: shape [out, in, ...].

    Returns:
        The tensor.

    Counterpart: tf.compat.v1.keras.initializers.he_normal.
    """
    return variance_scaling_(tensor, 2.0, "fan_in", "truncated_normal")


def _fan(tensor: Tensor, mode: str) -> float:
    if tensor.dim() < 2:
        # As _compute_fans of init_ops.py: of a vector both fans are its length, of a scalar 1.
        fan_in = fan_out = tensor.numel() if tensor.dim() else 1
    else:
        receptive_field = math.prod(tensor.shape[2:])
        # Of [out, in, *kernel]; TensorFlow multiplies the same two by the area of the kernel, its last axes.
        fan_out, fan_in = (size * receptive_field for size in tensor.shape[:2])
    fans = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}
    if mode not in fans:
        raise LikeTfError(f"variance_scaling_: expected a mode of {sorted(fans)}, got {mode!r}. Name one of them.")
    return fans[mode]


def _truncated(tensor: Tensor, variance: float) -> Tensor:
    return truncated_normal_(tensor, 0.0, math.sqrt(variance) / TRUNCATED_STDDEV)


def _normal(tensor: Tensor, variance: float) -> Tensor:
    return torch.nn.init.normal_(tensor, 0.0, math.sqrt(variance))


def _uniform(tensor: Tensor, variance: float) -> Tensor:
    # The variance of a uniform draw from -limit to limit is limit^2 / 3.
    limit = math.sqrt(3.0 * variance)
    return torch.nn.init.uniform_(tensor, -limit, limit)


_FILLS: dict[str, Callable[[Tensor, float], Tensor]] = {
    "truncated_normal": _truncated,
    "untruncated_normal": _normal,
    "uniform": _uniform,
}
