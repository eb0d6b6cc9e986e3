"""Judges a replayed port by both orders of a script that reads a counter or a slot in no order with its update."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from parity.experiment.replay.ill_conditioned import left_by
from parity.experiment.replay.script import Part
from parity.judge.level import reason_from
from parity.judge.levels.function import Lockstep
from parity.judge.metrics import distance
from parity.judge.result import Check, Level, decide
from parity.mapping.trace_map import Join
from parity.trace import SHADOW_OTHER_ORDER, Trace, parse_key
from parity.trace.arrays import Tensors

OTHER = "as in the other order of the script's race"
FREE_RUN_IN_OTHER_ORDER = (
    "the script races, and the port takes the other order: a free run leaves every step to another one"
)


IN_ANOTHER_ORDER = "{judged:,} tensors, some of them in the other order of the script's race"


class OtherOrder:
    """What the steps of a script leave in the order that it did not take.

    Args:
      part: of the recorded trace.
      shadow: the float64 shadow of the trace.
    """

    def __init__(self, part: Part, shadow: Trace) -> None:
        self.racing: list[str] = list(shadow.facts.get("racing", []))
        other = left_by(shadow, SHADOW_OTHER_ORDER) if self.racing else None
        steps = [number for number in part.steps if other and number in other.step_numbers]
        self._values: dict[int, Tensors] = {
            number: part.tensors(number, other.step(number)) for number in steps if other is not None
        }

    def function(self, checks: list[Check], join: Join, traces: Lockstep) -> list[Check]:
        """Returns the checks of level 1 with those settled in which the port takes the other order."""
        settled = [self._settled(check, join, traces.candidate64, check.allowed) for check in checks]
        # Nothing took the other order: the free run is judged as ever.
        if settled == checks:
            return checks
        # One step in the other order leads the free run elsewhere for good.
        return [_left_to_the_order(check) for check in settled]

    def float32(self, level: Level, join: Join, traces: Lockstep) -> Level:
        """Returns level 2 with those checks settled; what float32 rounds is that of the order that the script took."""
        settled = []
        for check in level.checks:
            # What float32 rounds of the order that the script took stands for that of the other.
            rough = 0.0
            if check.verdict == "different" and self._has(check):
                one, other = (
                    trace.step(check.step).read(check.key) for trace in (traces.reference32, traces.reference64)
                )
                rough = distance(one, other)
            settled.append(self._settled(check, join, traces.candidate32, check.allowed + rough))
        if settled == level.checks or level.first_difference is None:
            return level
        verdict = decide(settled)
        first = level.first_difference if verdict != "same" else None
        reason = reason_from(settled, IN_ANOTHER_ORDER)
        return replace(level, verdict=verdict, checks=settled, first_difference=first, reason=reason)

    @property
    def is_known(self) -> bool:
        """Whether the shadow holds a step in the other order."""
        return bool(self._values)

    def notes(self, checks: Sequence[Check]) -> list[str]:
        """Returns what a report says of the race."""
        if not self.racing:
            return []
        other = sum(check.note == OTHER for check in checks)
        return [
            f"the script races: an update reads {', '.join(self.racing)} in no order with what writes it, so that a step "
            f"has two right results. {other} tensors are what the other order than the script's gives"
        ]

    def _has(self, check: Check) -> bool:
        return check.run == "lockstep" and check.key in self._values.get(check.step, {})

    def _settled(self, check: Check, join: Join, candidate: Trace, allowed: float) -> Check:
        if check.verdict != "different" or not self._has(check):
            return check
        value = join.read(parse_key(check.key), candidate.step(check.step))
        wanted = self._values[check.step][check.key]
        if value is None or value.shape != wanted.shape:
            return check
        difference = distance(value, wanted)
        if not difference <= allowed:  # NaN is not
            return check
        return check._replace(verdict="same", difference=difference, allowed=allowed, note=OTHER)


class ScriptRace(NamedTuple):
    """The rule about a script's race: what is right in the order that the script did not take.

    Fields:
      orders: what the other order leaves.
      join: names and layouts.
      traces: of the lockstep runs.
    """

    orders: OtherOrder
    join: Join
    traces: Lockstep
    name: str = "race"

    def applies(self, checks: Sequence[Check]) -> bool:
        """Returns whether the other order is known and anything differs."""
        return self.orders.is_known and any(check.verdict == "different" for check in checks)

    def __call__(self, checks: list[Check]) -> list[Check]:
        """Returns the checks, those judged again in which the port takes the other order."""
        return self.orders.function(checks, self.join, self.traces)


def _left_to_the_order(check: Check) -> Check:
    if check.run != "free" or check.verdict != "different":
        return check
    return check._replace(verdict="not_run", difference=0.0, allowed=0.0, note=FREE_RUN_IN_OTHER_ORDER)
