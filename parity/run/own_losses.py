"""Places a difference of gradients at the loss that they are of, where an optimizer minimises a loss of its own."""

from collections.abc import Collection

from parity.diagnose import Evidence
from parity.judge.metrics import worst
from parity.judge.result import FirstDifference, Level
from parity.trace import parse_key


def place_at_own_loss(level: Level, losses: Collection[str], evidence: Evidence) -> None:
    """Has a level's first difference be a loss that differs, rather than the gradient of a tower that follows from it.

    Losses that are returned beside the first stand among the metrics, at the end of a step.

    Args:
      level: changed in place.
      losses: names of the outputs that optimizers minimise.
      evidence: the float64 lockstep traces.
    """
    first = level.first_difference
    if first is None or first.check.run != "lockstep" or first.quantity != "tower_grad":
        return
    differing = (each for each in level.checks if (each.run, each.verdict) == ("lockstep", "different"))
    keys = {(first.check.step, f"metric/{name}") for name in losses}
    check = next((each for each in differing if (each.step, each.key) in keys), None)
    if check is None:
        return
    key = parse_key(check.key)
    one = evidence.reference.step(check.step).read(check.key)
    other = evidence.join.read(key, evidence.candidate.step(check.step))
    shown = worst(one, other) if other is not None and other.shape == one.shape else None
    where = f"the loss {key.name}, which an optimizer of its own minimises"
    level.first_difference = FirstDifference(check, "loss", key.name, "", shown, where, decisive=first)
