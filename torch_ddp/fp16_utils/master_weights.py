"""Float32 master weights beside a model's own, copied to and fro by hand."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_ as clip_grad_norm

from torch_ddp.fp16_utils.convert import Fp16Error

__all__ = [
    "clip_grad_norm",
    "master_params_to_model_params",
    "model_grads_to_master_grads",
    "prep_param_lists",
    "to_python_float",
]


def prep_param_lists(model: nn.Module, flat_master: bool = False) -> tuple[list[nn.Parameter], list[Tensor]]:
    """Returns a model's trainable weights and float32 copies of them for an optimizer to step.

    Args:
        model: its weights stay as they are.
        flat_master: whether to make one master, shape [elements], of all weights, which must then be of one dtype.

    Returns:
        The weights and their masters, in the same order, or all weights and one master with zeros as its gradient.

    Raises:
        Fp16Error: the master is to be flat and the weights are of several dtypes, or there are none.

    Counterpart: apex.fp16_utils.prep_param_lists
    """
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    if not flat_master:
        return weights, [weight.detach().clone().float().requires_grad_() for weight in weights]
    dtypes = sorted({str(weight.dtype) for weight in weights})
    # A flat master has one dtype, and is cut into weights by their numbers of elements alone.
    if len(dtypes) != 1:
        raise Fp16Error(
            f"prep_param_lists: expected weights of one dtype for flat_master=True, got {dtypes}. "
            "Leave flat_master out, or freeze fewer weights."
        )
    master = nn.Parameter(_flat(weights).float())
    master.grad = torch.zeros_like(master)
    return weights, [master]


def model_grads_to_master_grads(
    model_params: Sequence[Tensor], master_params: Sequence[Tensor], flat_master: bool = False
) -> None:
    """Copies the gradients of the weights to their masters; nothing is unscaled.

    A master without a counterpart's gradient loses its own. In a flat master such a weight's part becomes zeros, where
    Apex raises an AttributeError.

    Args:
        model_params: from `prep_param_lists`.
        master_params: from the same call.
        flat_master: as in that call.

    Raises:
        Fp16Error: the lists do not belong together.

    Counterpart: apex.fp16_utils.model_grads_to_master_grads
    """
    _check("model_grads_to_master_grads", model_params, master_params, flat_master)
    with torch.no_grad():
        if flat_master:
            grads = [torch.zeros_like(weight) if weight.grad is None else weight.grad for weight in model_params]
            master_params[0].grad = _flat(grads).to(master_params[0].dtype)
            return
        for weight, master in zip(model_params, master_params, strict=True):
            # copy=True: a float32 weight would otherwise share its gradient with its master, and clipping one would
            # clip both.
            master.grad = None if weight.grad is None else weight.grad.detach().to(master.dtype, copy=True)


def master_params_to_model_params(
    model_params: Sequence[Tensor], master_params: Sequence[Tensor], flat_master: bool = False
) -> None:
    """Rounds the masters into the weights.

    Args:
        model_params: from `prep_param_lists`.
        master_params: from the same call.
        flat_master: as in that call.

    Raises:
        Fp16Error: the lists do not belong together.

    Counterpart: apex.fp16_utils.master_params_to_model_params
    """
    _check("master_params_to_model_params", model_params, master_params, flat_master)
    masters = master_params
    if flat_master:
        masters = torch.split(master_params[0], [weight.numel() for weight in model_params])
    with torch.no_grad():
        for weight, master in zip(model_params, masters, strict=True):
            weight.copy_(master.view(weight.shape))


def to_python_float(t: Any) -> Any:
    """Returns the one number in a tensor, or the first of a sequence.

    Args:
        t: a tensor of one element, or a sequence.

    Counterpart: apex.fp16_utils.to_python_float
    """
    # item() of a tensor waits for the device.
    return t.item() if hasattr(t, "item") else t[0]


def _flat(tensors: Sequence[Tensor]) -> Tensor:
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors])


def _check(who: str, model_params: Sequence[Tensor], master_params: Sequence[Tensor], flat: bool) -> None:
    wanted = [sum(weight.numel() for weight in model_params)] if flat else [weight.numel() for weight in model_params]
    got = [master.numel() for master in master_params]
    if wanted != got:
        raise Fp16Error(
            f"{who}: expected masters of {wanted} elements, got {got}. "
            "Pass both lists of one prep_param_lists, and the same flat_master."
        )
