"""The object that calls functions over lists of tensors."""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

__all__ = ["MultiTensorApply", "multi_tensor_applier"]


class MultiTensorApply:
    """Calls a function of `amp_C`.

    Args:
        chunk_size: handed on; torch's foreach kernels choose their own.

    Attributes:
        available: True, as where Apex has its extensions.

    Counterpart: apex.multi_tensor_apply.MultiTensorApply
    """

    available = True
    warned = False

    def __init__(self, chunk_size: int) -> None:
        self.chunk_size = chunk_size

    def check_avail(self) -> None:
        """Does nothing: the functions are there."""

    def __call__(
        self, op: Callable[..., Any], noop_flag_buffer: Tensor, tensor_lists: Sequence[Sequence[Tensor]], *args: Any
    ) -> Any:
        """Returns what the function returns.

        Args:
            op: of `amp_C`.
            noop_flag_buffer: int32 of one element, in which the function notes an overflow.
            tensor_lists: its lists of tensors.
            *args: its other arguments.
        """
        return op(self.chunk_size, noop_flag_buffer, tensor_lists, *args)


multi_tensor_applier = MultiTensorApply(2048 * 32)
