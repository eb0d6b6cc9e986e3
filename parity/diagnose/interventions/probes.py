"""Experiments that try something on both sides and see who follows."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from math import inf

import numpy as np

from parity.diagnose.agreement import CLOSE, ROUNDING
from parity.diagnose.catalogue import build_cause
from parity.diagnose.edits.edit import is_mask
from parity.diagnose.fitting import MOST_BY_ROUNDING
from parity.diagnose.interventions.protocol import Repeats
from parity.judge.metrics import distance, norm
from parity.judge.result import Cause, Explained, FirstDifference
from parity.mapping.trace_map import Join
from parity.trace import Trace, batch_input, parse_key
from parity.trace.arrays import Array, Tensors

BORDER_PIXELS = 3  # what a kernel of 7 reaches over the edge; images of less than four such borders are not shifted
LEFT_OF_LOSSES = 1e-6  # of what differs, by a number that is solved for
FOLLOWING_QUANTITIES = frozenset(["act", "metric", "loss"])
PROBE_STEP = 1e-12  # of the inputs: 4,500 ulps of float64 (2^-52), and 1e-5 of one of float32 (2^-23)
# What a format leaves in a result, relative, at least: a tenth or less of its unit roundoff, 2^-8, 2^-11 and 2^-24, for
# a mean over many rounded numbers comes out nearer than one of them.
FORMATS = ((3e-4, "bfloat16"), (3e-5, "float16"), (1e-10, "float32"))


@dataclass(frozen=True)
class Bench:
    """A step that can be run again.

    Attributes:
      first: the first difference, found in lockstep.
      recorder: has recorded the case; its sides still run.
      join: names and layouts.
      reference, candidate: the float64 lockstep traces.
      given: outputs that the candidate goes on from in place of its own, in its names and layouts.
    """

    first: FirstDifference
    recorder: Repeats
    join: Join
    reference: Trace
    candidate: Trace
    given: Tensors = field(default_factory=dict)

    @cached_property
    def wanted(self) -> Array:
        """The reference's tensor."""
        return np.asarray(self.reference.step(self.first.check.step).read(self.first.check.key))

    @cached_property
    def got(self) -> Array | None:
        """The candidate's tensor."""
        return self.join.read(parse_key(self.first.check.key), self.candidate.step(self.first.check.step))

    @cached_property
    def apart(self) -> float:
        """How far the candidate's tensor is from the reference's; inf where it has none of that shape."""
        got = self.got
        return distance(self.wanted, got) if got is not None and got.shape == self.wanted.shape else inf

    @cached_property
    def batch(self) -> Tensors:
        """The whole batch as the candidate is fed it."""
        return self.recorder.batch(self.first.check.step)

    @cached_property
    def state(self) -> Tensors:
        """The state before the step, in the candidate's names."""
        return self.recorder.state(self.first.check.step)

    @cached_property
    def widths(self) -> set[int]:
        """The sizes of the last axes of the reference's recorded layers."""
        file = self.reference.step(self.first.check.step)
        return {file.shape(text)[-1] for text in file.names("act") if len(file.shape(text)) == 2}

    def explains(self, left: float, was: float) -> Explained:
        """Returns what part of the first difference is explained by what leaves so much of so much."""
        # A tensor that came in another shape was infinitely far off: what gives it is all of the difference.
        share = 1.0 - left / was if 0.0 < was < inf else 1.0
        return Explained(self.first.check.step, self.first.check.key, share)

    def candidate_with(
        self,
        batch: Callable[[Tensors], Tensors] = lambda batch: batch,
        state: Callable[[Tensors], Tensors] = lambda state: state,
        twice: bool = False,
        ahead: Callable[[Tensors], Tensors] | None = None,
    ) -> Array | None:
        """Returns the candidate's tensor with one thing changed, or None where it has no other of that shape."""
        traced = self.recorder.repeat(
            self.first.check.step, batch, lambda before: {**state(before), **self.given}, twice, ahead=ahead
        )
        got = self._read(traced)
        return got if got is not None and np.isfinite(got).all() else None

    def losses_right_with(self, batch: Callable[[Tensors], Tensors], state: Callable[[Tensors], Tensors]) -> bool:
        """Whether the candidate gives the reference's losses with one thing changed.

        To a millionth of what differs; to rounding where nothing does, as in a loss that is made of something else, or where
        the candidate's own is not finite.
        """
        step = self.first.check.step
        traced = self.recorder.repeat(step, batch, lambda before: {**state(before), **self.given})
        made, own, wanted = traced.step(traced.step_numbers[-1]), self.candidate.step(step), self.reference.step(step)
        for name in wanted.names("loss"):
            found = [self.join.read(parse_key(name), file) for file in (made, own)]
            values = [np.asarray(each, np.float64) for each in (wanted.read(name), *found) if each is not None]
            if len(values) < 3:
                return False
            left, difference = (distance(values[0], each) for each in values[1:])
            # Turned round: of NaN every comparison is False.
            if not left <= LEFT_OF_LOSSES * (difference if difference < inf else 0.0) + ROUNDING * norm(values[0]):
                return False
        return True

    def makes_wrong(
        self,
        batch: Callable[[Tensors], Tensors],
        state: Callable[[Tensors], Tensors],
        twice: bool = False,
    ) -> bool:
        """Whether an output of the step that is the reference's no longer is with one thing changed: then it was no bug."""
        step = self.first.check.step
        traced = self.recorder.repeat(step, batch, lambda before: {**state(before), **self.given}, twice)
        made, own, wanted = traced.step(traced.step_numbers[-1]), self.candidate.step(step), self.reference.step(step)
        for text in wanted.names("act", "metric"):
            one, (was, now) = wanted.read(text), (self.join.read(parse_key(text), file) for file in (own, made))
            limit = CLOSE * norm(one)
            right = was is not None and was.shape == one.shape and distance(one, was) <= limit
            # The same numbers in another order: what is turned in front of a layer is right where the port turns it behind.
            kept = (
                now is not None and now.shape == one.shape and distance(np.sort(one, None), np.sort(now, None)) <= limit
            )
            if right and not kept:
                return True
        return False

    def reads(self, batch: Callable[[Tensors], Tensors]) -> bool:
        """Whether any loss or output of the candidate's step moves with a change of what goes in."""
        step = self.first.check.step
        made = [
            self.recorder.repeat(step, change, lambda state: {**state, **self.given})
            for change in (lambda unchanged: unchanged, batch)
        ]
        one, other = (traced.step(traced.step_numbers[-1]) for traced in made)
        names = [name for name in one.names(*FOLLOWING_QUANTITIES) if name in other]
        return any(not np.array_equal(one.read(name), other.read(name), equal_nan=True) for name in names)

    def candidate_once_more(self, seed: int | None = None) -> Array | None:
        """Returns the candidate's tensor of the same step made once more, finite or not; None where it has no such.

        Args:
          seed: of the candidate's random generators, where these are to be set.
        """
        step = self.first.check.step
        if seed is not None:
            return self._read(self.recorder.repeat_seeded(step, seed))
        return self._read(self.recorder.repeat(step, lambda batch: batch, lambda state: {**state, **self.given}))

    def _read(self, traced: Trace) -> Array | None:
        got = self.join.read(parse_key(self.first.check.key), traced.step(traced.step_numbers[-1]))
        return got if got is not None and got.shape == self.wanted.shape else None

    def reference_with(self, batch: Callable[[Tensors], Tensors]) -> Array | None:
        """Returns the reference's tensor on a changed batch, given in its own names and layouts; None where none runs."""
        traced = self.recorder.repeat_reference(self.first.check.step, None, batch)
        return None if traced is None else traced.step(self.first.check.step).read(self.first.check.key)


def _is_measured(value: Array) -> bool:
    """Whether an input holds quantities: a mask chooses, by a product or not, and has no precision."""
    return value.dtype.kind == "f" and not is_mask(value)


def ignored_input(bench: Bench) -> Cause | None:
    """The candidate gives the same whatever an input holds, and the reference does not."""
    # What is given follows no input, and a gradient that is zero follows nothing.
    if bench.got is None or bench.given or not bench.got.any():
        return None
    if bench.first.quantity == "tower_grad":  # the losses are the same, and they follow what the reference's follow
        return None
    of_the_graph = bench.recorder.reference_batch(bench.first.check.step)
    for text in [each for each in bench.batch if each in of_the_graph]:

        def rolled(batch: Tensors, text: str = text) -> Tensors:
            return {**batch, text: np.roll(batch[text], 1, 0)}

        # Every example gets its neighbour's: the input keeps all its numbers, so that nothing else can break.
        after = bench.candidate_with(rolled)
        if after is None or not np.array_equal(after, bench.got):
            continue
        followed = bench.reference_with(rolled)
        if followed is None or distance(followed, bench.wanted) <= bench.first.check.allowed:
            continue
        if bench.reads(rolled):
            continue  # something else comes of it: it is used, if not there
        plain = batch_input(text)
        return build_cause(
            "input_ignored",
            "whole",
            evidence=f"with the examples' {plain} exchanged, {bench.first.check.key} of the candidate stays the "
            "same to the last "
            "bit; "
            f"the reference's moves by {distance(followed, bench.wanted):.3g}",
            input=plain,
        )
    return None


def shifted_image(bench: Bench) -> Cause | None:
    """The port's first convolution sees the image shifted by a pixel: padding on the wrong side.

    Tried on images whose border is set to zero on both sides, so that nothing falls off where they are shifted back.
    """
    for text, value in bench.batch.items():
        if value.ndim != 4 or value.dtype.kind != "f" or bench.first.quantity != "act" or bench.given:
            continue
        # The candidate's batch may come with channels first or last; what is masked is what the reference has.
        for axes in ((1, 2), (2, 3)):
            # Of a smaller image the black border is most of it.
            if min(value.shape[axis] for axis in axes) <= 4 * BORDER_PIXELS:
                continue
            cause = _shifted_back(bench, text, axes)
            if cause:
                return cause
    return None


def _shifted_back(bench: Bench, text: str, axes: tuple[int, int]) -> Cause | None:
    own = bench.recorder.reference_batch(bench.first.check.step)
    image = next((name for name, value in own.items() if value.ndim == 4 and value.dtype.kind == "f"), None)
    if image is None:
        return None

    def masked(batch: Tensors) -> Tensors:
        value = np.zeros_like(batch[image])
        inner = slice(BORDER_PIXELS, -BORDER_PIXELS)
        value[:, inner, inner] = batch[image][:, inner, inner]
        return {**batch, image: value}

    wanted = bench.reference_with(masked)
    if wanted is None:
        return None
    black = bench.recorder.translated_batch(masked(own))
    # The eight neighbours: SAME and a symmetric padding are at most a row and a column apart.
    for shift in [(y, x) for y in (-1, 0, 1) for x in (-1, 0, 1) if y or x]:
        moved = {**black, text: np.roll(black[text], shift, axes)}
        got = bench.candidate_with(lambda batch, moved=moved: moved)  # type: ignore[misc]
        # Another image than the one that the tolerance was measured on, of the same size: its rounding may be a few
        # times that.
        if got is not None and distance(wanted, got) <= 4 * bench.first.check.allowed:
            down, right = -shift[0], -shift[1]
            return build_cause(
                "shifted_image",
                evidence=f"on images with a black border, shifted by {shift[0]:+d}, {shift[1]:+d} for the "
                "candidate alone, both "
                f"sides give the same {bench.first.check.key}",
                down=down,
                right=right,
            )
    return None


def less_precision(bench: Bench) -> Cause | None:
    """A change of the inputs too small for a narrower float moves the reference and leaves the candidate as it is."""
    if (
        bench.got is None
        or not bench.got.any()
        or bench.given
        or not any(value.ndim > 1 and _is_measured(value) for value in bench.batch.values())
    ):
        return None

    def nudged(batch: Tensors) -> Tensors:
        return {
            name: value.astype(np.float64) * (1 + PROBE_STEP) if _is_measured(value) else value
            for name, value in batch.items()
        }

    after = bench.candidate_with(nudged)
    if after is None or not np.array_equal(after, bench.got):
        return None
    # The control: an input that nothing follows would leave the candidate as it is too.
    followed = bench.reference_with(nudged)
    if followed is None or not distance(followed, bench.wanted) > 0.0:
        return None
    size = distance(bench.got, bench.wanted) / max(norm(bench.wanted), 1e-300)
    # A gradient of absolute values or of maxima does not move with its inputs either; beside one that does it is far off.
    name = next((name for least, name in FORMATS if least < size <= MOST_BY_ROUNDING), None)
    if name is None:
        return None
    return build_cause(
        "reduced_precision",
        "part",
        evidence=f"inputs larger by {PROBE_STEP:g} of themselves leave the candidate's float64 result as it is to the "
        "last bit, and move "
        f"the reference's; the two are {size:.2g} apart",
        key=bench.first.check.key,
        name=name,
    )
