"""Runs the two live sides of a case beside a kink, from weights moved alike."""

from collections.abc import Sequence

from parity.judge.level1 import judge_free, judge_lockstep
from parity.judge.result import Check
from parity.judge.spread import Replicas
from parity.run.asked import Asked
from parity.run.perturb import as_float64
from parity.run.quantities import EVERYTHING, FREE
from parity.run.recorded import OfBoth, Playing, Recorded
from parity.run.runs import replicas
from parity.run.states import read_all, translated, write_init, write_states
from parity.trace import Trace, moved_aside


class LiveBeside:
    """Runs and judges both sides of a case beside a kink, as `settle_kinks` asks.

    Args:
      recorded: what was recorded of the case.
      playing: the sides, live ones.
      states: the states before each step.
    """

    def __init__(self, recorded: Recorded, playing: Playing, states: OfBoth) -> None:
        self._recorded, self._playing, self._states = recorded, playing, states

    def alone(self, step: int) -> list[Check]:
        """Returns the checks of one step by itself, its counters the reference's."""
        return [check for check in self._judged(f"beside-{step}", [step], [step], True) if check.step == step]

    def in_lockstep(self) -> list[Check]:
        """Returns the checks of all steps in their order, in which each side counts by itself."""
        return self._judged("beside", self._playing.steps, Trace(self._states.tf).step_numbers, False)

    def free(self, lockstep: Sequence[Check]) -> list[Check]:
        """Returns the checks of the runs that nobody resets."""
        recorded, playing = self._recorded, self._playing
        start = moved_aside(as_float64(read_all(recorded.start.init())), 0)
        tf = write_init(playing.out / "start" / "tf-beside", start)
        port = write_init(playing.out / "start" / "torch-beside", translated(recorded.join, start))
        quantities = FREE + playing.inference
        asked = Asked("free-beside", "float64", playing.feeds.torch, port, None, quantities, playing.steps)
        candidate = playing.torch.run(asked)
        free = asked._replace(feeds=playing.feeds.tf, start=tf)
        reference, *moved = (self._reference(each) for each in (free, *replicas(playing, free)))
        return judge_free(recorded.join, reference, candidate.result(), Replicas(reference, moved), lockstep)

    def _judged(self, name: str, steps: Sequence[int], known: Sequence[int], alone: bool) -> list[Check]:
        recorded, playing = self._recorded, self._playing
        states = Trace(self._states.tf)
        before = [(step, moved_aside(as_float64(read_all(states.step(step))), step)) for step in known]
        tf = write_states(playing.out / "states" / f"tf-{name}", before)
        port = write_states(
            playing.out / "states" / f"torch-{name}", ((n, translated(recorded.join, state)) for n, state in before)
        )
        quantities = EVERYTHING + (() if alone else playing.inference)
        asked = Asked(
            name, "float64", playing.feeds.torch, playing.start.torch, port, quantities, steps, alone, whole="beside"
        )
        candidate = playing.torch.run(asked)
        reference = self._reference(asked._replace(feeds=playing.feeds.tf, start=playing.start.tf, follow=tf))
        traces = recorded.lockstep._replace(reference64=reference, candidate64=candidate.result(), states=Trace(tf))
        return judge_lockstep(recorded.join, traces, steps)

    def _reference(self, asked: Asked) -> Trace:
        self._playing.tf.prepare("float64", self._playing.inputs).result()
        return self._playing.tf.run(asked).result()
