"""Sets aside what comes of hyper-parameters that TensorFlow's graph rounds to float32 and a port does not."""

from collections.abc import Callable
from typing import TypeVar

from parity.judge.result import Cause, FirstDifference, Level

Recording = TypeVar("Recording")
EARLY = ("init", "fresh")
OF_UPDATES = ("slot/", "var/", "ema/", "state/", "the updates")


def set_aside_rounding(
    recorded: Recording,
    function: Level,
    again: Callable[[], tuple[Recording, Level]],
    own_optimizer: bool,
    what: str = "hyper-parameters",
) -> tuple[Recording, Level]:
    """Returns what was recorded and level 1 with the port's hyper-parameters rounded alike, where that changes anything.

    The graph holds float32 hyper-parameters, `torch.optim` doubles: an effect of 1e-8 to 1e-5 that is a fact about the port
    and no bug. Rounding the port's own shows whether there is anything else. Momenta of batch norm always are its own.

    Args:
      recorded: the port as it is.
      function: level 1 of it.
      again: records and judges the port once more, its hyper-parameters rounded.
      own_optimizer: whether the port brings its optimizer or its schedule.
      what: is rounded, in words.
    """
    first = function.first_difference
    if first is None or first.check.run in EARLY:
        return recorded, function
    if first.quantity != "stat" and not (own_optimizer and of_the_optimizer(first)):
        return recorded, function
    rounded, level = again()
    again_first = level.first_difference
    if again_first is not None and again_first.check[:3] == first.check[:3]:
        return recorded, function  # it is not what rounding alone makes
    effect = max((check.of_scale for check in function.checks if check.run == "lockstep"), default=0.0)
    level.notes.insert(
        0,
        f"up to float32 {what}: the graph holds them rounded to float32, the port does not, which alone makes "
        f"differences of {effect:.1g} of the scale (first in {first.check.key}); judged with the port's rounded alike",
    )
    return rounded, level


def of_the_optimizer(first: FirstDifference) -> bool:
    """Returns whether a difference is in what optimizers compute, or in what schedules do."""
    return first.quantity in ("slot", "var") or first.check.key == "state/learning_rate"


def but_for_rounding(
    find: Callable[[Recording], list[Cause]],
    recorded: Recording,
    again: Callable[[], tuple[Recording, Level]],
    own_optimizer: bool,
) -> list[Cause]:
    """Returns the causes of further differences that the rounding of hyper-parameters does not make by itself.

    Behind a first difference that has nothing to do with updates these have not been judged with hyper-parameters rounded
    alike.

    Args:
      find: names causes in what was recorded.
      recorded: the port as it is.
      again: records and judges the port once more, its hyper-parameters rounded.
      own_optimizer: whether the port brings its optimizer or its schedule.
    """
    found = find(recorded)
    if own_optimizer and any(cause.explains and cause.explains.key.startswith(OF_UPDATES) for cause in found):
        return find(again()[0])
    return found
