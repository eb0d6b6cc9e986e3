"""Keeps what every op between the inputs and the loss gives, in the first recorded step of rank 0."""

import contextlib
import os
from collections.abc import Iterable, Sequence
from typing import Any

from torch import nn
from torch._C import _len_torch_function_stack  # no public form, as in torch_ddp.amp.mode_stack

from parity.trace import SHADOW_FORWARD, write_forward
from torch_ddp.record.sections import Section
from torch_ddp.step.forward_watch import ForwardWatch

FORWARD_BYTES = 1 << 26  # of the forward pass that is kept


class Layers:
    """Watches the forward passes up to the first backward pass, once."""

    def __init__(self) -> None:
        self._watch: ForwardWatch | None = None
        self._within = contextlib.ExitStack()
        self._folder = ""

    def start(self, folder: str, sections: Sequence[Section], families: Iterable[Any]) -> None:
        """Starts to watch, where there is one model and nothing of it is compiled."""
        models = {id(model): model for section in sections for model in section.models.values()}
        # Another mode, as that of torch_ddp.amp's casts, would see other functions than without ours.
        if len(models) != 1 or _len_torch_function_stack() or any(is_compiled(module()) for module, *_ in families):
            return
        self._folder = os.path.join(folder, SHADOW_FORWARD, "0")
        # Weights are named by this one model; functions outside of it, as the loss, are seen all the same.
        self._watch = ForwardWatch(next(iter(models.values())))
        self._within.enter_context(self._watch.watching(nested=False))

    def stop(self) -> None:
        """Writes what was seen, at the first backward pass."""
        watch, self._watch = self._watch, None
        if watch is not None:
            self._within.close()
            write_forward(self._folder, 0, "0", watch.passed, FORWARD_BYTES)


def is_compiled(module: nn.Module | None) -> bool:
    """Whether a module is called through torch.compile."""
    return hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None) is not None
