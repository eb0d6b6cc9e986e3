"""Runs a step again with what was found fixed, and says what differs next."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np

from parity.diagnose import Evidence
from parity.diagnose.catalogue import Trait, causes_with
from parity.diagnose.detectors.inputs import examples_read
from parity.diagnose.interventions.protocol import Change, Changed, RepeatsOnward, Undone
from parity.judge.judge import Allowed, MeasuredPair, TensorPair, first_beyond
from parity.judge.metrics import worst
from parity.judge.result import Cause, Check, FirstDifference
from parity.mapping.trace_map import Join
from parity.trace import TensorFile, Trace, parse_key
from parity.trace.arrays import Array, Tensors

LEAST_ALLOWED = 1e-12  # of a tensor's norm: 9,000 roundings of float64, where no check says what rounding allows


@dataclass(frozen=True)
class Behind(Evidence):
    """Evidence from a run in which something was taken out of the way.

    Attributes:
      hidden: variables whose gradient has to pass it, and is therefore none of its own.
    """

    hidden: frozenset[str] = frozenset()

    def pairs(self, step: int, quantity: str, slot: str = "", tower: str = "") -> Iterator[tuple[str, Array, Array]]:
        """Yields name, reference and candidate of every tensor that can be told."""
        for name, one, other in super().pairs(step, quantity, slot, tower):
            if quantity not in ("tower_grad", "grad") or name not in self.hidden:
                yield name, one, other


def allowed_at(step: int, checks: Iterable[Check]) -> dict[str, float]:
    """Returns by the reference's names what level 1 allows in a step of the lockstep."""
    return {check.key: check.allowed for check in checks if (check.run, check.step) == ("lockstep", step)}


def next_difference(
    basis: Behind, step: int, allowed: Mapping[str, float], quantities: Collection[str], layers: Collection[str] = ()
) -> FirstDifference | None:
    """Returns the first tensor of some quantities that differs, or None.

    Args:
      basis: the evidence.
      step: its number.
      allowed: by the reference's names the largest difference that counts as rounding; others are passed over.
      quantities: where to look.
      layers: outputs that are given, and passed over too.
    """

    def allowance(pair: MeasuredPair) -> Allowed:
        return Allowed(
            allowed[pair.text] or LEAST_ALLOWED * pair.size, pair.size
        )  # what came in another shape was allowed nothing

    pairs = (pair for pair in _pairs(basis, step, quantities, layers) if pair.text in allowed)
    found = first_beyond("lockstep", pairs, allowance)
    if found is None:
        return None
    check, (_, key, _, one, other, *_) = found
    return FirstDifference(check, key.quantity, key.name, key.tower, worst(one, other))


def _pairs(basis: Behind, step: int, quantities: Collection[str], layers: Collection[str]) -> Iterator[TensorPair]:
    one_file, other_file = basis.reference.step(step), basis.candidate.step(step)
    for key, text in basis.join.ordered(one_file.names()):
        given = key.quantity == "act" and key.name in layers
        if key.quantity not in quantities or given or (key.quantity == "tower_grad" and key.name in basis.hidden):
            continue
        one, other = one_file.read(text), basis.join.read(key, other_file)
        if other is not None and other.shape == one.shape:
            yield TensorPair(step, key, text, one, other)


class Mended(NamedTuple):
    """A step in which one bug is mended, or in which the reference has it too.

    Fields:
      evidence: of that step alone.
      again: runs it once more.
    """

    evidence: Behind
    again: RepeatsOnward


class _LastStep:
    # A trace of one step: what was run twice counts the second time.
    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self.facts = trace.facts
        self.step_numbers = trace.step_numbers[:1]

    def step(self, number: int) -> TensorFile:
        return self._trace.step(self._trace.step_numbers[-1])


class _WithChange:
    # Repeats steps of a candidate that has one thing changed in all of them, or of a reference that is given other
    # examples.
    def __init__(
        self, again: RepeatsOnward, change: Change | None = None, taken: Changed = lambda batch: batch
    ) -> None:
        self._again = again
        self._change = change or Change("", "", "", "")
        self._taken = taken

    @property
    def towers(self) -> int:
        return self._again.towers

    @property
    def batch_norm_updates(self) -> str:
        return self._again.batch_norm_updates

    def batch(self, step: int) -> Tensors:
        return self._change.batch(self._again.batch(step))

    def state(self, step: int) -> Tensors:
        return self._change.state(self._again.state(step))

    def repeat(
        self,
        step: int,
        batch: Changed,
        state: Changed,
        twice: bool = False,
        cut: bool = False,
        *,
        ahead: Changed | None = None,
    ) -> Trace:
        traced = self._again.repeat(
            step,
            lambda own: batch(self._change.batch(own)),
            lambda own: state(self._change.state(own)),
            twice or self._change.twice,
            cut,
            ahead=ahead,
        )
        # Where the batch is fed twice the trace has two steps; whoever asks wants the second, and asks for one.
        return cast("Trace", _LastStep(traced))

    def repeat_seeded(self, step: int, seed: int) -> Trace:
        return self._again.repeat_seeded(step, seed)

    def reference_batch(self, step: int) -> Tensors:
        return self._again.reference_batch(step)

    def translated_batch(self, batch: Tensors) -> Tensors:
        return self._again.translated_batch(batch)

    def repeat_built_anew(self, step: int) -> Trace:
        return self._again.repeat_built_anew(step)

    def repeat_with_batch_norm(self, step: int, over_all_ranks: bool | None) -> Trace:
        return self._again.repeat_with_batch_norm(step, over_all_ranks)

    def repeat_reference(
        self, step: int, batch_norm_updates: str | None = None, batch: Changed = lambda batch: batch
    ) -> Trace | None:
        return self._again.repeat_reference(step, batch_norm_updates, lambda own: self._taken(batch(own)))


def mended(first: FirstDifference, cause: Cause, again: RepeatsOnward, evidence: Evidence) -> Mended | None:
    """Returns the step of a first difference with its cause mended, or None where no experiment mends it.

    What an experiment undid is undone in the candidate. Where the ranks read other examples, the reference is given those.

    Args:
      first: the first difference.
      cause: what it was found to be.
      again: runs steps of the recorded case once more.
      evidence: the float64 lockstep traces.
    """
    step = first.check.step
    if isinstance(cause, Undone):
        changed = _WithChange(again, cause.change)
        candidate = changed.repeat(step, lambda batch: batch, lambda state: state)
        hidden = _changed(again.state(step), changed.state(step), evidence.join, evidence.reference.step(step))
        basis = Behind(evidence.join, evidence.reference, candidate, evidence.states, evidence.towers, hidden)
        return Mended(basis, changed)
    read = examples_read(first, evidence) if cause.name in causes_with(Trait.OTHER_EXAMPLES) else None
    # The reference can be given the same examples only where every input has as many as were read.
    sizes = {len(value) for value in again.reference_batch(step).values() if value.ndim}
    if read is None or sizes != {len(read)}:
        return None
    following = _WithChange(again, taken=lambda batch: {name: np.asarray(value[read]) for name, value in batch.items()})
    followed = following.repeat_reference(step)
    if followed is None:
        return None
    return Mended(Behind(evidence.join, followed, evidence.candidate, evidence.states, evidence.towers), following)


def _changed(before: Tensors, after: Tensors, join: Join, file: TensorFile) -> frozenset[str]:
    # Gradients of a weight that was itself changed come in its changed form.
    moved = {parse_key(text).name for text in before if not np.array_equal(before[text], after[text])}
    names = {key.name for key in file.keys("tower_grad")}
    return frozenset(name for name in names if moved & set(join.parts(name)))
