"""The schedules as a torch scheduler."""

from collections.abc import Sequence
from typing import Any

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from torch_ddp.like_tf.errors import LikeTfError
from torch_ddp.like_tf.schedules.float32_math import Schedule


class Scheduler(LRScheduler):
    """Sets ``lr`` of each parameter group from a function of the step.

    Call ``step()`` after ``optimizer.step()``: the update of step t then uses the rate of t, the value of TensorFlow's
    global step before its increment.

    Args:
        optimizer: any torch optimizer.
        schedules: one function for all groups, or one each.
        last_epoch: the last step that was made, -1 for none.

    Raises:
        LikeTfError: there are more or fewer schedules than groups.
    """

    def __init__(self, optimizer: Optimizer, schedules: Schedule | Sequence[Schedule], last_epoch: int = -1) -> None:
        groups = len(optimizer.param_groups)
        self._schedules = [schedules] * groups if callable(schedules) else list(schedules)
        if len(self._schedules) != groups:
            raise LikeTfError(
                f"Scheduler: expected {groups} schedules, one per parameter group, got {len(self._schedules)}. "
                "Give one function to use it for all groups."
            )
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Returns the rate of the current step for each group."""
        return [schedule(self.last_epoch) for schedule in self._schedules]

    def state_dict(self) -> dict[str, Any]:
        """Returns the step and what else torch keeps; the schedules are code and are left out."""
        return {name: value for name, value in super().state_dict().items() if name != "_schedules"}
