"""The functions of Apex's extension `apex_C`, by torch's own."""

from collections.abc import Sequence

from torch import Tensor
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors

__all__ = ["flatten", "unflatten"]


def flatten(tensors: Sequence[Tensor]) -> Tensor:
    """Returns all elements of the tensors in one, shape [elements].

    Args:
        tensors: of one dtype and device.

    Counterpart: apex_C.flatten
    """
    flat: Tensor = _flatten_dense_tensors(tensors)  # type: ignore[no-untyped-call]
    return flat


def unflatten(flat: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Returns views of the flat tensor in the shapes of the others.

    Args:
        flat: from `flatten`, shape [elements].
        tensors: that it was made of.

    Counterpart: apex_C.unflatten
    """
    parts: tuple[Tensor, ...] = _unflatten_dense_tensors(flat, tensors)  # type: ignore[no-untyped-call]
    return parts
