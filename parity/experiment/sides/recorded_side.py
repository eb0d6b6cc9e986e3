"""A recorded script as the reference: what it did, its float64 shadow, and the shadow's free run."""

from dataclasses import replace
from pathlib import Path

from parity.experiment.replay.reference import write_reference
from parity.experiment.replay.script import Part
from parity.mapping.states import write_states
from parity.trace import SHADOW_FREE, Trace


class RecordedSide:
    """Answers as one optimizer's part of a recorded script did; nothing is started.

    Args:
      part: what was recorded.
      shadow: the float64 shadow of its trace, or what it was where rounding moved it.
      out: folder for what is written.
    """

    def __init__(self, part: Part, shadow: Trace, out: Path) -> None:
        self._part, self._shadow, self._out = part, shadow, out

    def run(self, name: str, precision: str, follow: bool = True) -> Trace:
        """Returns a run of all recorded steps: float32 as it was, float64 as its shadow computed it.

        Args:
          name: of the run, and of its trace's folder.
          precision: "float32" or "float64".
          follow: whether in lockstep, from the recorded state before each step. A script trains freely: in float32 both runs
            are the recording itself.

        Raises:
          TraceError: the shadow has no free run.
        """
        part = self._part if follow or precision == "float32" else self.freely
        recorded = part.trace if precision == "float32" or not follow else self._shadow
        return write_reference(part, recorded, self._out / f"reference-{name}")

    @property
    def freely(self) -> Part:
        """The part as the shadow's free run has it: in float64 from the first state, with nobody resetting it.

        Raises:
          TraceError: there is no such run.
        """
        return replace(self._part, trace=Trace(Path(self._shadow.directory) / SHADOW_FREE))

    def states(self, name: str) -> Trace:
        """Leaves the recorded state before each step; returns the trace."""
        before = ((number, self._part.before(number)) for number in self._part.steps)
        return Trace(write_states(self._out / name, before))
