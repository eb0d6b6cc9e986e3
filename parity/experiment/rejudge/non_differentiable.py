"""Judges again at non-differentiable points, where a tie that rounding breaks leaves the gradient without a value."""

from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Protocol

from parity.experiment.recording import Recorded, Setup, SidePaths
from parity.experiment.runs import EVERYTHING, FREE_RUN_QUANTITIES, replicas
from parity.experiment.spec import RunSpec
from parity.judge.allowances import FREE_FLOOR
from parity.judge.levels.function import Lockstep, judge_free, judge_lockstep
from parity.judge.metrics import distance
from parity.judge.result import Check
from parity.judge.spread import Replicas, Spread
from parity.mapping.states import read_all, translated, translated_batch, write_init, write_states
from parity.mapping.trace_map import Join
from parity.trace import GRADIENTS, Trace, as_float64, break_ties, break_ties_of_inputs, parse_key, quantity_of
from parity.trace.arrays import Tensors

NON_DIFFERENTIABLE_NOTE = (
    "at a non-differentiable point: two values are equal up to rounding; re-run from weights perturbed by up to 2^-30 of "
    "themselves"
)
WITH_INPUTS = (
    "at a non-differentiable point: two values are equal up to rounding; re-run from weights and inputs perturbed by 2^-30 "
    "of their scale"
)
# How far a loss may be, beside a kink, from what it is at it: in multiples of what rounding allows it. All has moved by
# 2^-30 of itself, 2^23 times what float64 rounds, and what is continuous follows, times its condition, for which 2^4 is
# left. A term that hangs on a number being exactly 1, as of labels that are compared, is gone beside it, and with it a bug.
MOST_OF_A_LOSS = 2.0**27
# What is fed, drawn and computed forward has a value at a tie too: where that differs, no choice of gradients explains
# it.
CONTINUOUS = frozenset(["state", "feed", "noise", "act", "stat", "loss", "metric", "eval"])


class MovedRuns(Protocol):
    """Makes what `Beside` judges: runs of both sides in float64 from where they were moved alike."""

    def candidate_once_more(self) -> Trace:
        """Returns the candidate's lockstep run once more, from the states that nobody moved."""

    def lockstep(self, step: int | None = None) -> Lockstep | None:
        """Returns the lockstep traces with those of all steps there, or of one by itself; None where there are none."""

    def freely(self) -> tuple[Trace, Trace, Spread] | None:
        """Returns the runs of reference and candidate that nobody resets, and how far an ulp carries; None without any."""


class Beside:
    """Judges both sides beside a kink, from where they were moved alike, by the rules of level 1.

    Args:
      join: names and layouts.
      traces: of the lockstep at the kink itself.
      checks: of level 1.
      inputs: whether inputs and zeros are moved too, or weights alone.
      runs: makes what is judged.
    """

    def __init__(self, join: Join, traces: Lockstep, checks: Sequence[Check], inputs: bool, runs: MovedRuns) -> None:
        self._join, self._traces, self._checks, self._inputs, self._runs = join, traces, checks, inputs, runs
        self._elsewhere: set[int] = set()

    @property
    def note(self) -> str:
        """What a check says that was judged there: `WITH_INPUTS` where those moved too, else `NON_DIFFERENTIABLE_NOTE`."""
        return WITH_INPUTS if self._inputs else NON_DIFFERENTIABLE_NOTE

    def once_more(self) -> list[Check]:
        """Returns the checks of the lockstep with the candidate run once more at the kink itself: the control."""
        traces = self._traces._replace(candidate64=self._runs.candidate_once_more())
        return judge_lockstep(self._join, traces, traces.reference64.step_numbers)

    def alone(self, step: int) -> list[Check]:
        """Returns the checks of one step by itself, its counters the reference's; none of a step that is not there."""
        traces = self._runs.lockstep(step)
        there = traces is not None and step in traces.reference64.step_numbers and self._is_continuous(traces, step)
        return judge_lockstep(self._join, traces, [step]) if traces is not None and there else []

    def in_lockstep(self) -> list[Check]:
        """Returns the checks of all steps there, run in their order; none of a step that has been moved elsewhere."""
        traces = self._runs.lockstep()
        if traces is None:
            return []
        steps = [step for step in traces.reference64.step_numbers if self._is_continuous(traces, step)]
        return judge_lockstep(self._join, traces, steps)

    def _is_continuous(self, traces: Lockstep, step: int) -> bool:
        """Whether the reference's losses are there what they are at the kink, at which every function is continuous."""
        losses = [c for c in self._checks if (c.run, c.step) == ("lockstep", step) and quantity_of(c.key) == "loss"]
        for check in losses:
            here, there = (each.reference64.step(step).read(check.key) for each in (self._traces, traces))
            if not distance(here, there) <= MOST_OF_A_LOSS * max(check.allowed, FREE_FLOOR * check.size):
                self._elsewhere.add(step)
        return step not in self._elsewhere

    def free(self, lockstep: Sequence[Check]) -> list[Check]:
        """Returns the checks of the runs that nobody resets; `lockstep` says what each step rounds.

        None where a step has been moved elsewhere: they go through all of them.
        """
        runs = self._runs.freely() if not self._elsewhere else None
        if runs is None:
            return []
        # What the other steps round their own checks say: they are the same beside a kink and at it.
        there = {check.step for check in lockstep}
        others = [check for check in self._checks if check.step not in there]
        return judge_free(self._join, *runs, [*others, *lockstep])


def settle_kinks(checks: list[Check], besides: Sequence[Beside]) -> list[Check]:
    """Returns the checks of level 1, those judged beside a kink that differ at it and nowhere near; what remains is a bug.

    At a maximum of two equal values, or a ReLU of zero, a function has no gradient: which of its one-sided ones a program
    computes is decided by rounding, in float64 as in float32. Such a tie is gone once what it hangs on has moved by the
    least amount; a bug is not. So where numbers differ both sides run again from weights moved alike, and are judged by the
    same allowances; and where gradients still differ, once more with zeros and inputs moved too, for zeros stay zeros and
    repeated patches stay equal when weights move by a part of themselves. Where the first step that differs does so beside
    the kink too, only that step is looked at. A port that breaks a tie of exact zeros otherwise, as of weights that are
    nothing but zeros, stays different: no rounding decides there. A kink is there in every run: what differs no longer when
    the candidate runs once more from where nobody moved anything was none, and what is not finite on one side alone is none.

    Args:
      checks: of level 1.
      besides: what runs and judges the sides beside a kink, from the least that is moved to the most.
    """
    # Invariant: `checks` is what the moves so far have left. The least move first, for a larger one may hide a real
    # bug.
    for beside in besides:
        lost = lost_numbers(checks)
        if not lost:
            return checks
        # Moved zeros and inputs would hide a wrong mask, which exact values alone show: nothing that is computed
        # forward is settled so.
        if beside.note == WITH_INPUTS:
            lost = _explained_by_gradients(lost)
        checks = _settled(checks, lost, _beside(lost, beside), beside)
    return checks


def lost_numbers(checks: Sequence[Check]) -> list[Check]:
    """Returns the checks that are not the same where all of them are numbers of steps that differ, else nothing."""
    lost = [check for check in checks if check.verdict != "same" and check.verdict != "not_run"]
    # A missing tensor, or a wrong start, stands before any kink: no rerun could settle what is left then.
    numbers = all(check.verdict == "different" and check.run in ("lockstep", "free") for check in lost)
    return lost if numbers else []


def _beside(lost: Sequence[Check], beside: Beside) -> list[Check]:
    if not lost:
        return []
    # The first step alone costs a step on each side; where it stays different there, the others need not be run.
    first = next((check.step for check in lost if check.run == "lockstep"), None)
    alone = beside.alone(first) if first is not None else []
    if _different(alone):
        return alone
    again = beside.in_lockstep()
    return again + beside.free(again) if any(check.run == "free" for check in lost) else again


def _explained_by_gradients(lost: Sequence[Check]) -> list[Check]:
    """Those that another choice of gradients can explain: gradients, and what is made of one that differs.

    To move inputs hides what only exact values show, as a mask of `>=` for `>`, or an update of rows without a gradient.
    """
    keys = [(check, parse_key(check.key)) for check in lost]
    lockstep = [(check.step, key.quantity, _variable(key.name)) for check, key in keys if check.run == "lockstep"]
    # A step whose forward pass differs is not at a kink: its gradients follow from what was computed.
    torn = {step for step, quantity, _ in lockstep if quantity in CONTINUOUS}
    moved = {(step, name) for step, quantity, name in lockstep if quantity in GRADIENTS and step not in torn}
    return [check for check, key in keys if check.run == "free" or (check.step, _variable(key.name)) in moved]


def _variable(name: str) -> str:
    return name.removesuffix(".values").removesuffix(".indices")


def _settled(checks: list[Check], lost: Sequence[Check], judged: Sequence[Check], beside: Beside) -> list[Check]:
    # By run, step and key, which are one check each.
    finite = {check[:3] for check in lost if isfinite(check.difference)}
    same = [check for check in judged if check.verdict == "same" and check[:3] in finite]
    found = {check[:3]: check._replace(note=beside.note) for check in same}
    # The control: the port once more from where nobody moved anything. What is same then came of no tie, but of a port
    # that does not repeat itself.
    if not found or (any(check.run == "lockstep" for check in lost) and _gone(lost, beside.once_more())):
        return checks
    return [found.get(check[:3], check) for check in checks]


def _gone(lost: Sequence[Check], once_more: Sequence[Check]) -> bool:
    same = {check[:3] for check in once_more if check.verdict == "same"}
    return any(check[:3] in same for check in lost)


def _different(checks: Sequence[Check]) -> bool:
    return any(check.verdict not in ("same", "not_run") for check in checks)


def apart_at_kinks(checks: Sequence[Check], recorded: Recorded) -> dict[tuple[int, str], float]:
    """Returns by step and tensor how far the sides are apart in float64 where they were judged beside a kink."""
    traces, apart = recorded.lockstep, {}
    for check in checks:
        if check.note in (NON_DIFFERENTIABLE_NOTE, WITH_INPUTS) and check.run == "lockstep":
            # At the kink itself, not beside it: as far apart the two sides may be in float32 too.
            other = recorded.join.read(parse_key(check.key), traces.candidate64.step(check.step))
            one = traces.reference64.step(check.step).read(check.key)
            apart[check.step, check.key] = distance(one, other) if other is not None else 0.0
    return apart


def kink_notes(checks: Sequence[Check]) -> list[str]:
    """Returns what a report says of kinks."""
    return [
        note
        for name in (NON_DIFFERENTIABLE_NOTE, WITH_INPUTS)
        for note in _note([each for each in checks if each.note == name], name)
    ]


def _note(found: Sequence[Check], name: str) -> list[str]:
    if not found:
        return []
    steps = sorted({check.step for check in found})
    where = f"step {steps[0]}" if len(steps) == 1 else f"steps {', '.join(map(str, steps))}"
    tensors = f"{len(found)} {'tensor' if len(found) == 1 else 'tensors'}"
    return [f"{tensors} of {where}, {found[0].key} first, {'is' if len(found) == 1 else 'are'} {name}"]


# Runs the two live sides of a case beside a kink, from weights moved alike.

RUN_BESIDE = {False: "beside", True: "inputs-beside"}


def moved_state(state: Tensors, step: int, inputs: bool, towards: float = 1.0) -> Tensors:
    """Returns a state from which a step is run beside a kink; `inputs` says whether these and zeros are moved too."""
    return (break_ties_of_inputs if inputs else break_ties)(as_float64(state), step, towards)


def moved_batches(feeds: Trace, steps: Sequence[int], towards: float = 1.0) -> Iterator[tuple[int, Tensors]]:
    """Yields number and batch, moved, of each step."""
    return ((step, break_ties_of_inputs(as_float64(read_all(feeds.step(step))), step, towards)) for step in steps)


class LiveRuns:
    """Moves both live sides of a case alike, and runs them.

    Args:
      recorded: what was recorded of the case.
      playing: the sides, live ones.
      states: the states before each step.
      inputs: whether inputs and zeros are moved too.
    """

    def __init__(self, recorded: Recorded, playing: Setup, states: SidePaths, inputs: bool = False) -> None:
        self._recorded, self._playing, self._states, self._inputs = recorded, playing, states, inputs
        self._name = RUN_BESIDE[inputs]

    def candidate_once_more(self) -> Trace:
        """Returns the candidate's lockstep run once more, from the states that nobody moved."""
        playing = self._playing
        quantities = EVERYTHING + playing.inference
        feeds, start = playing.feeds.torch, playing.start.torch
        asked = RunSpec("once-more", "float64", feeds, start, self._states.torch, quantities, playing.steps)
        return playing.torch.run(asked).result()

    def lockstep(self, step: int | None = None) -> Lockstep:
        """Returns the lockstep traces with those of all steps moved, or of one by itself, its counters the reference's."""
        recorded, playing, states = self._recorded, self._playing, Trace(self._states.tf)
        alone = step is not None
        name = self._name if step is None else f"{self._name}-{step}"
        steps, known = (playing.steps, states.step_numbers) if step is None else ([step], [step])
        before = [(number, moved_state(read_all(states.step(number)), number, self._inputs)) for number in known]
        tf = write_states(playing.out / "states" / f"tf-{name}", before)
        port = write_states(
            playing.out / "states" / f"torch-{name}", ((n, translated(recorded.join, state)) for n, state in before)
        )
        quantities = EVERYTHING + (() if alone else playing.inference)
        feeds = self._feeds(name, steps)
        asked = RunSpec(
            name, "float64", feeds.torch, playing.start.torch, port, quantities, steps, alone, whole=self._name
        )
        # Started before the reference is asked, so that both run at once.
        candidate = playing.torch.run(asked)
        reference = self._reference(asked._replace(feeds=feeds.tf, start=playing.start.tf, follow=tf))
        return recorded.lockstep._replace(reference64=reference, candidate64=candidate.result(), states=Trace(tf))

    def freely(self) -> tuple[Trace, Trace, Spread]:
        """Returns the runs of both sides that nobody resets, from a start moved alike, and the reference's replicas."""
        recorded, playing = self._recorded, self._playing
        start = moved_state(read_all(recorded.start.init()), 0, self._inputs)
        tf = write_init(playing.out / "start" / f"tf-{self._name}", start)
        port = write_init(playing.out / "start" / f"torch-{self._name}", translated(recorded.join, start))
        quantities, feeds = FREE_RUN_QUANTITIES + playing.inference, self._feeds(self._name, playing.steps)
        asked = RunSpec(f"free-{self._name}", "float64", feeds.torch, port, None, quantities, playing.steps)
        candidate = playing.torch.run(asked)
        free = asked._replace(feeds=feeds.tf, start=tf)
        reference, *moved = (self._reference(each) for each in (free, *replicas(playing, free)))
        return reference, candidate.result(), Replicas(reference, moved)

    def _feeds(self, name: str, steps: Sequence[int]) -> SidePaths:
        feeds, out = self._playing.feeds, self._playing.out / "feeds"
        if not self._inputs:
            return feeds
        batches = dict(moved_batches(Trace(feeds.tf), steps))
        port = ((step, translated_batch(self._recorded.join, batch)) for step, batch in batches.items())
        return SidePaths(write_states(out / f"tf-{name}", batches.items()), write_states(out / f"torch-{name}", port))

    def _reference(self, asked: RunSpec) -> Trace:
        self._playing.tf.prepare("float64", self._playing.inputs).result()
        return self._playing.tf.run(asked).result()
