"""Sets aside what comes of hyper-parameters that TensorFlow's graph rounds to float32 and a port does not."""

from collections.abc import Callable
from typing import TypeVar

from parity.judge.result import Level

Recording = TypeVar("Recording")
EARLY = ("init", "fresh")


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
    of_the_optimizer = first.quantity in ("slot", "var") or first.check.key == "state/learning_rate"
    if first.quantity != "stat" and not (own_optimizer and of_the_optimizer):
        return recorded, function
    rounded, level = again()
    if level.verdict != "same" and level.first_difference == first:
        return recorded, function
    effect = max((check.of_scale for check in function.checks if check.run == "lockstep"), default=0.0)
    level.notes.insert(
        0,
        f"up to float32 {what}: the graph holds them rounded to float32, the port does not, which alone makes "
        f"differences of {effect:.1g} of the scale (first in {first.check.key}); judged with the port's rounded alike",
    )
    return rounded, level
