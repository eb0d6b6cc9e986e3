"""Initial values with TensorFlow's distributions; the numbers themselves come from torch's generator."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from torch_ddp.like_tf.arguments import also_named
from torch_ddp.like_tf.errors import LikeTfError

# Standard deviation of a unit normal that is cut at two sigma; the constant of tensorflow/python/ops/init_ops.py, 1.15.
TRUNCATED_STDDEV = 0.87962566103423978


@also_named(stddev="std")
def truncated_normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    """Fills a tensor from a normal distribution that is cut at two standard deviations.

    The standard deviation of the result is ``0.88 * std``, as in TensorFlow. Source: tf.truncated_normal, 1.15.

    Args:
        tensor: any shape, floating point; changed in place.
        mean: centre of the distribution.
        std: standard deviation before the cut.

    Returns:
        The tensor.

    Counterpart: tf.compat.v1.truncated_normal_initializer.
    """
    # The limits are absolute numbers to torch, -2 and 2 by default whatever the deviation.
    return torch.nn.init.trunc_normal_(tensor, mean, std, mean - 2 * std, mean + 2 * std)


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


def he_uniform_(tensor: Tensor) -> Tensor:
    """Fills a tensor uniformly with variance ``2 / fan_in``.

    Args:
        tensor: shape [out, in, ...].

    Returns:
        The tensor.

    Counterpart: tf.compat.v1.keras.initializers.he_uniform.
    """
    return variance_scaling_(tensor, 2.0, "fan_in", "uniform")


def lecun_normal_(tensor: Tensor) -> Tensor:
    """Fills a tensor from a truncated normal with variance ``1 / fan_in``.

    Args:
        tensor: shape [out, in, ...].

    Returns:
        The tensor.

    Counterpart: tf.compat.v1.keras.initializers.lecun_normal.
    """
    return variance_scaling_(tensor, 1.0, "fan_in", "truncated_normal")


def lecun_uniform_(tensor: Tensor) -> Tensor:
    """Fills a tensor uniformly with variance ``1 / fan_in``.

    Args:
        tensor: shape [out, in, ...].

    Returns:
        The tensor.

    Counterpart: tf.compat.v1.keras.initializers.lecun_uniform.
    """
    return variance_scaling_(tensor, 1.0, "fan_in", "uniform")


def orthogonal_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Fills a tensor with a matrix whose rows or columns, the fewer of them, are orthonormal, times ``gain``.

    The matrix is TensorFlow's [all other axes, last axis]: of a convolution [height * width * in, out]. It is the q of
    the QR decomposition of a normal draw, with r's diagonal made positive. Source: Orthogonal in
    tensorflow/python/ops/init_ops.py, 1.15.

    Args:
        tensor: shape [out, in, ...] as torch keeps kernels, at least two axes.
        gain: multiplies the matrix.

    Returns:
        The tensor.

    Raises:
        LikeTfError: there are less than two axes.

    Counterpart: tf.compat.v1.orthogonal_initializer.
    """
    if tensor.dim() < 2:
        raise LikeTfError(
            f"orthogonal_: expected at least two axes, got shape {tuple(tensor.shape)}. Take another initializer."
        )
    # [out, height, width, in], so that what is flattened is TensorFlow's kernel, transposed.
    axes = [0, *range(2, tensor.dim()), 1]
    shape = [tensor.shape[axis] for axis in axes]
    columns, rows = shape[0], math.prod(shape[1:])
    draw = torch.randn(max(rows, columns), min(rows, columns), dtype=tensor.dtype, device=tensor.device)
    q, r = torch.linalg.qr(draw)
    q = q * r.diagonal().sign()
    # TensorFlow's [rows, columns]; q is the taller of it and its transpose.
    kernel = q if rows >= columns else q.T
    back = [axes.index(axis) for axis in range(tensor.dim())]
    with torch.no_grad():
        tensor.copy_((gain * kernel.T).reshape(shape).permute(back))
    return tensor


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
