"""Lets a checkpoint hold float32 masters of half-precision weights."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from torch_ddp.errors import CheckpointError


class MasterWeights:
    """Lets a checkpoint hold the weights that are an optimizer's own and not the model's.

    An optimizer's `state_dict` does not hold its parameters. Where they are the model's that is right; float32 masters of
    a half-precision model would be lost, and training would go on from weights rounded to half precision.

    Args:
      optimizer: whose parameters to look at.
      model: parameters that are its own are left out.
    """

    def __init__(self, optimizer: Optimizer, model: nn.Module) -> None:
        self._optimizer = optimizer
        self._model = model

    def state_dict(self) -> dict[str, Tensor]:
        """Returns dict of ``"group.index"`` to master weight, empty where the optimizer updates the model itself."""
        return {name: master.detach().clone() for name, master in self._masters().items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Copies masters back.

        Raises:
          CheckpointError: there are others in `state` than the optimizer has, or of other shapes.
        """
        masters = self._masters()
        ours = {name: list(master.shape) for name, master in masters.items()}
        theirs = {name: list(value.shape) for name, value in state.items()}
        if ours != theirs:
            raise CheckpointError(
                f"checkpoint: expected master weights {ours}, got {theirs}. Use the precision that it was saved with."
            )
        with torch.no_grad():
            for name, master in masters.items():
                master.copy_(state[name])

    def _masters(self) -> dict[str, Tensor]:
        # By identity: a master has the values of a weight, and is no weight.
        own = {id(parameter) for parameter in self._model.parameters()}
        return {
            f"{number}.{index}": parameter
            for number, group in enumerate(self._optimizer.param_groups)
            for index, parameter in enumerate(group["params"])
            if id(parameter) not in own
        }
