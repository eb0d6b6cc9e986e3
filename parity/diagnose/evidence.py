"""What hypotheses about a difference are tested against."""

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from typing import Any, NamedTuple, Self, TypeVar, cast

import numpy as np

from parity.diagnose.agreement import CLOSE, CLOSE32, CLOSE_SINGLE
from parity.judge.metrics import is_finite
from parity.judge.result import FirstDifference
from parity.mapping.trace_map import Join
from parity.trace import GRADIENTS, PER_VARIABLE, TensorFile, Trace, is_learning_rate, key_of, parse_key, tower_order
from parity.trace.arrays import Array

ROOM = 1 << 23  # numbers that may be kept for the next hypothesis, each result taken to be as large as all variables

RATE = "learning_rate"  # the counter that every optimizer has
OF_AN_OPTIMIZER = GRADIENTS | {
    "slot",
    "var",
}  # what is of one optimizer where there are several: averages are the model's

Made = TypeVar("Made")


class Owners(NamedTuple):
    """What belongs to which optimizer at a step.

    Fields:
      sections: of the optimizers, "" for the first, in order.
      of: dict of variable to the section of the optimizer that trains it; without those that nothing in a trace tells of.
    """

    sections: list[str]
    of: dict[str, str]


@dataclass(frozen=True)
class Evidence:
    """The float64 traces of both sides, made from the same state before every step.

    Attributes:
      join: names and layouts.
      reference, candidate: the traces.
      states: step k holds the state before step k, in the reference's names; None where the steps were not made from
        the same states.
      towers: their number.
      section: the optimizer that it is about, "" for the first: its variables, slots, counters and settings; None for all.
    """

    join: Join
    reference: Trace
    candidate: Trace
    states: Trace | None
    towers: int
    section: str | None = field(default=None, kw_only=True)
    _kept: OrderedDict[Hashable, Any] = field(default_factory=OrderedDict, init=False, repr=False, compare=False)
    # By step, and never given up: `before` asks for them of every variable, and they are names alone.
    _owned: dict[int, Owners] = field(default_factory=dict, init=False, repr=False, compare=False)

    def once(self, what: Hashable, make: Callable[[], Made]) -> Made:
        """Returns what is made of the traces, which many hypotheses ask for; made again where there is no room to keep it.

        Args:
          what: names it.
          make: makes it.
        """
        if what in self._kept:
            self._kept.move_to_end(what)
            return cast(Made, self._kept[what])
        made = make()
        self._kept[what] = made
        # Least recently used goes first. A model of more than ROOM numbers keeps nothing, and is read anew for every
        # hypothesis.
        while len(self._kept) > self._room:
            self._kept.popitem(last=False)
        return made

    @cached_property
    def _room(self) -> int:
        numbers = sum(math.prod(each.get("shape") or ()) for each in self.reference.variables.values())
        # 8,388,608 numbers are 64 MiB of float64; of small models 256 results are kept at most.
        return ROOM // max(numbers, 1 << 15)

    @property
    def steps(self) -> list[int]:
        """The steps that both sides have: a run of one step with something changed has no other."""
        return [step for step in self.reference.step_numbers if step in self.candidate.step_numbers]

    @property
    def is_whole(self) -> bool:
        """Whether it is about all that trains: what holds of all its variables holds of every variable."""
        return self.section is None

    @property
    def whole(self) -> Self:
        """The evidence about all optimizers together."""
        return self if self.is_whole else replace(self, section=None)

    def by_optimizer(self, step: int) -> list[Self]:
        """Returns the evidence about each optimizer; itself alone where there is one, or where it is about one."""
        sections = self._owners(step).sections
        return [self._about(section) for section in sections] if self.is_whole and len(sections) > 1 else [self]

    def of_optimizer(self, first: FirstDifference) -> Self:
        """Returns the evidence about the optimizer that makes what differs; itself where there is one, or none is known."""
        step = first.check.step
        if not self.is_whole or len(self._owners(step).sections) < 2:
            return self
        if first.quantity == "var":
            section = self._owners(step).of.get(first.name)
            return self if section is None else self._about(section)
        of_one = first.quantity == "slot" or is_learning_rate(first.check.key)
        return self._about(parse_key(first.check.key).section) if of_one else self

    def _about(self, section: str) -> Self:
        return self.once(("optimizer", section), lambda: replace(self, section=section))

    def _owners(self, step: int) -> Owners:
        if step not in self._owned:
            self._owned[step] = self._read_owners(step)
        return self._owned[step]

    def _read_owners(self, step: int) -> Owners:
        # Global counters are in no section, also where each optimizer has one: only a rate tells of a first optimizer.
        file = self.reference.step(step)
        found = {key.section for key in file.keys("slot", "state") if key.quantity == "slot" or key.name == RATE}
        sections = sorted(found | set(self.reference.facts.get("optimizers", ())))
        # A variable is its optimizer's that has slots for it. What has none is trained by the one that keeps none at all,
        # as plain gradient descent does; where several are such, nothing in a trace says which.
        of = {key.name: key.section for key in file.keys("slot")}
        without = [section for section in sections if section not in of.values()]
        if len(without) == 1:
            of |= {key.name: without[0] for key in file.keys("var") if key.name not in of}
        return Owners(sections, of)

    @property
    def close(self) -> float:
        """How near to each other numbers are that count as one, relative."""
        return CLOSE if self.reference.facts.get("precision", "float64") == "float64" else CLOSE32

    @property
    def close_losses(self) -> float:
        """How near to each other losses are that count as one, relative: everything in tf.losses computes in float32."""
        rough = any(self.reference.facts.get(name) for name in ("float32_in_float64", "inexact_in_float64"))
        return max(self.close, CLOSE_SINGLE) if rough else self.close

    def pairs(self, step: int, quantity: str, slot: str = "", tower: str = "") -> Iterator[tuple[str, Array, Array]]:
        """Yields name, reference and candidate of every tensor of a quantity that both sides have, finite on both."""
        if quantity in PER_VARIABLE and self._room:
            yield from self.once(
                ("pairs", step, quantity, slot, tower), lambda: list(self._read(step, quantity, slot, tower))
            )
        else:
            yield from self._read(step, quantity, slot, tower)

    def _read(self, step: int, quantity: str, slot: str, tower: str) -> Iterator[tuple[str, Array, Array]]:
        one_file, other_file = self.reference.step(step), self.candidate.step(step)
        of_it = [str(key) for key in one_file.keys(quantity) if (key.slot, key.tower) == (slot, tower)]
        if self.section is not None and quantity in OF_AN_OPTIMIZER:
            of_it = [text for text in of_it if self._owners(step).of.get(parse_key(text).name) == self.section]
        for key, text in self.join.ordered(of_it):
            one, other = one_file.read(text), self.join.read(key, other_file)
            # Wherever hypotheses fit numbers, they are finite float64 on both sides: norms and least squares need no
            # other test.
            if other is not None and other.shape == one.shape and is_finite(one) and is_finite(other):
                yield key.name, np.asarray(one, np.float64), np.asarray(other, np.float64)

    def applied(self, step: int) -> dict[str, tuple[Array, Array]]:
        """Returns what each side's optimizer was given: its clipped gradients where it records such, else the combined."""
        return self.once(("applied", step), lambda: self._applied(step))

    def _applied(self, step: int) -> dict[str, tuple[Array, Array]]:
        files = self.reference.step(step), self.candidate.step(step)
        found = {}
        for name, one, other in self.pairs(step, "grad"):
            key = key_of("clip", name)
            clipped = self.join.read(key, files[1])
            one = np.asarray(files[0].read(key), np.float64) if key in files[0] else one
            # A port that records no clipped gradients has applied what it combined.
            other = other if clipped is None else np.asarray(clipped, np.float64)
            if is_finite(one) and is_finite(other):
                found[name] = one, other
        return found

    def tower_names(self, step: int, quantity: str) -> list[str]:
        """Returns the towers that have a quantity, in order."""
        keys = [key for key, _ in self.join.ordered(self.reference.step(step).names()) if key.quantity == quantity]
        return sorted({key.tower for key in keys}, key=tower_order)

    def tower_of(self, first: FirstDifference) -> str:
        """Returns the tower that differs first: the first one of what is of none, as a statistic, or of all, as a metric."""
        return first.tower or next(iter(self.tower_names(first.check.step, "loss")), "")

    def slots(self, step: int) -> list[str]:
        """Returns the names of the reference's slots."""

        def read() -> list[str]:
            keys = self.join.ordered(self.reference.step(step).names())
            own = (key for key, _ in keys if key.quantity == "slot" and self.section in (None, key.section))
            return sorted({key.slot for key in own})

        return self.once(("slots", step), read)

    def before(self, step: int, quantity: str, name: str, slot: str = "") -> Array | None:
        """Returns a part of the state before a step, or None where there is none, or none that is finite."""
        section = self.section or (self._owners(step).of.get(name, "") if slot and self.is_whole else "")
        key = key_of(quantity, name, slot=slot, section=section if slot else "")
        file = self._state(step)
        found = np.asarray(file.read(key), np.float64) if file and key in file else None
        return found if found is not None and is_finite(found) else None

    def _state(self, step: int) -> TensorFile | None:
        states = self.states
        return self.once(("state", step), lambda: states.step(step)) if states is not None else None

    def counter(self, step: int, name: str) -> float | None:
        """Returns a counter before a step, the optimizer's own where it has one; None where there is none."""
        file = self._state(step)
        key = key_of("state", name, section=self.section or "")
        return float(file.read(key)) if file and key in file else None

    def learning_rate(self, step: int) -> float | None:
        """Returns the reference's learning rate of a step, or None where it is not known."""
        if self.is_whole and len(self._owners(step).sections) > 1:
            return None  # each has its own
        known = self.counter(step, RATE) or self.optimizers[0].get(RATE)
        return float(known) if isinstance(known, int | float) else None

    def candidate_rate(self, step: int) -> float | None:
        """Returns the candidate's learning rate of a step where its trace has it; None where it has none."""
        file = self.candidate.step(step)
        key = key_of("state", RATE, section=self.section or "")
        return float(file.read(key)) if key in file else None

    @property
    def optimizers(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The optimizer's facts: reference, candidate; empty where a side has none of it."""
        sides = self.reference.facts, self.candidate.facts
        if self.section:
            one, other = (facts.get("optimizers", {}).get(self.section, {}) for facts in sides)
        else:
            one, other = (facts.get("optimizer", {}) for facts in sides)
        return one, other


def once_of_a_step(make: Callable[[Evidence, int], Made]) -> Callable[[Evidence, int], Made]:
    """Has what is made of a step be made once of the same evidence, see `Evidence.once`."""

    @wraps(make)
    def kept(evidence: Evidence, step: int) -> Made:
        return evidence.once((make.__qualname__, step), lambda: make(evidence, step))

    return kept
