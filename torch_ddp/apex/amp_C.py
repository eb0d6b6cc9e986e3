"""The functions of Apex's extension `amp_C`, on torch's foreach kernels.

Each takes a chunk size, without effect, an int32 flag of one element, in which it notes an overflow, and lists of
tensors. Half precision is computed with in float32.
"""

import torch
from torch import Tensor

from torch_ddp.apex.missing import names_of
from torch_ddp.apex.optimizers.moment_rules import (
    multi_tensor_adam,
    multi_tensor_adam_capturable,
    multi_tensor_adam_capturable_master,
    multi_tensor_lamb,
)
from torch_ddp.apex.optimizers.update_rules import multi_tensor_adagrad, multi_tensor_novograd, multi_tensor_sgd
from torch_ddp.apex.tensor_lists import Lists, Tensors, norms, note_overflow, rounding, widened

__all__ = [
    "multi_tensor_adagrad",
    "multi_tensor_adam",
    "multi_tensor_adam_capturable",
    "multi_tensor_adam_capturable_master",
    "multi_tensor_axpby",
    "multi_tensor_l2norm",
    "multi_tensor_l2norm_mp",
    "multi_tensor_l2norm_scale",
    "multi_tensor_lamb",
    "multi_tensor_novograd",
    "multi_tensor_scale",
    "multi_tensor_sgd",
    "multi_tensor_unscale_l2norm",
    "update_scale_hysteresis",
]

__getattr__ = names_of(__name__)


@torch.no_grad()
def multi_tensor_scale(chunk_size: int, noop_flag: Tensor, tensor_lists: Lists, scale: float) -> None:
    """Writes the first list times a number to the second, and notes elements of the first that are not finite.

    Args:
        chunk_size: no effect.
        noop_flag: int32, shape [1].
        tensor_lists: sources and targets, of any floating point dtypes.
        scale: the number.

    Source: csrc/multi_tensor_scale_kernel.cu.
    """
    sources, targets = tensor_lists
    if not sources:
        return
    note_overflow(noop_flag, sources)
    scaled = torch._foreach_mul(widened(sources), rounding(sources)(scale))
    torch._foreach_copy_([target.detach() for target in targets], scaled)


@torch.no_grad()
def multi_tensor_axpby(
    chunk_size: int, noop_flag: Tensor, tensor_lists: Lists, a: float, b: float, arg_to_check: int
) -> None:
    """Writes ``a x + b y`` to the third list.

    Args:
        chunk_size: no effect.
        noop_flag: int32, shape [1].
        tensor_lists: x, y and targets, of any floating point dtypes.
        a: of x.
        b: of y.
        arg_to_check: 0 notes elements of x that are not finite, 1 those of y, -1 both.

    Source: csrc/multi_tensor_axpby_kernel.cu.
    """
    xs, ys, targets = tensor_lists
    if not xs:
        return
    checked = {0: xs, 1: ys, -1: [*xs, *ys]}[arg_to_check]
    note_overflow(noop_flag, checked)
    number = rounding([*xs, *ys])
    sums = torch._foreach_mul(widened(xs), number(a))
    sums = torch._foreach_add(sums, torch._foreach_mul(widened(ys), number(b)))
    torch._foreach_copy_([target.detach() for target in targets], sums)


@torch.no_grad()
def multi_tensor_l2norm(
    chunk_size: int, noop_flag: Tensor, tensor_lists: Lists, per_tensor: bool | None = False
) -> tuple[Tensor, Tensor]:
    """Returns the Euclidean norm over a list of tensors, and that of each.

    Args:
        chunk_size: no effect.
        noop_flag: int32, shape [1].
        tensor_lists: one list.
        per_tensor: whether the norm of each is wanted.

    Returns:
        Shape [1], and shape [tensors] or, where not wanted, [0]; float32, of float64 tensors float64.

    Source: csrc/multi_tensor_l2norm_kernel.cu.
    """
    return _norms(noop_flag, tensor_lists[0], per_tensor)


# On a GPU of Apex one skips where the flag is set, which `multi_tensor_lamb_mp` alone needs.
multi_tensor_l2norm_mp = multi_tensor_l2norm


@torch.no_grad()
def multi_tensor_l2norm_scale(
    chunk_size: int, noop_flag: Tensor, tensor_lists: Lists, scale: float, per_tensor: bool | None = False
) -> tuple[Tensor, Tensor]:
    """Writes the first list times a number to the second, and returns the norms of that.

    Args:
        chunk_size: no effect.
        noop_flag: int32, shape [1].
        tensor_lists: sources and targets.
        scale: the number.
        per_tensor: whether the norm of each is wanted.

    Returns:
        As `multi_tensor_l2norm`.

    Source: csrc/multi_tensor_l2norm_scale_kernel.cu.
    """
    sources, targets = tensor_lists
    scaled = torch._foreach_mul(widened(sources), rounding(sources)(scale))
    torch._foreach_copy_([target.detach() for target in targets], scaled)
    return _norms(noop_flag, scaled, per_tensor)


@torch.no_grad()
def multi_tensor_unscale_l2norm(
    chunk_size: int, noop_flag: Tensor, tensor_lists: Lists, inv_scale: Tensor, per_tensor: bool | None = False
) -> tuple[Tensor, Tensor]:
    """Returns the norms of a list of tensors times a number; the tensors stay.

    Args:
        chunk_size: no effect.
        noop_flag: int32, shape [1].
        tensor_lists: one list.
        inv_scale: the number, shape [1].
        per_tensor: whether the norm of each is wanted.

    Returns:
        As `multi_tensor_l2norm`.

    Source: csrc/multi_tensor_l2norm_kernel.cu, UnscaleL2NormFunctor.
    """
    scaled = torch._foreach_mul(widened(tensor_lists[0]), inv_scale.reshape(()))
    return _norms(noop_flag, scaled, per_tensor)


def _norms(noop_flag: Tensor, tensors: Tensors, per_tensor: bool | None) -> tuple[Tensor, Tensor]:
    each = norms(tensors)
    total = torch.linalg.vector_norm(each).reshape(1)
    # An infinite sum of finite squares counts too, as there.
    note_overflow(noop_flag, [total])
    return total, each if per_tensor else each.new_empty(0)


@torch.no_grad()
def update_scale_hysteresis(
    current_scale: Tensor,
    growth_tracker: Tensor,
    hysteresis_tracker: Tensor,
    found_inf: Tensor,
    growth_factor: float,
    backoff_factor: float,
    growth_interval: int,
    hysteresis: int,
) -> Tensor:
    """Moves a loss scale that falls at the last of `hysteresis` overflows in a row, and returns it.

    A scale below the least normal float32 becomes 0, as there: Apex compiles its kernels with ``--use_fast_math``, which
    flushes it.

    Args:
        current_scale: float32, shape [1]; changes in place, as the next two do.
        growth_tracker: int32, shape [1]: steps since the last change.
        hysteresis_tracker: int32, shape [1]: overflows still let pass.
        found_inf: float32, shape [1]: above 0 for an overflow.
        growth_factor: after `growth_interval` steps without one.
        backoff_factor: at the overflow that is too many.
        growth_interval: steps.
        hysteresis: overflows.

    Source: csrc/update_scale_hysteresis.cu.
    """
    overflow = found_inf > 0
    hysteresis_tracker.sub_(overflow.to(hysteresis_tracker.dtype))
    waits = overflow & (hysteresis_tracker > 0)
    counted = growth_tracker + 1
    grown, fallen = (_flushed_product(current_scale, factor) for factor in (growth_factor, backoff_factor))
    grows = ~overflow & (counted == growth_interval)
    lowered = torch.where(overflow & ~waits, fallen, current_scale)
    current_scale.copy_(torch.where(grows & torch.isfinite(grown), grown, lowered))
    growth_tracker.copy_(torch.where(overflow | grows, torch.zeros_like(counted), counted))
    hysteresis_tracker.masked_fill_(~overflow, hysteresis)
    return current_scale


def _flushed_product(scale: Tensor, factor: float) -> Tensor:
    # The factors are doubles there, and the product is one before it is rounded.
    product = (scale.double() * factor).to(scale.dtype)
    return product.masked_fill(product < torch.finfo(scale.dtype).tiny, 0)
