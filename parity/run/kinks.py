"""Judges again beside a kink, where a tie that rounding breaks leaves the gradient without a value."""

from collections.abc import Sequence

import numpy as np

from parity.judge.level1 import judge_free, judge_lockstep
from parity.judge.numbers import distance
from parity.judge.result import Check
from parity.judge.spread import Replicas
from parity.run.asked import Asked
from parity.run.perturb import as_float64
from parity.run.quantities import EVERYTHING, FREE, WEIGHTS
from parity.run.recorded import OfBoth, Playing, Recorded
from parity.run.reference import TensorFlowRole
from parity.run.runs import replicas
from parity.run.states import Tensors, read_all, translated, write_init, write_states
from parity.trace import Trace, parse_key, quantity_of

# Far above what float64 rounds, so that the move breaks a tie the same way on both sides; far below an ulp of float32.
ASIDE = 2.0**-30
NOTE = "at a kink: two things tie that rounding tells apart; judged with weights moved by up to 2^-30 of themselves"


def settle_kinks(checks: list[Check], recorded: Recorded, playing: Playing, states: OfBoth) -> list[Check]:
    """Returns the checks of level 1, judged beside a kink where they differ at it and nowhere else.

    At a maximum of two equal values, or a ReLU of zero, a function has no gradient: which of its one-sided ones a program
    computes is decided by rounding, in float64 as in float32. Such a tie is gone once the weights have moved by the least
    amount; a bug is not. So where numbers differ both sides run again from weights moved alike, and are judged by the same
    allowances. Ties that no move of the weights breaks (zero weights, inputs that are there twice) stay, and a port that
    breaks them otherwise stays different.

    Args:
      checks: of level 1.
      recorded: what they are about.
      playing: the sides, live ones.
      states: the states before each step.
    """
    lost = [check for check in checks if check.verdict != "same" and check.verdict != "not_run"]
    numbers = all(check.verdict == "different" and check.run in ("lockstep", "free") for check in lost)
    if not lost or not numbers or recorded.races or not isinstance(playing.tf, TensorFlowRole):
        return checks
    first = next((check.step for check in lost if check.run == "lockstep"), None)
    if first is not None and _different(_beside(recorded, playing, states, [first]), [first]):
        return checks
    beside = _beside(recorded, playing, states, playing.steps)
    if any(check.run == "free" for check in lost):
        beside += _free_beside(recorded, playing, beside)
    found = {check[:3]: check._replace(note=NOTE) for check in beside if check.verdict == "same"}
    places = {check[:3] for check in lost}
    if not places <= set(found):
        return checks
    return [found[check[:3]] if check[:3] in places else check for check in checks]


def _different(checks: Sequence[Check], steps: Sequence[int]) -> bool:
    return any(check.verdict not in ("same", "not_run") for check in checks if check.step in steps)


def _moved(state: Tensors, seed: int) -> Tensors:
    # Each weight by an amount of its own: equal ones that all went the same way would tie as before.
    random = np.random.default_rng(seed)
    return {
        text: np.asarray(value * (1 + ASIDE * random.uniform(-1.0, 1.0, value.shape)))
        if quantity_of(text) in WEIGHTS
        else value
        for text, value in as_float64(state).items()
    }


def _beside(recorded: Recorded, playing: Playing, states: OfBoth, steps: Sequence[int]) -> list[Check]:
    name = f"beside-{steps[0]}-{steps[-1]}" if len(steps) > 1 else f"beside-{steps[0]}"
    whole = list(steps) == list(playing.steps)
    known = Trace(states.tf)
    before = [(step, _moved(read_all(known.step(step)), step)) for step in (known.step_numbers if whole else steps)]
    tf = write_states(playing.out / "states" / f"tf-{name}", before)
    port = write_states(
        playing.out / "states" / f"torch-{name}", ((n, translated(recorded.join, state)) for n, state in before)
    )
    quantities = EVERYTHING + (playing.inference if whole else ())
    # A step alone takes its counters from the reference; in their order the steps count by themselves, as they are judged.
    asked = Asked(name, "float64", playing.feeds.torch, playing.start.torch, port, quantities, steps, not whole)
    candidate = playing.torch.run(asked)
    reference = _reference(playing, asked._replace(feeds=playing.feeds.tf, start=playing.start.tf, follow=tf))
    traces = recorded.lockstep._replace(reference64=reference, candidate64=candidate.result(), states=Trace(tf))
    return judge_lockstep(recorded.join, traces, steps)


def _free_beside(recorded: Recorded, playing: Playing, lockstep: Sequence[Check]) -> list[Check]:
    start = _moved(read_all(recorded.start.init()), 0)
    tf = write_init(playing.out / "start" / "tf-beside", start)
    port = write_init(playing.out / "start" / "torch-beside", translated(recorded.join, start))
    quantities = FREE + playing.inference
    asked = Asked("free-beside", "float64", playing.feeds.torch, port, None, quantities, playing.steps)
    candidate = playing.torch.run(asked)
    free = asked._replace(feeds=playing.feeds.tf, start=tf)
    reference, *moved = (_reference(playing, each) for each in (free, *replicas(playing, free)))
    return judge_free(recorded.join, reference, candidate.result(), Replicas(reference, moved), lockstep)


def _reference(playing: Playing, asked: Asked) -> Trace:
    playing.tf.prepare("float64", playing.inputs).result()
    return playing.tf.run(asked).result()


def apart_at_kinks(checks: Sequence[Check], recorded: Recorded) -> dict[tuple[int, str], float]:
    """Returns by step and tensor how far the sides are apart in float64 where they were judged beside a kink."""
    traces, apart = recorded.lockstep, {}
    for check in checks:
        if check.note == NOTE and check.run == "lockstep":
            other = recorded.join.read(parse_key(check.key), traces.candidate64.step(check.step))
            one = traces.reference64.step(check.step).read(check.key)
            apart[check.step, check.key] = distance(one, other) if other is not None else 0.0
    return apart


def kink_notes(checks: Sequence[Check]) -> list[str]:
    """Returns what a report says of kinks."""
    found = [check for check in checks if check.note == NOTE]
    if not found:
        return []
    steps = sorted({check.step for check in found})
    where = f"step {steps[0]}" if len(steps) == 1 else f"steps {', '.join(map(str, steps))}"
    tensors = f"{len(found)} {'tensor' if len(found) == 1 else 'tensors'}"
    return [f"{tensors} of {where}, {found[0].key} first, {'is' if len(found) == 1 else 'are'} {NOTE}"]
