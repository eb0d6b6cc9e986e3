"""Runs single steps of a recorded case, or its evaluation, once more with something changed."""

from collections.abc import Callable, Sequence
from pathlib import Path

from parity.case import Case
from parity.experiment.recording import Setup, SidePaths
from parity.experiment.runs import EVERYTHING
from parity.experiment.spec import BACKWARD, FORWARD, Capability, RunSpec
from parity.mapping.states import read_all, translated_batch, write_states
from parity.mapping.trace_map import Join
from parity.trace import Forward, Trace
from parity.trace.arrays import Tensors
from parity.worker.failures import SideFailed


class Rerun:
    """Runs single steps of a recorded case, or its evaluation, once more with something changed.

    Args:
      case: what was recorded.
      playing: the sides, which still run; may be replaced by others of the same case.
      join: names and layouts of both sides.
      states: the states before each step.
    """

    def __init__(self, case: Case, playing: Setup, join: Join, states: SidePaths) -> None:
        self.playing = playing
        self._case = case
        self._join = join
        self._states = states
        self._repeats = 0
        self._reference_hung = False

    @property
    def towers(self) -> int:
        """The number of towers."""
        return self._case.towers

    @property
    def batch_norm_updates(self) -> str:
        """Which tower's statistics survive in the reference."""
        return self._case.tf.batch_norm_updates

    def batch(self, step: int) -> Tensors:
        """Returns a whole batch as the candidate is fed it, dict of "feed/<input>" to array."""
        return read_all(Trace(self.playing.feeds.torch).step(step))

    def state(self, step: int) -> Tensors:
        """Returns the state before a step in the candidate's names and layouts."""
        return read_all(Trace(self._states.torch).step(step))

    def repeat(
        self,
        step: int,
        batch: Callable[[Tensors], Tensors],
        state: Callable[[Tensors], Tensors],
        twice: bool = False,
        cut: bool = False,
        *,
        ahead: Callable[[Tensors], Tensors] | None = None,
        random_seed: int | None = None,
    ) -> Trace:
        """Runs one step of the candidate in float64 once more, from a changed state on a changed batch.

        Args:
          step: its number.
          batch: what becomes of the whole batch.
          state: what becomes of the state before the step; outputs beside it, "act/...", stand in the place of its own.
          twice: whether to run it two times, for ports that keep something of the step before.
          cut: whether no gradient passes such outputs.
          ahead: where it runs two times, what becomes of the whole batch the first time; by default as `batch`.
          random_seed: of its random generators, where these are to be set.

        Returns:
          The trace; its last step is the one that counts.
        """
        self._repeats += 1
        # Folders of their own, since traces are read lazily: an earlier rerun may still be looked at.
        name = f"repeat-{self._repeats}"
        # The second run starts from the same state under the next number: what the port carries by itself is all that
        # differs.
        steps = [step, step + 1] if twice else [step]
        batches = [change(self.batch(step)) for change in ([ahead or batch] if twice else []) + [batch]]
        feeds = write_states(self.playing.out / "feeds" / name, zip(steps, batches, strict=True))
        # Changed once for both runs: what the port carries must meet the same state.
        before = state(self.state(step))
        states = write_states(self.playing.out / "states" / name, ((n, before) for n in steps))
        # Guarded, here and below: a port may not take what was changed, and there is more to ask it.
        return self.playing.torch.run_guarded(
            RunSpec(
                name, "float64", feeds, self.playing.start.torch, states, EVERYTHING, steps, True, cut=cut
            )._replace(random_seed=random_seed)
        )

    def repeat_seeded(self, step: int, seed: int) -> Trace:
        """Runs one step of the candidate in float64 once more as it is, its random generators seeded."""
        return self.repeat(step, lambda batch: batch, lambda state: state, random_seed=seed)

    def repeat_uncut(self, step: int, places: Sequence[str]) -> Trace:
        """Runs one step of the candidate in float64 once more, gradients let pass at places that keep them from passing.

        Args:
          step: its number.
          places: their names, as the facts of the trace have them under "gradient_cuts".
        """
        return self.playing.torch.run_guarded(self._as_it_is(step)._replace(uncut=tuple(places)))

    def repeat_detached(self, step: int, edges: Sequence[tuple[int, int | str]]) -> Trace:
        """Runs one step of the candidate in float64 once more, no gradient passing some edges of its forward pass.

        Args:
          step: its number.
          edges: pairs of the number of an op, as `gradients` has them, and of that of the one whose output it takes, or the
            name of a parameter.
        """
        return self.playing.torch.run_guarded(self._as_it_is(step)._replace(detached=tuple(edges)))

    def _as_it_is(self, step: int) -> RunSpec:
        self._repeats += 1
        playing, name = self.playing, f"repeat-{self._repeats}"
        follow = self._states.torch
        return RunSpec(name, "float64", playing.feeds.torch, playing.start.torch, follow, EVERYTHING, [step], True)

    def gradients(self, step: int, tower: str) -> tuple[Forward, Forward] | None:
        """Returns the forward pass of one tower on both sides, the gradient of its loss in place of each output, in float64.

        None where the reference does not live.
        """
        playing = self.playing
        # From the recorded state of the step, as its forward pass was made.
        asked = RunSpec(BACKWARD, "float64", playing.feeds.tf, playing.start.tf, self._states.tf, (), [step])
        # An earlier experiment may have had the reference build another graph.
        playing.tf.prepare("float64", playing.inputs).result()
        reference = playing.tf.forward(step, tower, asked, gradients=True)
        if reference is None:
            return None
        asked = asked._replace(feeds=playing.feeds.torch, start=playing.start.torch, follow=self._states.torch)
        return reference, playing.torch.forward(step, tower, asked, gradients=True)

    def reference_batch(self, step: int) -> Tensors:
        """Returns a whole batch as the reference is fed it, dict of "feed/<input>" to array."""
        return read_all(Trace(self.playing.feeds.tf).step(step))

    def translated_batch(self, batch: Tensors) -> Tensors:
        """Returns a whole batch of the reference in the candidate's names and layouts."""
        return translated_batch(self._join, batch)

    def repeat_reference(
        self,
        step: int,
        batch_norm_updates: str | None = None,
        batch: Callable[[Tensors], Tensors] = lambda batch: batch,
    ) -> Trace | None:
        """Runs one step of the reference in float64 once more, where that can be had; None after one that did not end.

        Such a step is given up after a minute: experiments cost that once, not each. What fails otherwise fails at once, and
        says nothing of the next.

        Args:
          step: its number.
          batch_norm_updates: which towers' statistics survive; by default the case's.
          batch: what becomes of the whole batch.
        """
        if self._reference_hung:
            return None
        updates = batch_norm_updates or self.batch_norm_updates
        self._repeats += 1
        name = f"reference-{self._repeats}"
        asked = RunSpec(
            name,
            "float64",
            write_states(self.playing.out / "feeds" / name, [(step, batch(self.reference_batch(step)))]),
            self.playing.start.tf,
            self._states.tf,
            EVERYTHING,
            [step],
            True,
        )
        try:
            return self.playing.tf.run_with_statistics(updates, self.playing.inputs, asked)
        except SideFailed as error:
            self._reference_hung = error.hung
            raise

    def repeat_built_anew(self, step: int) -> Trace:
        """Runs one step of the candidate in float64 once more as it is, built for this alone."""
        return self.playing.torch.run_built_anew(self._as_it_is(step))

    def repeat_with_batch_norm(self, step: int, over_all_ranks: bool | None) -> Trace:
        """Runs one step of the candidate in float64 once more, batch norm over all ranks or (None) over each one's shard."""
        return self.playing.torch.run_with_batch_norm(over_all_ranks, self._as_it_is(step))

    def forward(self, step: int, tower: str, ends_at: str = "") -> tuple[Forward, Forward] | None:
        """Returns the forward pass of one tower in one step on both sides, in float64, up to an output or to the loss.

        Of a golden trace it is the one that was kept, where that is not of an earlier step; else None.
        """
        playing = self.playing
        asked = RunSpec(FORWARD, "float64", playing.feeds.tf, playing.start.tf, self._states.tf, (), [step])
        playing.tf.prepare("float64", playing.inputs).result()
        reference = playing.tf.forward(step, tower, asked, ends_at=ends_at)
        if reference is None:
            return None
        asked = asked._replace(feeds=playing.feeds.torch, start=playing.start.torch, follow=self._states.torch)
        return reference, playing.torch.forward(reference.step, reference.tower, asked, ends_at=ends_at)

    def state_to_evaluate(self) -> Tensors:
        """What both sides evaluated from, in the candidate's names and layouts."""
        # States are numbered by the step that begins with them: the last one is after the last step.
        return self.state(len(self.playing.steps))

    def evaluate_again(
        self, change: Callable[[Tensors], Tensors] = lambda state: state, evaluation: str = "eval"
    ) -> Trace:
        """Has the candidate evaluate once more after the last step, in float64.

        Args:
          change: what becomes of the state that it evaluates from.
          evaluation: "eval" mode, "train" mode, or in evaluation mode after "other draws".

        Returns:
          The trace; its last step holds the evaluation.
        """
        asked = self._asked_to_evaluate(self._states.torch, change, evaluation)
        return self.playing.torch.run_guarded(
            asked._replace(feeds=self.playing.feeds.torch, start=self.playing.start.torch)
        )

    def evaluate_reference_again(self, change: Callable[[Tensors], Tensors]) -> Trace | None:
        """Has the reference evaluate once more from a changed state in its own names; None where it is a trace."""
        # A trace shows what it was recorded from, and nothing else.
        if Capability.RERUN not in self.playing.tf.capabilities:
            return None
        self.playing.tf.prepare("float64", self.playing.inputs).result()
        asked = self._asked_to_evaluate(self._states.tf, change, "eval")
        playing = self.playing
        return playing.tf.run(asked._replace(feeds=playing.feeds.tf, start=playing.start.tf)).result()

    def evaluate_on(self, batch: Callable[[Tensors], Tensors]) -> tuple[Trace, Trace | None]:
        """Has both sides evaluate once more on a changed batch, in float64.

        Args:
          batch: what becomes of the whole batch in the reference's names and layouts.

        Returns:
          The traces of the candidate and of the reference, None where that is a trace; the last step holds the evaluation.
        """
        playing, last = self.playing, self.playing.steps[-1]
        changed = batch(self.reference_batch(last))
        asked = self._asked_to_evaluate(self._states.torch, lambda state: state, "eval")
        # Changed in the reference's layout, then translated: both sides get the same change.
        feeds = write_states(playing.out / "feeds" / asked.name, [(last, self.translated_batch(changed))])
        candidate = playing.torch.run_guarded(asked._replace(feeds=feeds, start=playing.start.torch))
        if Capability.RERUN not in playing.tf.capabilities:
            return candidate, None
        playing.tf.prepare("float64", playing.inputs).result()
        asked = self._asked_to_evaluate(self._states.tf, lambda state: state, "eval")
        feeds = write_states(playing.out / "feeds" / asked.name, [(last, changed)])
        return candidate, playing.tf.run(asked._replace(feeds=feeds, start=playing.start.tf)).result()

    def _asked_to_evaluate(self, known: Path, change: Callable[[Tensors], Tensors], evaluation: str) -> RunSpec:
        self._repeats += 1
        name, last = f"evaluation-{self._repeats}", self.playing.steps[-1]
        # The state of the step is untouched, and only that after it, which the evaluation reads, is changed.
        before, after = (read_all(Trace(known).step(step)) for step in (last, last + 1))
        states = write_states(self.playing.out / "states" / name, [(last, before), (last + 1, change(after))])
        return RunSpec(name, "float64", known, known, states, ("eval",), [last], True, evaluation=evaluation)
