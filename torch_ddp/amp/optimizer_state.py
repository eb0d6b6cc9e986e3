"""Keeps master weights with an optimizer."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from torch_ddp.amp.errors import AmpError
from torch_ddp.amp.options import HALF_DTYPES

ATTRIBUTE = "_amp_stash"  # the name Apex used, so that other code's test for it still works


@dataclass
class Stash:
    """Holds an optimizer's master weights, its gradients between backward passes, and whether its step is skipped.

    Attributes:
        keeps_masters: whether half weights get float32 masters.
        pairs: (half weight, its float32 master).
        set_aside: (weight, gradient summed over earlier backward passes and unscaled), while a backward pass runs.
        delayed_scale: the loss scale of gradients whose unscaling was delayed, or None.
        skip_message: what to print when skipping the next step, or None where it is not to be skipped.
        skipped: whether the last step was skipped.
    """

    keeps_masters: bool
    pairs: list[tuple[torch.Tensor, torch.Tensor]] = field(default_factory=list)
    set_aside: list[tuple[torch.Tensor, torch.Tensor]] = field(default_factory=list)
    delayed_scale: float | None = None
    skip_message: str | None = None
    skipped: bool = False


def stash_of(optimizer: Any, who: str) -> Stash:
    """Returns what amp keeps with an optimizer.

    Args:
        optimizer: given to `initialize` before.
        who: the public name that asks, for the message.

    Raises:
        AmpError: it was not.
    """
    stash = getattr(optimizer, ATTRIBUTE, None)
    if not isinstance(stash, Stash):
        raise AmpError(
            f"{who}: expected an optimizer that amp.initialize returned, got another {type(optimizer).__name__}. "
            "Pass it to amp.initialize first."
        )
    return stash


def make_masters(optimizer: torch.optim.Optimizer, stash: Stash) -> None:
    """Replaces half weights that need a gradient, in the parameter groups, by float32 copies of them.

    Called before every backward pass, so that weights which were added or unfrozen since get theirs too, and weights
    that were loaded between `initialize` and the first pass are the ones copied. As in Apex, float32 weights are their
    own masters, and the state of a weight goes to its master.

    Args:
        optimizer: whose groups change in place.
        stash: with its pairs, which grow.
    """
    if not stash.keeps_masters:
        return
    for group in optimizer.param_groups:
        # In place of the weight in its own group, and at its own index, so that groups keep their rates and
        # load_state_dict its order. Apex does it at the same moment, before the first backward pass.
        for index, param in enumerate(group["params"]):
            if param.dtype in HALF_DTYPES and param.requires_grad:
                # float32, the shape of the weight; a leaf of its own, whose gradient is written by `unscale`.
                master = param.detach().float().requires_grad_()
                group["params"][index] = master
                stash.pairs.append((param, master))
                # Momentum that a checkpoint left with the weight goes over to its master, in float32; Apex rekeys it
                # likewise.
                if param in optimizer.state:
                    optimizer.state[master] = _in_float32(optimizer.state.pop(param))


def _in_float32(state: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value.float() if isinstance(value, torch.Tensor) and value.dtype in HALF_DTYPES else value
        for name, value in state.items()
    }


def masters_to_weights(stash: Stash) -> None:
    """Rounds every master into its half weight.

    Args:
        stash: of the optimizer.
    """
    if stash.pairs:
        with torch.no_grad():
            # Rounds to nearest even; beyond the range of float16 (65504) a weight becomes infinite.
            torch._foreach_copy_([weight for weight, _ in stash.pairs], [master for _, master in stash.pairs])


def follow_weights(stash: Stash) -> None:
    """Copies half weights that were loaded anew into their masters.

    A master whose rounding still is the weight stays: it is what the weight was rounded from, and holds more bits. So
    a model's state and amp's can be loaded in either order.

    Args:
        stash: of the optimizer.
    """
    with torch.no_grad():
        for weight, master in stash.pairs:
            # Not the other way round: a half weight determines its master up to half a unit only, and 13 of the 24
            # bits would be lost.
            if not torch.equal(master.to(weight.dtype), weight):
                master.copy_(weight)


def master_params(optimizer: torch.optim.Optimizer) -> Iterator[torch.Tensor]:
    """Yields the float32 weights that an optimizer steps, masters among them; clip these, not the model's.

    Args:
        optimizer: with or without amp.
    """
    if hasattr(optimizer, "_amp_stash"):
        make_masters(optimizer, stash_of(optimizer, "amp.master_params"))
    for group in optimizer.param_groups:
        yield from group["params"]
