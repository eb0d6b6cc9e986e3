"""Finds where a learning rate comes from: a number, the steps that were made, or what the script feeds."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from parity.experiment.replay.script import Part
from parity.port.source.code import number
from parity.port.source.form import indented, wrapped
from parity.port.source.functions import Names
from parity.port.tower.ops import Tensor
from parity.port.tower.simplify import number_of
from parity.port.training.rules import with_leaves
from parity.port.training.schedules import STEP_ARGUMENT, step_plus, written_schedule
from parity.port.training.values import FED_LEAF, folded, leaves_of
from parity.trace import GLOBAL_STEP, parse_key
from parity.trace.escape import one_line

RATE_ARGUMENT = "learning_rate"  # of the function that makes an optimizer whose rate is fed


class Rate(NamedTuple):
    """A learning rate as source.

    Fields:
      first: an expression of the rate of the first step.
      block: lines of the module that define the schedule; empty where there is none.
      schedule: its name, "" where there is none.
      fed: what the script feeds or sets it by, "" where it does not.
      missing: why it cannot be written, "" where it is.
    """

    first: str
    block: Sequence[str] = ()
    schedule: str = ""
    fed: str = ""
    missing: str = ""


def rate_of(tensor: Tensor, ahead: Mapping[str, int], called: str, names: Names) -> Rate:
    """Returns a learning rate.

    Args:
      tensor: of the graph, folded.
      ahead: by leaf that counts the steps, how far it is ahead of them.
      called: what its schedule is to be called.
      names: where the script's own names come from.
    """
    constant = number_of(tensor)
    if constant is not None:
        return Rate(number(constant).text)
    others = sorted(leaves_of(tensor) - set(ahead))
    if others:
        # What the script feeds, or assigns between its steps, no graph knows.
        return Rate(RATE_ARGUMENT, fed=", ".join(each.removeprefix(FED_LEAF) for each in others))
    (of_step,) = folded(with_leaves([tensor], {leaf: step_plus(offset) for leaf, offset in ahead.items()}))
    written = written_schedule(of_step, names)
    if written.unknown:
        return Rate("0.0", missing=f"has ops that are not known: {', '.join(sorted({*written.unknown}))}")
    line = names.lines(tensor.op)
    comment = f"  # {one_line(line)}" if line else ""
    if written.expression:
        block = wrapped(f"{called} = {written.expression}{comment}")
    else:
        block = [f"def {called}({STEP_ARGUMENT}: int) -> float:{comment}", *indented(written.body)]
    return Rate(f"{called}(0)", block, called)


def counters_ahead(part: Part) -> dict[str, int]:
    """Returns by leaf how far each counter is ahead of the steps that were made; one that counts otherwise is left out.

    What was recorded decides: a counter is one more after each step.
    """
    courses: dict[str, list[float]] = {}
    for step in part.steps:
        file = part.trace.step(step)
        for text in file.names("state"):
            own = part.own(text)
            if own is not None and not file.shape(text):
                courses.setdefault(own, []).append(float(file.read(text)))
    made = courses.get(GLOBAL_STEP, [0.0])[0] if not part.name else 0.0
    return {
        prefix + leaf: round(course[0] - made)
        for prefix in {"", part.prefix}
        for leaf, course in courses.items()
        if len(course) == len(part.steps)
        and parse_key(leaf).name != RATE_ARGUMENT
        and all(value == course[0] + place for place, value in enumerate(course))
    }
