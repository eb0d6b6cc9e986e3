"""What Apex's fused optimizers share: `zero_grad`, and the weights of a group by what a kernel takes together."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from torch_ddp.amp.options import HALF_DTYPES
from torch_ddp.errors import TorchDdpError


class FusedOptimizerError(TorchDdpError, RuntimeError):
    """Refuses what a fused optimizer cannot do; a RuntimeError too, because that is what Apex raised."""


class FusedOptimizer(Optimizer):
    """An optimizer over lists of tensors; abstract.

    Args:
        params: weights, or groups of them.
        defaults: of the groups.
        set_grad_none: whether `zero_grad` takes gradients away, or fills them with zeros.
    """

    def __init__(self, params: Any, defaults: dict[str, Any], set_grad_none: bool) -> None:
        super().__init__(params, defaults)
        self.set_grad_none = set_grad_none

    def zero_grad(self, set_to_none: bool | None = None) -> None:
        """Clears the gradients.

        Args:
            set_to_none: whether they are taken away or become zeros; None is `set_grad_none`, as in Apex.
        """
        super().zero_grad(self.set_grad_none if set_to_none is None else set_to_none)

    def _by_width(self, params: Iterable[Tensor]) -> list[list[Tensor]]:
        # Those with gradients: half ones first, as Apex's lists go, then the others. One device to a list, and float64
        # apart from float32, whose numbers are rounded.
        lists: dict[tuple[int, torch.device, bool], list[Tensor]] = {}
        for param in params:
            if param.grad is None:
                continue
            if param.grad.is_sparse:
                raise FusedOptimizerError(
                    f"{type(self).__name__}: expected dense gradients, got a sparse one. Use torch.optim.SparseAdam, or "
                    "Embedding(sparse=False)."
                )
            width = 0 if param.dtype in HALF_DTYPES else 1
            lists.setdefault((width, param.device, param.dtype is torch.float64), []).append(param)
        return [lists[key] for key in sorted(lists, key=lambda key: key[0])]

    def _slots(self, params: list[Tensor], name: str, *, float32: bool = False) -> list[Tensor]:
        # Made where missing: zeros of the weight's dtype, or float32 of a half one.
        for param in params:
            if name not in self.state[param]:
                slot = torch.zeros_like(param, memory_format=torch.preserve_format)
                self.state[param][name] = slot.float() if float32 and param.dtype in HALF_DTYPES else slot
        return [self.state[param][name] for param in params]


def refuse_amsgrad(name: str, amsgrad: bool) -> None:
    """Refuses AMSGrad, as Apex does.

    Args:
        name: of the optimizer.
        amsgrad: whether it was asked for.

    Raises:
        FusedOptimizerError: it was.
    """
    if amsgrad:
        raise FusedOptimizerError(f"{name}: expected amsgrad=False, got True. Use torch.optim.AdamW(amsgrad=True).")


def next_step(group: dict[str, Any]) -> int:
    """Counts a step of a group, from 1, and returns it.

    Args:
        group: whose entry ``step`` changes.
    """
    # Of the group and not of each weight, as in Apex: one added to it later is corrected as the others are.
    group["step"] = step = int(group.get("step", 0)) + 1
    return step
