"""What amp keeps with an optimizer."""

from dataclasses import dataclass, field
from typing import Any

import torch

from torch_ddp.amp.errors import AmpError

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
