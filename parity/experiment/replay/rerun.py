"""Runs single steps of a replayed port once more with one thing changed, for those who look for a cause."""

import re
from collections.abc import Callable, Sequence
from collections.abc import Mapping as TableOf
from pathlib import Path

from parity.experiment.replay.port import ReplayedPort
from parity.mapping.states import translated_batch
from parity.trace import SHADOW, SHADOW_FORWARD, Forward, ForwardOp, SourceLine, Trace, TraceError, read_graph
from parity.trace.arrays import Tensors
from parity.trace.source_line import MOST_CALLERS

# What a shadow puts behind the name of an op that it computes by others, or casts, and the number of an output.
OF_SHADOW = re.compile(r"(/([^/]*_)?in_float(32|64)(/.*)?|:\d+)$")


def lines_of_script(directory: str) -> dict[str, SourceLine]:
    """Returns dict of op name to the line of the script that made it; empty where a trace has none.

    Args:
      directory: of the recorded trace.
    """
    try:
        graph = read_graph(Path(directory))
    except TraceError:  # refused, it is in the notes: see `refused_parts`
        return {}
    made = {name: [tuple(graph.frames[each]) for each in reversed(frames)] for name, frames in graph.callers.items()}
    return {
        name: SourceLine(*frames[0])._replace(callers=tuple(frames[1 : MOST_CALLERS + 1]))
        for name, frames in made.items()
    }


def with_lines(ops: Sequence[ForwardOp], lines: TableOf[str, SourceLine]) -> list[ForwardOp]:
    """Returns the ops of a shadow's pass with the lines of the ops of the script that they stand for."""
    return [op if op.line else op._replace(line=lines.get(OF_SHADOW.sub("", op.name))) for op in ops]


class Rerun:
    """Runs a step of a port once more with one thing changed, for those who look for a cause."""

    def __init__(self, replayed: ReplayedPort) -> None:
        self._replayed = replayed
        self._made = 0

    @property
    def towers(self) -> int:
        """The number of towers."""
        return self._replayed.part.towers

    @property
    def batch_norm_updates(self) -> str:
        """Which tower's statistics survive: what a script does is not known in these words."""
        return "recorded"

    def batch(self, step: int) -> Tensors:
        """Returns a whole batch as the port is fed it."""
        return self._replayed.batch(step)

    def state(self, step: int) -> Tensors:
        """Returns the state before a step in the port's names and layouts."""
        return self._replayed.state(step)

    def repeat(
        self,
        step: int,
        batch: Callable[[Tensors], Tensors],
        state: Callable[[Tensors], Tensors],
        twice: bool = False,
        *,
        ahead: Callable[[Tensors], Tensors] | None = None,
        random_seed: int | None = None,
    ) -> Trace:
        """Runs a step in float64 from a changed state on a changed batch; the trace's last step is the one that counts.

        With `twice` it runs two times, the first one on what `ahead` makes of the batch.
        """
        self._made += 1
        steps = [step, step + 1] if twice else [step]
        batches = [change(self.batch(step)) for change in ([ahead or batch] if twice else []) + [batch]]
        # Of both runs the same: what the port carries by itself is all that may differ.
        states = [state(self.state(step))] * len(steps)
        return self._replayed.again(f"again-{self._made}", steps, batches, states, random_seed)

    def repeat_seeded(self, step: int, seed: int) -> Trace:
        """Runs a step in float64 once more as it is, the port's random generators seeded."""
        return self.repeat(step, lambda batch: batch, lambda state: state, random_seed=seed)

    def repeat_uncut(self, step: int, places: Sequence[str]) -> Trace:
        """Runs a step in float64 once more, gradients let pass at some places, as `Rerun` of a case does."""
        self._made += 1
        name = f"again-{self._made}"
        return self._replayed.again(name, [step], [self.batch(step)], [self.state(step)], uncut=places)

    def forward(self, step: int, tower: str, ends_at: str = "") -> tuple[Forward, Forward] | None:
        """Returns the forward pass of the first tower on both sides, in float64.

        It is that of the first step from `step` on of which the shadow has it; None where it has none, or up to another
        output than the loss.
        """
        if ends_at:
            return None
        part, shadow = self._replayed.part, Path(self._replayed.part.trace.directory) / SHADOW / SHADOW_FORWARD
        kept = shadow / (part.name or "main")
        numbers = sorted(int(each.name) for each in kept.iterdir() if each.name.isdigit()) if kept.is_dir() else []
        # The shadow keeps a few passes only: the next step that has one shows the same layers.
        number = next((each for each in numbers if each >= step and each in part.steps), None)
        if number is None:
            return None
        reference = Forward(kept / str(number))
        reference.ops = with_lines(reference.ops, lines_of_script(part.trace.directory))
        return reference, self._replayed.forward(number, "0")

    def repeat_built_anew(self, step: int) -> Trace:
        """Runs a step as it is: a script's port is not built anew."""
        return self.repeat(step, lambda batch: batch, lambda state: state)

    def repeat_with_batch_norm(self, step: int, over_all_ranks: bool | None) -> Trace:
        """Runs a step as it is: a script's port is not built anew."""
        return self.repeat(step, lambda batch: batch, lambda state: state)

    def reference_batch(self, step: int) -> Tensors:
        """Returns a whole batch as it was recorded."""
        return self._replayed.part.batch(step)

    def translated_batch(self, batch: Tensors) -> Tensors:
        """Returns a recorded batch as the port is fed it."""
        return translated_batch(self._replayed.join, batch)

    def repeat_reference(
        self,
        step: int,
        batch_norm_updates: str | None = None,
        batch: Callable[[Tensors], Tensors] = lambda batch: batch,
    ) -> Trace | None:
        """Returns None: a script is not run again."""
        return None
