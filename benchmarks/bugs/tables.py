"""Bugs in what a port does around the optimizer's step: schedule, clipping, averages, decay.

They are planted between the comparison and the port: what the torch side is told of the update is not what the case says.
"""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, NamedTuple, cast

from parity.experiment import Sides
from parity.worker.process import SideProcess

Update = dict[str, Any]


class Table(NamedTuple):
    """A bug in the update's description.

    Fields:
      name: its identifier.
      change: what becomes of the description: ``change(update, size)``.
      causes: the names of causes that say what it is.
      first: the quantities that it can show in first.
      sized: whether `size` says by how much it is off.
    """

    name: str
    change: Callable[[Update, float], Update]
    causes: tuple[str, ...]
    first: tuple[str, ...]
    sized: bool = False


class _Told:
    # Passes everything on to the torch side, and tells it another update.
    def __init__(self, side: SideProcess, change: Callable[[Update], Update]) -> None:
        self._side = side
        self._change = change

    def ask(self, request: str, on_progress: Any = None, **arguments: Any) -> "Future[Any]":
        if request == "prepare":
            case = arguments["case"]
            arguments = {**arguments, "case": {**case, "update": self._change(dict(case["update"]))}}
        return self._side.ask(request, on_progress, **arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._side, name)


def told(sides: Sides, table: Table, size: float) -> Sides:
    """Returns sides whose port is told an update with a bug in it."""
    told_otherwise = _Told(sides.torch, lambda update: table.change(update, size))
    return replace(sides, torch=cast("SideProcess", told_otherwise))


def _part(name: str, **changes: Callable[[Any, float], Any]) -> Callable[[Update, float], Update]:
    def change(update: Update, size: float) -> Update:
        part = dict(update[name])
        part.update((key, new(part.get(key), size)) for key, new in changes.items())
        return {**update, name: part}

    return change


def _without(name: str) -> Callable[[Update, float], Update]:
    return lambda update, size: {key: value for key, value in update.items() if key != name}


def _steady(update: Update, size: float) -> Update:
    return {**update, "learning_rate": {**update["learning_rate"], "decay_rate": 1.0}}


RATE = ("state", "var")
SCHEDULE = ("learning_rate", "shifted_schedule", "slow_schedule")
TABLES = (
    Table("another_limit_of_clipping", _part("clip", limit=lambda v, s: v * (1 + s)), ("clipping",), ("clip",), True),
    Table("each_gradient_clipped_by_its_own_norm", _part("clip", by=lambda v, s: "norm"), ("clipping",), ("clip",)),
    Table("clipped_by_value_instead_of_norm", _part("clip", by=lambda v, s: "value"), ("clipping",), ("clip",)),
    Table("clipping_forgotten", _without("clip"), ("clipping",), ("clip",)),
    Table(
        "averages_that_forget_slower",
        _part("ema", decay=lambda v, s: 0.05 + 0.04 * s),
        ("average_decay",),
        ("ema",),
        True,
    ),
    Table("averages_without_the_count", _part("ema", num_updates=lambda v, s: False), ("average_decay",), ("ema",)),
    Table("a_ramp_for_stairs", _part("learning_rate", staircase=lambda v, s: False), SCHEDULE, RATE),
    Table("a_schedule_off_by_one", _part("learning_rate", decay_steps=lambda v, s: 1), SCHEDULE, RATE),
    Table(
        "another_decay_rate_of_the_schedule",
        _part("learning_rate", decay_rate=lambda v, s: v * (1 + s)),
        SCHEDULE,
        RATE,
        True,
    ),
    Table("a_schedule_that_never_starts", _steady, SCHEDULE, RATE),
    Table(
        "another_coefficient_of_decay",
        _part("weight_decay", coefficient=lambda v, s: v * (1 + s)),
        ("weight_decay",),
        ("loss",),
        True,
    ),
    Table("decay_forgotten", _without("weight_decay"), ("weight_decay",), ("loss",)),
)
