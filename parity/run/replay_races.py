"""Says where a recorded script's own numbers are not what its graph says, though no rounding explains it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from parity.judge.levels.function import LIMIT, Lockstep
from parity.judge.metrics import Array, distance, norm
from parity.judge.result import Check
from parity.mapping.states import Tensors
from parity.run.empty_gradients import UPDATED, empty_in
from parity.run.replay_beside import left_by
from parity.run.replay_part import Part
from parity.trace import SHADOW_ASIDE, SHADOW_ASIDE_WITH_INPUTS, Trace, parse_key

FAR = 2.0**14  # unit roundoffs of float32: more than rounding does in anything but deep nets, less than any race seen


def race_notes(part: Part, traces: Lockstep, shadow: Trace, checks: Sequence[Check]) -> list[str]:
    """Returns what a report says of a script whose own numbers are far from those of its graph.

    What float32 makes of a gradient of nothing but rounding is far from float64, and so is a gradient at a kink: neither
    is a race.

    Args:
      part: of the recorded trace.
      traces: of the lockstep runs.
      shadow: the float64 shadow of the trace.
      checks: of level 1.
    """
    worst: dict[str, tuple[float, str]] = {}
    empty = empty_in(checks)
    for number in part.steps:
        rough, exact = traces.reference32.step(number), traces.reference64.step(number)
        total = float(sum(norm(exact.read(text)) ** 2 for text in exact.names() if text.startswith("grad/")) ** 0.5)
        beside = _beside(part, shadow, number, SHADOW_ASIDE), _beside(part, shadow, number, SHADOW_ASIDE_WITH_INPUTS)
        for text in rough.names():
            key, one = parse_key(text), rough.read(text)
            if one.dtype.kind != "f" or key.quantity in ("state", "feed"):
                continue
            if key.quantity in UPDATED and (number, key.name) in empty:
                continue
            wanted = exact.read(text)
            size = norm(wanted)
            size = max(size, 1e-3 * total) if key.quantity in ("grad", "tower_grad") else size
            apart = 0.0 if any(_jumps(one, wanted, each.get(text)) for each in beside) else distance(one, wanted)
            units = apart / (2.0**-24 * size) if size else 0.0
            worst[key.quantity] = max(worst.get(key.quantity, (0.0, "")), (units, f"{text} of step {number}"))
    return [
        f"the script's own {quantity} is not what its graph says: {where} is {units:.2g} unit roundoffs from it. "
        "It races, or changes variables between its steps; level 1 judges what the graph says."
        for quantity, (units, where) in worst.items()
        if units > FAR
    ]


def _beside(part: Part, shadow: Trace, number: int, name: str) -> Tensors:
    aside = left_by(shadow, name)
    if aside is None or number not in aside.step_numbers:
        return {}
    moved: Literal["weights", "inputs"] = "weights" if name == SHADOW_ASIDE else "inputs"
    return replace(part, aside=moved).tensors(number, aside.step(number))


def _jumps(one: Array, wanted: Array, beside: Array | None) -> bool:
    """Tells whether a number is no farther from float64's than what a move of weights and inputs by 2^-30 makes of that."""
    return beside is not None and distance(one, wanted) <= LIMIT * distance(beside, wanted)
