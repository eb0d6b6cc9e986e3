"""What the passes of a recording step by step share: sides and join, the runs of single steps, the states before them."""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from parity.experiment.recording import Setup, SidePaths
from parity.experiment.runs import drawn_steps
from parity.experiment.spec import Progress
from parity.experiment.stepwise.on_demand import OnDemandTrace, remove
from parity.mapping.states import read_all, translated, write_init, write_states
from parity.mapping.trace_map import Join
from parity.trace import STATE_OF_A_STEP, UPDATED, TensorFile, Trace, select


@dataclass
class Stage:
    """A case that is recorded step by step.

    Attributes:
      playing: the sides and what they are fed.
      join: names and layouts.
      out: folder of the recording.
      float32: whether level 2 is decided.
      keep: whether the reference's float32 run is left in `out`.
      quick: whether lockstep alone is run.
      tick: told how far it is.
      runs: what is known of each run: "reference32", "reference64", "candidate32", "candidate64", and free ones.
    """

    playing: Setup
    join: Join
    out: Path
    float32: bool
    keep: bool
    quick: bool
    tick: Progress
    runs: dict[str, OnDemandTrace] = field(default_factory=dict)

    @property
    def draw_steps(self) -> list[int]:
        """The steps that are made under perturbation: the first, the middle one, the last."""
        return drawn_steps(self.playing.steps) if self.float32 else []

    def is_last(self, step: int) -> bool:
        """Returns whether inference follows the step."""
        return step == self.playing.steps[-1]

    def write_start(self) -> None:
        """Writes what the candidate starts from, in its own names, once more."""
        start = read_all(Trace(self.playing.start.tf).init())
        write_init(self.playing.start.torch, translated(self.join, start))

    def drop_start(self) -> None:
        """Removes what the candidate starts from, once it has: it is written again for the next run."""
        (self.playing.start.torch / "init.safetensors").unlink(missing_ok=True)


class StatesNow:
    """The states before one step, in each side's names, written when the step is about to be made.

    Args:
      stage: of the recording.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        folder = stage.out / "states" / "now"
        self.paths = SidePaths(folder / "tf", folder / "torch")

    def write(self, step: int, previous: Trace | None, counters: TensorFile, after: Trace | None = None) -> None:
        """Writes the state before a step, and where inference follows also the one after it; the one before goes.

        Args:
          step: its number.
          previous: a trace of the reference that holds the step before; None before the first.
          counters: the reference's step, which has the counters as they are before it.
          after: a trace of the reference that holds the step, where inference follows.
        """
        stage = self._stage
        file = previous.step(previous.step_numbers[-1]) if previous else Trace(stage.playing.start.tf).init()
        state = {text: file.read(text) for text in file.names(*STATE_OF_A_STEP)}
        state.update((text, counters.read(text)) for text in counters.names("state"))
        states = [(step, state)]
        if after is not None:
            # Slots take no part in inference.
            left = after.step(step)
            states.append((step + 1, {text: left.read(text) for text in left.names(*UPDATED)}))
        write_states(self.paths.tf, states)
        write_states(self.paths.torch, ((number, translated(stage.join, each)) for number, each in states))

    def trim(self, step: int) -> None:
        """Leaves of the reference's state what judging a step reads, once both sides have loaded it."""
        state = select(read_all(Trace(self.paths.tf).step(step)), *UPDATED)
        write_states(self.paths.tf, [(step, state)])

    def remove(self) -> None:
        """Removes them."""
        for path in self.paths:
            if path.is_dir():
                remove(Trace(path))


def digests(file: TensorFile) -> dict[str, bytes]:
    """Returns a hash of each tensor of a file, dict by trace name: equal ones are equal bit for bit."""
    return {
        text: hashlib.blake2b(np.ascontiguousarray(file.read(text)).data, digest_size=16).digest()
        for text in file.names()
    }
