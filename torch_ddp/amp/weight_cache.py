"""Half copies of float32 weights, made once per iteration however often a weight is used."""

from typing import NamedTuple

import torch


class _Cast(NamedTuple):
    weight: torch.Tensor
    version: int
    address: int
    half: torch.Tensor


class WeightCache:
    """Casts weights to the half dtype and keeps the copies until `clear`.

    One copy per iteration saves the casts and sums the gradients of all uses in half precision, as Apex does. A copy
    is made anew where the weight has been written to since, and where it was made without a graph (in evaluation)
    and is now needed with one.
    """

    def __init__(self, half: torch.dtype) -> None:
        self.half = half
        self._casts: dict[int, _Cast] = {}

    def clear(self) -> None:
        """Forgets every copy."""
        self._casts.clear()

    def cast(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns the tensor in the half dtype, from the cache where it is a float32 weight."""
        if tensor.dtype is self.half:
            return tensor
        # A compiled graph casts anew, and its compiler shares the casts. A copy made in inference mode could not be
        # saved for a backward pass later.
        if torch.compiler.is_compiling() or not _is_weight(tensor) or torch.is_inference_mode_enabled():
            return tensor.to(self.half)
        kept = self._casts.get(id(tensor))
        if kept is None or not _still_good(kept, tensor):
            kept = _Cast(tensor, tensor._version, tensor.data_ptr(), tensor.to(self.half))
            self._casts[id(tensor)] = kept
        return kept.half


def _is_weight(tensor: torch.Tensor) -> bool:
    return tensor.dtype is torch.float32 and isinstance(tensor, torch.nn.Parameter) and tensor.is_leaf


def _still_good(kept: _Cast, tensor: torch.Tensor) -> bool:
    if (kept.version, kept.address) != (tensor._version, tensor.data_ptr()):
        return False
    needed = tensor.requires_grad and torch.is_grad_enabled()
    return not needed or kept.half.requires_grad
