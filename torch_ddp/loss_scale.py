"""Scales losses so that gradients in half precision do not vanish; the dynamic scale follows what overflows."""

from collections.abc import Mapping
from typing import Any

import numpy as np


class LossScale:
    """A loss scale: a constant, or one that falls when a combined gradient is not finite and grows after a while.

    A dynamic one is a float32, as TensorFlow's graph holds it, whatever the precision of the model.

    Args:
      description: a number, or dict with `initial`, `growth_interval` (good steps in a row before it grows) and `factor`;
        None for no scale at all.

    Attributes:
      value: what losses are multiplied by and gradients divided by; 1 where there is no scale.
      dynamic: whether steps with gradients that are not finite are skipped.

    Counterpart: tf_towers.LossScale
    """

    def __init__(self, description: float | Mapping[str, Any] | None = None) -> None:
        self.dynamic = isinstance(description, Mapping)
        table: Mapping[str, Any] = description if isinstance(description, Mapping) else {"initial": description or 1.0}
        initial = table.get("initial", 32768.0)
        self.value = float(np.float32(initial)) if self.dynamic else float(initial)
        self._good = 0
        self._interval = int(table.get("growth_interval", 2000))
        self._factor = np.float32(table.get("factor", 2.0))

    def state(self) -> dict[str, np.ndarray]:
        """Returns what a dynamic scale carries from step to step; empty for a constant."""
        if not self.dynamic:
            return {}
        return {"loss_scale": np.array(self.value, np.float32), "good_steps": np.array(self._good, np.int32)}

    def load(self, state: Mapping[str, Any]) -> None:
        """Overwrites what `state` returns, as far as it is given; a constant stays what it is."""
        if self.dynamic:
            self.value = float(state.get("loss_scale", self.value))
            self._good = int(state.get("good_steps", self._good))

    def move(self, finite: bool) -> None:
        """Moves a dynamic scale after a step; `finite` says whether its combined gradients were."""
        if not self.dynamic:
            return
        self._good = self._good + 1 if finite else 0
        with np.errstate(over="ignore"):
            if not finite:
                self.value = float(np.float32(self.value) / self._factor)
            elif self._good == self._interval:
                self.value, self._good = float(np.float32(self.value) * self._factor), 0
