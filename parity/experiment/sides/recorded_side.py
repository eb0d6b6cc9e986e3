"""A recorded script as the reference: what it did, its float64 shadow, and the shadow's free run."""

from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

from parity.experiment.replay.script import Part, ReplayError, write_reference
from parity.experiment.spec import FORWARD, Capability, RunSpec
from parity.mapping.states import write_init, write_states
from parity.trace import SHADOW_FORWARD, SHADOW_FREE, Forward, Trace, TraceError, select


class RecordedSide:
    """Answers as one optimizer's part of a recorded script did.

    Args:
      part: what was recorded.
      shadow: the float64 shadow of its trace, or what it was where rounding moved it; None where there is none.
      out: folder for what is written.
    """

    def __init__(self, part: Part, shadow: Trace | None, out: Path) -> None:
        self.part, self._shadow, self._out = part, shadow, out
        self.notes: list[str] = []
        self.capabilities = Capability.NONE

    def batches(self, out: Path) -> "Future[Any]":
        """Leaves the recorded batches at `out`; answers with what they consist of."""
        trace = Trace(write_states(out, ((number, self.part.batch(number)) for number in self.part.steps)))
        first = trace.step(self.part.steps[0])
        return _done({name: {"dtype": first.dtype(name), "shape": list(first.shape(name))} for name in first.names()})

    def prepare(self, precision: str, inputs: Any) -> "Future[Any]":
        """Answers with the variables and facts of then."""
        return _done({"variables": self.part.trace.variables, "facts": {**self.part.facts, "precision": precision}})

    def initialize(self, out: Path) -> dict[str, list[float]]:
        """Leaves the state before the first step at `out`; answers with the smallest and largest element of its slots."""
        start = self.part.before(self.part.steps[0])
        write_init(out, start)
        slots = {name: value for name, value in select(start, "slot").items() if value.size}
        return {name: [float(value.min()), float(value.max())] for name, value in slots.items()}

    def run(self, asked: RunSpec) -> "Future[Trace]":
        """Answers with what was recorded of a run: float32 as it was, float64 as its shadow computed it."""
        if asked.precision == "float32":
            part, recorded = self.part, self.part.trace  # a script trains freely: its free run is the recording itself
        elif asked.follow is None:
            part, recorded = self.freely, self.freely.trace
        else:
            part, recorded = self.part, self._whole_shadow()
        part = replace(part, steps=list(asked.steps))
        return _done(write_reference(part, recorded, self._out / f"reference-{asked.name}"))

    @property
    def freely(self) -> Part:
        """The part as the shadow's free run has it: in float64 from the first state, with nobody resetting it.

        Raises:
          TraceError: there is no such run.
        """
        return replace(self.part, trace=Trace(Path(self._whole_shadow().directory) / SHADOW_FREE))

    def states(self, name: str) -> Trace:
        """Leaves the recorded state before each step; returns the trace."""
        before = ((number, self.part.before(number)) for number in self.part.steps)
        return Trace(write_states(self._out / name, before))

    def forward(
        self, step: int, tower: str, asked: RunSpec, most: int | None = None, gradients: bool = False
    ) -> Forward | None:
        """Returns the forward pass that the shadow keeps of `step`; no gradients."""
        folder = None if gradients else self.kept(FORWARD)
        try:
            return None if folder is None else Forward(folder / (self.part.name or "main") / str(step))
        except TraceError:
            return None

    def kept(self, name: str) -> Path | None:
        """Returns the folder of what is kept beside the shadow under a name, None where there is none."""
        if self._shadow is None:
            return None
        folder = Path(self._shadow.directory) / {"float64": "", FORWARD: SHADOW_FORWARD, "free": SHADOW_FREE}.get(
            name, name
        )
        return folder if folder.is_dir() else None

    def run_with_statistics(self, batch_norm_updates: str, inputs: Any, asked: RunSpec) -> None:
        """Answers with nothing: no tower is at hand."""

    def _whole_shadow(self) -> Trace:
        if self._shadow is None:
            raise ReplayError(
                "replay: expected a float64 shadow beside the recorded trace, got none. Make it with "
                "python -m tf_towers.shadow, where TensorFlow is."
            )
        return self._shadow


def recorded_run(side: RecordedSide, name: str, precision: str, follow: bool = True) -> Trace:
    """Returns a run of all recorded steps.

    Args:
      side: the script.
      name: of the run, and of its trace's folder.
      precision: "float32" or "float64".
      follow: whether in lockstep, from the recorded state before each step.
    """
    nowhere = Path()  # what was recorded needs no batches and no states: they are in it
    asked = RunSpec(name, precision, nowhere, nowhere, nowhere if follow else None, (), list(side.part.steps))
    return side.run(asked).result()


def _done(value: Any) -> "Future[Any]":
    future: Future[Any] = Future()
    future.set_result(value)
    return future
