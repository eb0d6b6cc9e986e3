"""Runs training steps as `Stepper` does, and records what the optimizer makes of the gradients before it updates."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from torch.optim import Optimizer

from torch_ddp.step import Stepper
from torch_ddp.traced import named_gradients


class WatchedStepper(Stepper):
    """Trains with an optimizer that may change the gradients first: clip them, or scale some of them.

    What counts is what its hooks leave; where these leave everything as it was, what its step does in place.

    Args:
      arguments: as for `Stepper`.
      given: the quantity under which a trace has what the optimizer works with: "clip", or "grad" where the other side
        clips nothing, so that whatever is done to the gradients is part of how they are combined.
    """

    def __init__(self, *arguments: Any, given: Literal["grad", "clip"]) -> None:
        super().__init__(*arguments)
        self._quantity = given
        self._hooked: dict[str, np.ndarray] = {}
        self.optimizer.register_step_pre_hook(self._watch)

    def step(self, batch: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | None:
        """Runs one update; arguments and result as for `Stepper`."""
        self._hooked = {}
        recorded = super().step(batch)
        if recorded is None:
            return None
        changed = any(not np.array_equal(value, recorded.get(name, value)) for name, value in self._hooked.items())
        given = self._hooked if changed else self._gradients()
        renamed = {name.replace("grad", self._quantity, 1): value for name, value in given.items()}
        others = {name: value for name, value in recorded.items() if not name.startswith(f"{self._quantity}/")}
        return {**others, **renamed}

    def _watch(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._hooked = self._gradients()

    def _gradients(self) -> dict[str, np.ndarray]:
        named = self._trained.named_parameters()
        return named_gradients("grad", {name: p.grad for name, p in named if p.grad is not None})
