"""What hypotheses about a difference are tested against."""

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from typing import Any, NamedTuple, Self, TypeVar, cast

import numpy as np

from parity.judge.metrics import is_finite, norm
from parity.judge.result import Explained, FirstDifference
from parity.mapping.trace_map import Join
from parity.trace import GRADIENTS, PER_VARIABLE, TensorFile, Trace, is_learning_rate, key_of, parse_key, tower_order
from parity.trace.arrays import Array

# Tolerances that all hypotheses share, relative to a norm. tests/parity/diagnose/test_limits_of_causes.py holds each just
# inside and just outside.

# Of float64 traces. Gradients of right ports are 9e-15 apart in three layers and 5.8e-12 in 40 layers of convolution,
# batch norm and ReLU; the faintest bugs known move theirs by more than 1e-7.
CLOSE = 1e-9
# Of float32 traces, which is all that `parity compare` may have: gradients of right ports are at most 2.3e-6 apart in
# three layers; in twelve, where rounding switches a ReLU, 1e-3, and no cause is told from them.
CLOSE32 = 1e-4
# Of losses that the graph computes in float32 though it is fed float64: u32 = 6e-8 for each of some ten operations.
CLOSE_SINGLE = 1e-6
# Of a difference, by a hypothesis that explains it. Chosen: a second bug of a thousandth of the first still shows.
LEFT = 1e-3
# Of what one layer or term gives, computed again from what was recorded of its inputs: in float64 a sum of a million
# products rounds by sqrt(n) u = 1e-13, a decade and more below this.
CLOSE_OUTPUT = 1e-10
ALIKE = 1e-6  # numbers that count as one: losses of towers that saw the same examples, a bias with one initial value
ROUNDING = 1e-14  # of float64 values computed another way: 90 u64 (1.1e-16), as sqrt(n) u of a sum of n = 8,000
# Of the largest gradient of a step: zero but for rounding, as in front of a batch norm, where float64 leaves 1e-16 of
# the others' scale and float32 7e-8.
EMPTY_GRADIENT = 1e-8
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


class Fit(NamedTuple):
    """A target as a combination of columns.

    Fields:
      coefficients: one for each column.
      residual: norm of what is left, over the norm of the target.
    """

    coefficients: tuple[float, ...]
    residual: float


def least_squares(matrix: Array, target: Array) -> Array | None:
    """Returns the coefficients of columns whose combination is nearest to a target; None where there are no single ones.

    There are none of numbers that are not finite, of which numpy's decomposition would not converge.

    Args:
      matrix: (elements, columns).
      target: (elements,).
    """
    with np.errstate(all="ignore"):
        lengths = np.linalg.norm(matrix, axis=0)
        scaled = matrix / lengths
    # Looked at once scaled: a column of the smallest numbers, or one of zeros, is finite before it.
    if not (is_finite(scaled) and is_finite(target)):
        return None
    # Columns are scaled to one length first, so that the cut-off of singular values, 1e-9 of the largest, means columns
    # that are parallel to nine digits: their shares cannot be told apart.
    found, _, rank, _ = np.linalg.lstsq(scaled, target, rcond=1e-9)
    return found / lengths if rank == matrix.shape[1] else None


def fit(columns: Sequence[Sequence[Array]], targets: Sequence[Array]) -> Fit | None:
    """Fits tensors by one combination of columns for all of them, or returns None where that cannot be told.

    Args:
      columns: for each tensor its columns, arrays of the tensor's shape.
      targets: the tensors.
    """
    if not targets:
        return None
    matrix = np.concatenate([np.stack([part.reshape(-1) for part in each], axis=1) for each in columns])
    target = np.concatenate([each.reshape(-1) for each in targets])
    if not norm(target) > 0.0 or len(target) <= matrix.shape[1]:
        return None
    # min |M c - y| over the elements of all tensors.
    coefficients = least_squares(matrix, target)
    if coefficients is None:
        return None
    return Fit(tuple(float(each) for each in coefficients), norm(target - matrix @ coefficients) / norm(target))


def common_factor(pairs: list[tuple[Array, Array]], close: float = CLOSE) -> float | None:
    """Returns the factor that turns every reference into its candidate, or None where no single one does.

    Tensors that are zero but for rounding say nothing and are left out.
    """
    telling = _telling(pairs)
    if not telling:
        return None
    # The least squares over all tensors at once: f = sum <x, y> / sum <x, x>; each of them has to follow it by itself.
    square = sum(float(np.vdot(one, one)) for one, _ in telling)
    factor = sum(float(np.vdot(one, other)) for one, other in telling) / square
    if all(norm(other - factor * one) <= close * norm(one) * abs(factor) for one, other in telling):
        return factor
    return None


def told_factor(pairs: list[tuple[Array, Array]], close: float = CLOSE) -> float | None:
    """Returns a common factor other than 1, or None where what it leaves is not small beside what differs.

    Numbers that are alike tell none: whatever they become, there is a number that they are multiplied by.
    """
    factor, telling = common_factor(pairs, close), _telling(pairs)
    if factor is None or rounds_to_one(factor) or alike([one for one, _ in telling]):
        return None
    # Rounding is no factor, and a factor of rounding would explain all of it.
    if all(norm(other - one) <= ROUNDING * norm(one) for one, other in telling):
        return None
    return factor if all(explained(other - factor * one, other - one, one) for one, other in telling) else None


def rounds_to_one(factor: float) -> bool:
    """Returns whether a factor is 1 in the six digits that a cause is named with: then it says nothing."""
    return f"{factor:.6g}" == "1"


def alike(values: Sequence[Array]) -> bool:
    """Returns whether some arrays hold no two numbers that differ by more than a millionth."""
    least = min((float(each.min()) for each in values if each.size), default=0.0)
    largest = max((float(each.max()) for each in values if each.size), default=0.0)
    return largest - least <= ALIKE * max(abs(least), abs(largest))


def _telling(pairs: list[tuple[Array, Array]]) -> list[tuple[Array, Array]]:
    # What is zero but for rounding has no factor: noise over noise.
    largest = max((norm(one) for one, _ in pairs), default=0.0)
    return [(one, other) for one, other in pairs if norm(one) > EMPTY_GRADIENT * largest]


def explained(left: Array, apart: Array, size: Array) -> bool:
    """Returns whether a hypothesis explains a difference: |left| <= LEFT |apart| + ROUNDING |size|.

    To be close to the values is not enough: where a bug is small, everything is.

    Args:
      left: what the hypothesis leaves, float64 of any shape.
      apart: what differs, of that shape.
      size: the values.
    """
    return norm(left) <= LEFT * norm(apart) + ROUNDING * norm(size) < math.inf


def share_explained(first: FirstDifference, parts: Iterable[tuple[Array, Array, Array]]) -> Explained:
    """Returns what part of a difference, here and in the other tensors that it is seen in, a hypothesis explains.

    Args:
      first: the difference.
      parts: for each tensor what the hypothesis makes of it, the candidate's and the reference's.
    """
    told = [(other - made, other - one) for made, other, one in parts]
    # Norms over all tensors together: sqrt(sum |x_i|^2), so that a small tensor counts by what it holds.
    left, apart = (float(np.sqrt(sum(norm(each[place]) ** 2 for each in told))) for place in (0, 1))
    share = max(0.0, 1.0 - left / apart) if apart > 0.0 else 0.0
    return Explained(first.check.step, first.check.key, share)


def explained_together(parts: Iterable[tuple[Array, Array, Array]]) -> bool:
    """Returns whether a hypothesis explains what differs in several tensors taken together.

    Args:
      parts: for each tensor what the hypothesis makes of it, the candidate's and the reference's.
    """
    told = [(other - made, other - one, one) for made, other, one in parts]
    left, apart, size = (np.sqrt(sum(norm(each[place]) ** 2 for each in told)) for place in range(3))
    return bool(left <= LEFT * apart + ROUNDING * size < math.inf)


def is_close(one: float, other: float, close: float = CLOSE) -> bool:
    """Returns whether two factors are the same but for rounding."""
    return abs(one - other) <= close * abs(other)


def same_values(one: Array, other: Array, close: float = CLOSE) -> bool:
    """Returns whether two arrays are equal but for rounding; what is not finite has to be the same, as -inf of a mask."""
    if one.shape != other.shape:
        return False
    finite = np.isfinite(one)
    if not finite.all():
        if not np.array_equal(one[~finite], other[~finite], equal_nan=True):
            return False
        one, other = one[finite], other[finite]
    return bool(norm(one - other) <= close * norm(one))


def same_in_order(reference: Any, candidate: Any, close: float = CLOSE) -> bool:
    """Returns whether two arrays or numbers, of whatever shapes, are the same one after the other; False for what is none.

    What is not finite has to stand in the same places, and does not count.
    """
    arrays = [np.asarray(each) for each in (reference, candidate)]
    if arrays[0].size != arrays[1].size or any(each.dtype.kind not in "fiub" for each in arrays):
        return False
    one, other = (each.astype(np.float64).reshape(-1) for each in arrays)
    finite = np.isfinite(one)
    if not np.array_equal(finite, np.isfinite(other)):
        return False
    return bool(norm(one[finite] - other[finite]) <= close * norm(one[finite]))


def reproduces(made: Array, reference: Array, candidate: Array) -> bool:
    """Returns whether an array is the candidate's: what it leaves is rounding, and small beside what differs."""
    if made.shape != candidate.shape:
        return False
    finite = np.isfinite(candidate)
    if not finite.all():
        # An infinite size allows anything: of what is not finite, as -inf of a mask, nothing is measured.
        if not np.array_equal(made[~finite], candidate[~finite], equal_nan=True):
            return False
        made, reference, candidate = made[finite], reference[finite], candidate[finite]
    left, apart = norm(made - candidate), norm(reference - candidate)
    return bool(left <= LEFT * apart and left <= CLOSE * norm(candidate))
