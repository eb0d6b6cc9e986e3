"""Layer norm and root mean square norm under Apex's names, by torch's kernels.

Statistics are taken in float32 at least. The plain forms return the dtype of the input, the mixed ones that of the
weight, as the kernels do.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = [
    "FusedLayerNorm",
    "FusedRMSNorm",
    "MixedFusedLayerNorm",
    "MixedFusedRMSNorm",
    "fused_layer_norm",
    "fused_layer_norm_affine",
    "fused_rms_norm",
    "fused_rms_norm_affine",
    "manual_rms_norm",
    "mixed_dtype_fused_layer_norm_affine",
    "mixed_dtype_fused_rms_norm_affine",
]

Shape = int | Sequence[int]


def _listed(shape: Shape) -> list[int]:
    return [shape] if isinstance(shape, int) else list(shape)


def _wide(x: Tensor) -> Tensor:
    # Shape of x; float32 of half, whose squares overflow from 256 on.
    return x if x.dtype in (torch.float32, torch.float64) else x.float()


def _layer_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, shape: Shape, eps: float) -> Tensor:
    wide = _wide(x)
    cast = [None if one is None else one.to(wide.dtype) for one in (weight, bias)]
    return F.layer_norm(wide, _listed(shape), cast[0], cast[1], eps)


def _rms_norm(x: Tensor, weight: Tensor | None, shape: Shape, eps: float) -> Tensor:
    wide = _wide(x)
    return F.rms_norm(wide, _listed(shape), None if weight is None else weight.to(wide.dtype), eps)


def fused_layer_norm(
    input: Tensor, normalized_shape: Shape, eps: float = 1e-6, memory_efficient: bool = False
) -> Tensor:
    """Returns ``(x - mean) / sqrt(variance + eps)`` over the last axes, in the dtype of the input.

    Args:
        input: any shape that ends in `normalized_shape`.
        normalized_shape: sizes of the last axes.
        eps: added to the variance.
        memory_efficient: no effect: torch keeps the input.

    Counterpart: apex.normalization.fused_layer_norm.fused_layer_norm
    """
    return _layer_norm(input, None, None, normalized_shape, eps).to(input.dtype)


def fused_layer_norm_affine(
    input: Tensor,
    weight: Tensor,
    bias: Tensor,
    normalized_shape: Shape,
    eps: float = 1e-6,
    memory_efficient: bool = False,
) -> Tensor:
    """Returns the layer norm times a weight plus a bias, in the dtype of the input.

    Args:
        input: any shape that ends in `normalized_shape`.
        weight: of that shape.
        bias: of that shape.
        normalized_shape: sizes of the last axes.
        eps: added to the variance.
        memory_efficient: no effect.

    Counterpart: apex.normalization.fused_layer_norm.fused_layer_norm_affine
    """
    return _layer_norm(input, weight, bias, normalized_shape, eps).to(input.dtype)


def mixed_dtype_fused_layer_norm_affine(
    input: Tensor,
    weight: Tensor,
    bias: Tensor,
    normalized_shape: Shape,
    eps: float = 1e-6,
    memory_efficient: bool = False,
) -> Tensor:
    """Returns the layer norm times a weight plus a bias, in the dtype of the weight.

    Args:
        input: any shape that ends in `normalized_shape`.
        weight: of that shape.
        bias: of that shape.
        normalized_shape: sizes of the last axes.
        eps: added to the variance.
        memory_efficient: no effect.

    Counterpart: apex.normalization.fused_layer_norm.mixed_dtype_fused_layer_norm_affine
    """
    return _layer_norm(input, weight, bias, normalized_shape, eps).to(weight.dtype)


def fused_rms_norm(input: Tensor, normalized_shape: Shape, eps: float = 1e-6, memory_efficient: bool = False) -> Tensor:
    """Returns ``x / sqrt(mean(x^2) + eps)`` over the last axes, in the dtype of the input.

    Args:
        input: any shape that ends in `normalized_shape`.
        normalized_shape: sizes of the last axes.
        eps: added to the mean of squares.
        memory_efficient: no effect.

    Counterpart: apex.normalization.fused_layer_norm.fused_rms_norm
    """
    return _rms_norm(input, None, normalized_shape, eps).to(input.dtype)


def fused_rms_norm_affine(
    input: Tensor, weight: Tensor, normalized_shape: Shape, eps: float = 1e-6, memory_efficient: bool = False
) -> Tensor:
    """Returns the root mean square norm times a weight, in the dtype of the input.

    Args:
        input: any shape that ends in `normalized_shape`.
        weight: of that shape.
        normalized_shape: sizes of the last axes.
        eps: added to the mean of squares.
        memory_efficient: no effect.

    Counterpart: apex.normalization.fused_layer_norm.fused_rms_norm_affine
    """
    return _rms_norm(input, weight, normalized_shape, eps).to(input.dtype)


def mixed_dtype_fused_rms_norm_affine(
    input: Tensor, weight: Tensor, normalized_shape: Shape, eps: float = 1e-6, memory_efficient: bool = False
) -> Tensor:
    """Returns the root mean square norm times a weight, in the dtype of the weight.

    Args:
        input: any shape that ends in `normalized_shape`.
        weight: of that shape.
        normalized_shape: sizes of the last axes.
        eps: added to the mean of squares.
        memory_efficient: no effect.

    Counterpart: apex.normalization.fused_layer_norm.mixed_dtype_fused_rms_norm_affine
    """
    return _rms_norm(input, weight, normalized_shape, eps).to(weight.dtype)


def manual_rms_norm(input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, eps: float) -> Tensor:
    """Returns the root mean square norm written out; half inputs give float32 where a half weight does not cast them.

    Args:
        input: any shape that ends in `normalized_shape`.
        normalized_shape: sizes of the last axes.
        weight: of that shape, or None.
        eps: added to the mean of squares.

    Counterpart: apex.normalization.fused_layer_norm.manual_rms_norm
    """
    axes = tuple(range(-len(normalized_shape), 0))
    normal = input * torch.rsqrt(input.float().pow(2).mean(axes, keepdim=True) + eps)
    if weight is None:
        return normal
    return weight * (normal.to(weight.dtype) if weight.dtype.itemsize == 2 else normal)


class FusedLayerNorm(nn.Module):
    """Layer norm over the last axes; a half input gives a half output beside float32 weights too.

    Args:
        normalized_shape: sizes of the last axes.
        eps: added to the variance.
        elementwise_affine: whether it has a weight and a bias.
        memory_efficient: no effect.

    Counterpart: apex.normalization.FusedLayerNorm
    """

    weight: nn.Parameter | None
    bias: nn.Parameter | None

    def __init__(
        self,
        normalized_shape: Shape,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        memory_efficient: bool = False,
    ) -> None:
        super().__init__()
        self.normalized_shape = torch.Size(_listed(normalized_shape))
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self.memory_efficient = memory_efficient
        for name in ("weight", "bias"):
            own = nn.Parameter(torch.empty(self.normalized_shape)) if elementwise_affine else None
            self.register_parameter(name, own)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets the weight to ones and the bias to zeros."""
        if self.weight is not None and self.bias is not None:
            nn.init.ones_(self.weight)
            nn.init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """Returns the norm, in the dtype of the input."""
        return _layer_norm(input, self.weight, self.bias, self.normalized_shape, self.eps).to(input.dtype)

    def extra_repr(self) -> str:
        """Returns the arguments."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class FusedRMSNorm(nn.Module):
    """Root mean square norm over the last axes.

    Args:
        normalized_shape: sizes of the last axes.
        eps: added to the mean of squares.
        elementwise_affine: whether it has a weight.
        memory_efficient: no effect.

    Counterpart: apex.normalization.FusedRMSNorm
    """

    weight: nn.Parameter | None

    def __init__(
        self,
        normalized_shape: Shape,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        memory_efficient: bool = False,
    ) -> None:
        super().__init__()
        self.normalized_shape = torch.Size(_listed(normalized_shape))
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self.memory_efficient = memory_efficient
        self.register_parameter(
            "weight", nn.Parameter(torch.empty(self.normalized_shape)) if elementwise_affine else None
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets the weight to ones."""
        if self.weight is not None:
            nn.init.ones_(self.weight)

    def forward(self, input: Tensor) -> Tensor:
        """Returns the norm, in the dtype of the input."""
        return _rms_norm(input, self.weight, self.normalized_shape, self.eps).to(input.dtype)

    def extra_repr(self) -> str:
        """Returns the arguments."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


def _affine_alone(kwargs: dict[str, Any], who: str) -> None:
    if not kwargs.get("elementwise_affine", True):
        # RuntimeError, as there.
        raise RuntimeError(f"{who}: expected elementwise_affine=True, got False. Use the plain form.")


class MixedFusedLayerNorm(FusedLayerNorm):
    """Layer norm that returns the dtype of its weight.

    Args:
        normalized_shape: sizes of the last axes.
        eps: added to the variance.
        memory_efficient: no effect.
        **kwargs: elementwise_affine, which must be True.

    Raises:
        RuntimeError: it is False.

    Counterpart: apex.normalization.MixedFusedLayerNorm
    """

    def __init__(
        self, normalized_shape: Shape, eps: float = 1e-5, *, memory_efficient: bool = False, **kwargs: Any
    ) -> None:
        _affine_alone(kwargs, "MixedFusedLayerNorm")
        super().__init__(normalized_shape, eps, True, memory_efficient)

    def forward(self, input: Tensor) -> Tensor:
        """Returns the norm, in the dtype of the weight."""
        assert self.weight is not None
        return _layer_norm(input, self.weight, self.bias, self.normalized_shape, self.eps).to(self.weight.dtype)


class MixedFusedRMSNorm(FusedRMSNorm):
    """Root mean square norm that returns the dtype of its weight.

    Args:
        normalized_shape: sizes of the last axes.
        eps: added to the mean of squares.
        memory_efficient: no effect.
        **kwargs: elementwise_affine, which must be True.

    Raises:
        RuntimeError: it is False.

    Counterpart: apex.normalization.MixedFusedRMSNorm
    """

    def __init__(
        self, normalized_shape: Shape, eps: float = 1e-5, *, memory_efficient: bool = False, **kwargs: Any
    ) -> None:
        _affine_alone(kwargs, "MixedFusedRMSNorm")
        super().__init__(normalized_shape, eps, True, memory_efficient)

    def forward(self, input: Tensor) -> Tensor:
        """Returns the norm, in the dtype of the weight."""
        assert self.weight is not None
        return _rms_norm(input, self.weight, self.normalized_shape, self.eps).to(self.weight.dtype)
