"""Takes functions of torch apart that do in one what a graph does in several ops."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

WITH_BIAS = frozenset(
    ["linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"]
)
# By function that makes one number of many losses, the place of the argument that says how. 0 keeps them all.
# Source: torch/_C/_nn.pyi and torch/_C/_VariableFunctions.pyi, the signatures; aten/src/ATen/core/Reduction.h.
REDUCTION_ARGUMENT = {
    "cross_entropy_loss": 3,
    "nll_loss": 3,
    "nll_loss2d": 3,
    "nll_loss_nd": 3,
    "binary_cross_entropy": 3,
    "binary_cross_entropy_with_logits": 4,
    "mse_loss": 2,
    "l1_loss": 2,
    "smooth_l1_loss": 2,
    "huber_loss": 2,
    "kl_div": 2,
    "soft_margin_loss": 2,
    "poisson_nll_loss": 5,
    "ctc_loss": 5,
    "hinge_embedding_loss": 3,
    "margin_ranking_loss": 4,
    "cosine_embedding_loss": 4,
    "triplet_margin_loss": 7,
}
WITH_CLASS_WEIGHTS = frozenset(["cross_entropy_loss", "nll_loss", "nll_loss2d", "nll_loss_nd"])


class Stage(NamedTuple):
    """A part of a function.

    Fields:
      kind: what it does.
      takes: tensors that it takes beside what the stage before it gives.
      value: what it gives.
    """

    kind: str
    takes: Sequence[Tensor]
    value: Tensor


class Stages(NamedTuple):
    """What a function consists of.

    Fields:
      before: the parts before the last, in order; none of a function that is one op.
      takes: tensors that the last takes beside what the part before it gives.
    """

    before: list[Stage]
    takes: Sequence[Tensor]


@torch.no_grad()
def stages_of(func: Any, kind: str, args: Sequence[Any], named: dict[str, Any]) -> Stages:
    """Returns the parts of a call, computed with the call's own arguments.

    Args:
      func: the function of torch.
      kind: its name.
      args: by position.
      named: by name.
    """
    if kind in WITH_BIAS:
        return _without_bias(func, kind, args, named)
    if kind in REDUCTION_ARGUMENT:
        return _each(func, kind, args, named)
    if kind == "scaled_dot_product_attention" and len(args) >= 3:
        return _attention(*args, **named)
    return Stages([], [])


def _without_bias(func: Any, kind: str, args: Sequence[Any], named: dict[str, Any]) -> Stages:
    bias = named.get("bias", args[2] if len(args) > 2 else None)
    if not isinstance(bias, Tensor):
        return Stages([], [])
    rest = {name: value for name, value in named.items() if name != "bias"}
    # The place of the bias is the third in all of them.
    positional = [*args[:2], None, *args[3:]] if len(args) > 2 else list(args)
    takes = [each for each in [*positional, *rest.values()] if isinstance(each, Tensor)]
    return Stages([Stage(f"{kind} without bias", takes, func(*positional, **rest))], [bias])


def _each(func: Any, kind: str, args: Sequence[Any], named: dict[str, Any]) -> Stages:
    """A loss of every example, or of all their elements, before one number is made of them."""
    place = REDUCTION_ARGUMENT[kind]
    # Called by position from torch.nn.functional, with an int of Reduction; 0 is none, and nothing is to be taken
    # apart.
    if len(args) <= place or not isinstance(args[place], int) or not args[place]:
        return Stages([], [])
    kept = [*args[:place], 0, *args[place + 1 :]]
    weight = kept[2] if kind in WITH_CLASS_WEIGHTS else None
    # Without the class weights, which a graph applies in an op of its own behind the cross entropy.
    takes = [each for each in kept if isinstance(each, Tensor) and each is not weight]
    if not isinstance(weight, Tensor):
        return Stages([Stage(f"{kind} of each", takes, func(*kept, **named))], [])
    plain = Stage(f"{kind} of each", takes, func(*kept[:2], None, *kept[3:], **named))
    return Stages([plain, Stage(f"{kind} of each, weighted", [weight], func(*kept, **named))], [weight])


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Stages:
    """The formula of torch's documentation of `scaled_dot_product_attention`."""
    if enable_gqa:
        return Stages([], [])
    # [..., queries, keys]; query and key: [..., length, features].
    scores = query @ key.transpose(-2, -1)
    # After the product: a graph that scales the query first has other scores, and is told by that.
    scaled = scores * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    found = [Stage("scores", [query, key], scores), Stage("scaled scores", [], scaled)]
    if is_causal:
        allowed = torch.ones(scaled.shape[-2:], dtype=torch.bool, device=scaled.device).tril()
        scaled = scaled.masked_fill(~allowed, -math.inf)
        found.append(Stage("masked scores", [], scaled))
    if attn_mask is not None:
        masked = scaled.masked_fill(~attn_mask, -math.inf) if attn_mask.dtype is torch.bool else scaled + attn_mask
        found.append(Stage("masked scores", [attn_mask], masked))
        scaled = masked
    return Stages([*found, Stage("softmax", [], scaled.softmax(-1))], [value])
