"""Runs the two live sides of a case beside a kink, from weights moved alike."""

from collections.abc import Iterator, Sequence

from parity.judge.allowances import Replicas
from parity.judge.levels.function import judge_free, judge_lockstep
from parity.judge.result import Check
from parity.mapping.states import Tensors, read_all, translated, translated_batch, write_init, write_states
from parity.run.asked import Asked
from parity.run.kinks import NOTE, WITH_INPUTS
from parity.run.perturb import as_float64
from parity.run.quantities import EVERYTHING, FREE
from parity.run.recorded import OfBoth, Playing, Recorded
from parity.run.runs import replicas
from parity.trace import Trace, moved_aside, moved_with_inputs

BESIDE = {False: "beside", True: "inputs-beside"}


def moved_state(state: Tensors, step: int, inputs: bool, towards: float = 1.0) -> Tensors:
    """Returns a state from which a step is run beside a kink; `inputs` says whether these and zeros are moved too."""
    return (moved_with_inputs if inputs else moved_aside)(as_float64(state), step, towards)


def moved_batches(feeds: Trace, steps: Sequence[int], towards: float = 1.0) -> Iterator[tuple[int, Tensors]]:
    """Yields number and batch, moved, of each step."""
    return ((step, moved_with_inputs(as_float64(read_all(feeds.step(step))), step, towards)) for step in steps)


class LiveBeside:
    """Runs and judges both sides of a case beside a kink, as `settle_kinks` asks.

    Args:
      recorded: what was recorded of the case.
      playing: the sides, live ones.
      states: the states before each step.
      inputs: whether inputs and zeros are moved too.
    """

    def __init__(self, recorded: Recorded, playing: Playing, states: OfBoth, inputs: bool = False) -> None:
        self._recorded, self._playing, self._states, self._inputs = recorded, playing, states, inputs
        self._name = BESIDE[inputs]

    @property
    def note(self) -> str:
        """What a check says that was judged there."""
        return WITH_INPUTS if self._inputs else NOTE

    def once_more(self) -> list[Check]:
        """Returns the checks of the lockstep with the candidate run once more from the weights that nobody moved."""
        recorded, playing = self._recorded, self._playing
        feeds, start = playing.feeds.torch, playing.start.torch
        quantities = EVERYTHING + playing.inference
        asked = Asked("once-more", "float64", feeds, start, self._states.torch, quantities, playing.steps)
        candidate = playing.torch.run(asked).result()
        return judge_lockstep(recorded.join, recorded.lockstep._replace(candidate64=candidate), playing.steps)

    def alone(self, step: int) -> list[Check]:
        """Returns the checks of one step by itself, its counters the reference's."""
        return [check for check in self._judged(f"{self._name}-{step}", [step], [step], True) if check.step == step]

    def in_lockstep(self) -> list[Check]:
        """Returns the checks of all steps in their order, in which each side counts by itself."""
        return self._judged(self._name, self._playing.steps, Trace(self._states.tf).step_numbers, False)

    def free(self, lockstep: Sequence[Check]) -> list[Check]:
        """Returns the checks of the runs that nobody resets."""
        recorded, playing = self._recorded, self._playing
        start = moved_state(read_all(recorded.start.init()), 0, self._inputs)
        tf = write_init(playing.out / "start" / f"tf-{self._name}", start)
        port = write_init(playing.out / "start" / f"torch-{self._name}", translated(recorded.join, start))
        quantities, feeds = FREE + playing.inference, self._feeds(self._name, playing.steps)
        asked = Asked(f"free-{self._name}", "float64", feeds.torch, port, None, quantities, playing.steps)
        candidate = playing.torch.run(asked)
        free = asked._replace(feeds=feeds.tf, start=tf)
        reference, *moved = (self._reference(each) for each in (free, *replicas(playing, free)))
        return judge_free(recorded.join, reference, candidate.result(), Replicas(reference, moved), lockstep)

    def _judged(self, name: str, steps: Sequence[int], known: Sequence[int], alone: bool) -> list[Check]:
        recorded, playing = self._recorded, self._playing
        states = Trace(self._states.tf)
        before = [(step, moved_state(read_all(states.step(step)), step, self._inputs)) for step in known]
        tf = write_states(playing.out / "states" / f"tf-{name}", before)
        port = write_states(
            playing.out / "states" / f"torch-{name}", ((n, translated(recorded.join, state)) for n, state in before)
        )
        quantities = EVERYTHING + (() if alone else playing.inference)
        feeds = self._feeds(name, steps)
        asked = Asked(
            name, "float64", feeds.torch, playing.start.torch, port, quantities, steps, alone, whole=self._name
        )
        candidate = playing.torch.run(asked)
        reference = self._reference(asked._replace(feeds=feeds.tf, start=playing.start.tf, follow=tf))
        traces = recorded.lockstep._replace(reference64=reference, candidate64=candidate.result(), states=Trace(tf))
        return judge_lockstep(recorded.join, traces, steps)

    def _feeds(self, name: str, steps: Sequence[int]) -> OfBoth:
        feeds, out = self._playing.feeds, self._playing.out / "feeds"
        if not self._inputs:
            return feeds
        batches = dict(moved_batches(Trace(feeds.tf), steps))
        port = ((step, translated_batch(self._recorded.join, batch)) for step, batch in batches.items())
        return OfBoth(write_states(out / f"tf-{name}", batches.items()), write_states(out / f"torch-{name}", port))

    def _reference(self, asked: Asked) -> Trace:
        self._playing.tf.prepare("float64", self._playing.inputs).result()
        return self._playing.tf.run(asked).result()
