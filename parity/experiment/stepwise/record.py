"""Records a case step by step: judges each step while its tensors are there, and leaves numbers and traces on demand."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from parity.experiment.prepare import Prepared
from parity.experiment.recording import Measured, Recorded, Setup, SidePaths
from parity.experiment.spec import RunSpec
from parity.experiment.stepwise.free import free_specs, judge_freely
from parity.experiment.stepwise.lockstep import judge_in_lockstep, specs_of
from parity.experiment.stepwise.on_demand import OnDemandTrace, Remaking, StatesOnDemand
from parity.experiment.stepwise.spread import Spread, measure_repeats, measure_spread
from parity.experiment.stepwise.stage import Stage
from parity.judge.levels.float32 import accuracy_of, allow_float32
from parity.judge.levels.function import Lockstep, judge_initial_slots
from parity.judge.port_values import judge_own_values
from parity.judge.unmatched_slots import slots_aside
from parity.trace import Trace


class Stepwise:
    """Records a case whose runs are too large to be kept.

    Args:
      stage: of the recording.
      prepared: the sides, and what each starts from by itself.
      states: where the states before each step are written when somebody reads them.
      write_states: writes them, once.
    """

    def __init__(self, stage: Stage, prepared: Prepared, states: SidePaths, write_states: Callable[[], None]) -> None:
        self.stage, self._prepared, self._states, self._write = stage, prepared, states, write_states
        followed = {"reference64": states.tf, "candidate32": states.torch, "candidate64": states.torch}
        for name, spec in specs_of(stage).items():
            # Made again, a run follows the states of all steps, and not those that were there when it was made first.
            stage.runs[name] = self._on_demand(name, spec._replace(follow=followed.get(name)))
        for side, spec in free_specs(stage).items():
            stage.runs[f"{side}_free"] = self._on_demand(side, spec)

    def _on_demand(self, name: str, whole: RunSpec) -> OnDemandTrace:
        def run(asked: RunSpec) -> "Future[Trace]":
            playing = self.stage.playing
            if name.startswith("candidate"):
                return playing.torch.run(asked)
            # An experiment may have had the reference build another graph.
            playing.tf.prepare(asked.precision, playing.inputs).result()
            return playing.tf.run(asked)

        def ready() -> None:
            if whole.follow is not None:
                self._write()
            self.stage.write_start()

        return OnDemandTrace(Remaking(run, whole, ready))

    def record(self, notes: list[str], pairs: list[tuple[str, str, str, str]]) -> Recorded:
        """Makes, judges and removes everything; returns the numbers, and traces that make a step again when it is read.

        Args:
          notes: what the report is to say of how it was recorded.
          pairs: the mapping, as text.
        """
        stage, prepared, join = self.stage, self._prepared, self.stage.join
        checks = judge_initial_slots(join, *prepared.initial_slots) + judge_own_values(prepared.written)
        lockstep = judge_in_lockstep(stage)
        checks += lockstep.checks
        if not stage.quick:
            checks += judge_freely(stage, checks)
        # Without level 2 and repeats only what is to be left has the steps made once more.
        spread = Spread({}, {}, {}) if stage.quick and not stage.keep else measure_spread(stage, lockstep)
        stage.write_start()  # for experiments, which may start from there
        runs, steps = stage.runs, stage.playing.steps
        states = StatesOnDemand([*steps, steps[-1] + 1], self._written)
        reference, candidate = ((runs[f"{side}32"], runs[f"{side}64"]) for side in ("reference", "candidate"))
        traces = Lockstep(*reference, *candidate, states)
        measured = Measured(
            # Behind all judging, for the updates have to be known by which slots are told.
            slots_aside(checks, join, traces),
            allow_float32(lockstep.float32, spread.drawn),
            accuracy_of(lockstep.errors, spread.spreads),
            measure_repeats(stage, self._ready_states, spread.repeats),
            frozenset(lockstep.moved),
        )
        return Recorded(
            join=join,
            start=Trace(stage.playing.start.tf),
            lockstep=traces,
            reference_free=runs["reference64" if stage.quick else "reference_free"],
            candidate_free=runs["candidate64" if stage.quick else "candidate_free"],
            quick=stage.quick,
            initial_slots=prepared.initial_slots,
            written=prepared.written,
            pairs=pairs,
            notes=notes + lockstep.layouts,
            measured=measured,
        )

    def _written(self) -> Trace:
        self._write()
        return Trace(self._states.tf)

    def _ready_states(self) -> SidePaths:
        self._write()
        self.stage.write_start()
        return self._states


def whole_float32(stage: Stage) -> "Future[Trace]":
    """Starts the reference's float32 run, of which only states are written."""
    playing: Setup = stage.playing
    quantities = ("state", "stat", "slot", "var", "ema")
    asked: Any = specs_of(stage)["reference32"]._replace(name="float32-states", quantities=quantities)
    playing.tf.prepare("float32", playing.inputs).result()
    return playing.tf.run(asked)
