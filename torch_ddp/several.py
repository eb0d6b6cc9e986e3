"""Several optimizers in one step: one for each part of the parameters, some with a loss of their own."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from torch import Tensor, nn
from torch.optim import Optimizer

from torch_ddp.optimizer import make_optimizer, named_counters, named_slots, round_hyper_parameters, set_counters
from torch_ddp.schedule import make_schedule

OF_THE_PART = ("names", "only", "loss")


class Part:
    """One more optimizer, beside the first, which has the parameters that no part takes.

    Args:
      name: of the part; what it keeps is recorded under "section/<name>/".
      description: what `make_optimizer` takes; `names`, the parameters; `loss`, the name of the output, a scalar, that they
        minimise instead of the loss.
      model: what trains.
      rounded: whether hyper-parameters are rounded to float32.

    Attributes:
      optimizer: of these parameters.
      names: theirs.
      loss: name of the output that they minimise, or None.

    Counterpart: tf_towers.Part
    """

    def __init__(self, name: str, description: Mapping[str, Any], model: nn.Module, rounded: bool = False) -> None:
        self.name = name
        self.names = frozenset(description["names"])
        self.loss: str | None = description.get("loss")
        rest = {key: value for key, value in description.items() if key not in OF_THE_PART}
        self.optimizer: Optimizer = make_optimizer(rest, model, self.names)
        if rounded:
            round_hyper_parameters(self.optimizer)
        rate = description.get("learning_rate")
        self._schedule = make_schedule(rate) if isinstance(rate, Mapping) else None
        self._model = model

    def set_rate(self, global_step: int) -> None:
        """Sets the learning rate of the update that follows `global_step` updates."""
        for group in self.optimizer.param_groups if self._schedule else []:
            group["lr"] = self._schedule(global_step)  # type: ignore[misc]

    def slots(self) -> Iterator[tuple[str, Tensor]]:
        """Yields trace name and tensor of every slot."""
        for (slot, name), value in named_slots(self.optimizer, self._model).items():
            yield f"section/{self.name}/slot/{slot}/{name}", value

    def counters(self) -> dict[str, np.ndarray]:
        """Returns learning rate and powers of beta by trace name."""
        found = named_counters(self.optimizer).items()
        return {
            f"section/{self.name}/state/{name}": np.array(value, np.float32 if name.endswith("_power") else np.float64)
            for name, value in found
        }

    def load_counters(self, state: Mapping[str, Any]) -> None:
        """Overwrites powers of beta from a dict of trace name to value."""
        prefix = f"section/{self.name}/state/"
        given = {key[len(prefix) :]: float(value) for key, value in state.items() if key.startswith(prefix)}
        set_counters(self.optimizer, given)
