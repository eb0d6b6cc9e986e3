"""Keeps an optimizer's learning rate at what the port's own schedule makes of it."""

import inspect
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from torch.optim import Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau

from torch_ddp.errors import TorchDdpError
from torch_ddp.step.learning_rate import take_recorded_rate
from torch_ddp.step.optimizer import COUNTERS


class PortSchedule:
    """Holds a port's schedule, and can take it to any step.

    Args:
      function: ``scheduler(optimizer)``, which returns a `torch.optim.lr_scheduler` or whatever has its `step`; or
        ``rate(step)``, which returns the learning rate of the update that follows `step` updates. The name of its first
        argument tells which.
      optimizer: whose learning rate it sets.
      stepped_by_port: whether the port's own training step calls the scheduler's `step`; otherwise it is stepped once after
        every update.

    Attributes:
      scheduler: the scheduler; None where a function gives the rate.

    Raises:
      TorchDdpError: the function's first argument has another name, or what it returns has no `step`, or wants a measured
        value and nobody gives it.
    """

    def __init__(self, function: Callable[..., Any], optimizer: Optimizer, stepped_by_port: bool = False) -> None:
        self._function = function
        self._optimizer = optimizer
        self._stepped_by_port = stepped_by_port
        self._gives_rates = _first_argument(function) == "step"
        self._fresh = [_settings(group) for group in optimizer.param_groups]
        self.scheduler: Any = None
        self._at = 0
        self._begin()

    def go_to(self, global_step: int) -> None:
        """Sets the learning rate of the update that follows `global_step` updates."""
        if self._gives_rates:
            rate = float(self._function(global_step))
            for group in self._optimizer.param_groups:
                group["lr"] = rate
            return
        ahead = global_step - self._at
        # The port's step has moved it already, or is about to: once per update.
        if self._stepped_by_port and ahead in (0, 1):
            self._at = global_step
            return
        # A scheduler goes forward only: for an earlier step it is made anew, from the groups as they were.
        if ahead < 0 or self._stepped_by_port:
            self._begin()
        step_without_updates(self.scheduler, global_step - self._at)
        self._at = global_step

    def _begin(self) -> None:
        self._at = 0
        if self._gives_rates:
            return
        for group, fresh in zip(self._optimizer.param_groups, self._fresh, strict=True):
            # What a scheduler has added, "initial_lr" for one: the new one begins from groups as they were.
            for name in set(_settings(group)) - set(fresh):
                del group[name]
            group.update(fresh)
        self.scheduler = self._function(self._optimizer)
        if not callable(getattr(self.scheduler, "step", None)):
            raise TorchDdpError(
                "scheduler: expected a torch.optim.lr_scheduler, or what has its step(), got "
                f"{type(self.scheduler).__name__}. Return the scheduler, or name a function of `step` that returns a rate."
            )
        if isinstance(self.scheduler, ReduceLROnPlateau) and not self._stepped_by_port:
            raise TorchDdpError(
                "scheduler: expected one that is stepped without a measured value, got ReduceLROnPlateau. "
                "Step it in a step of your own: [torch] step."
            )


class PortRates:
    """Sets an optimizer's learning rate to that of the port's own schedule: what `Update` takes as `set_rate`.

    Args:
      schedule: the port's.
      optimizer: whose rate it sets.
      recorded: dict of step to the reference's learning rate, taken instead of the port's where the two differ only by
        float32's rounding: what is left is no matter of the schedule. None leaves the port's as it is.
    """

    def __init__(
        self, schedule: PortSchedule, optimizer: Optimizer, recorded: Mapping[int, float] | None = None
    ) -> None:
        self._schedule = schedule
        self._optimizer = optimizer
        self._recorded = dict(recorded or {})

    def __call__(self, global_step: int) -> None:
        """Sets the learning rate of the update that follows `global_step` updates."""
        self._schedule.go_to(global_step)
        if global_step in self._recorded:
            take_recorded_rate(self._optimizer, self._recorded[global_step])


def step_without_updates(scheduler: Any, count: int) -> None:
    """Steps a scheduler `count` times, as many updates later than it is."""
    with warnings.catch_warnings():
        # Torch wants an update before each step of a schedule; a schedule that is taken to a step has none.
        warnings.filterwarnings("ignore", "Detected call of `lr_scheduler.step", UserWarning)
        for _ in range(count):
            scheduler.step()


def _first_argument(function: Callable[..., Any]) -> str:
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # some callables have none
        names = []
    if names[:1] not in (["optimizer"], ["step"]):
        raise TorchDdpError(
            "scheduler: expected a function whose first argument is called `optimizer` (it returns a scheduler) or `step` "
            f"(it returns a learning rate), got one of ({', '.join(names)}). Name it so."
        )
    return names[0]


def _settings(group: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in group.items() if name != "params" and name not in COUNTERS}
