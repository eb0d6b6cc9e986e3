"""Records a case on both sides: which runs are made, from which states, in which order."""

import shutil
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

from parity.case import Case, as_declared
from parity.experiment.moved_statistics import moved_statistics
from parity.experiment.prepare import prepare_both
from parity.experiment.recording import Begun, Recorded, Setup, SidePaths
from parity.experiment.rejudge.bless import leave_beside
from parity.experiment.rejudge.rules import Rule, rules_of_case
from parity.experiment.runs import (
    REPLICAS,
    candidate_in_lockstep,
    candidate_repeated,
    free_candidate,
    lockstep_repeated,
    reference_in_float64,
    rough_reference,
    run_draws,
    run_orders,
)
from parity.experiment.sides.rerun import Rerun
from parity.experiment.sides.tensorflow_side import ReferenceSide, TensorFlowSide
from parity.experiment.sides.torch_side import TorchSide
from parity.experiment.spec import MAPPING, Progress, silent
from parity.experiment.stepwise.on_demand import remove
from parity.experiment.stepwise.record import Stepwise, whole_float32
from parity.experiment.stepwise.sizes import Budget, Fit, all_runs, fit, step_by_step
from parity.experiment.stepwise.stage import Stage
from parity.judge.levels.function import Lockstep
from parity.judge.output_layouts import take_layouts
from parity.mapping import MappingError, Structure
from parity.mapping.states import state_to_evaluate, states_before, translated, write_states
from parity.mapping.trace_map import Join
from parity.trace import LEARNING_RATE, Trace
from parity.worker.launch import Sides


class Recorder:
    """Records one case with both sides.

    Args:
      case: what to run.
      sides: started processes.
      out: folder for the traces; made, and best empty.
      spread: whether to measure the spread under perturbation (level 2 needs it).
      tick: told how far it is: what, done, total.
      reference: what plays the reference; by default the TensorFlow side.
      budget: of what all runs together may take on disk; beyond that they are made and judged step by step, and removed.
        None keeps them whatever they take.
      keep: whether a recording step by step leaves the reference's float32 run.
      quick: whether only what level 1 needs in lockstep is run: no free runs, and nothing twice.
      allowing: as of `TorchSide`.

    Attributes:
      states: the states before each step, once it has recorded.
      again: runs steps once more, once it has recorded.
      fit: how much of the case fits into its budget, once it has begun.
    """

    def __init__(
        self,
        case: Case,
        sides: Sides,
        out: Path,
        spread: bool = True,
        tick: Progress = silent,
        reference: ReferenceSide | None = None,
        budget: Budget | None = None,
        keep: bool = False,
        quick: bool = False,
        allowing: str = "",
    ) -> None:
        self._case = case
        self._sides = sides
        self._out = out
        self._spread = spread
        self._tick = tick
        self._reference: ReferenceSide = reference or TensorFlowSide(as_declared(case), sides, out / "tf", tick)
        self._candidate = TorchSide(case, sides, out / "torch", tick, allowing=allowing)
        self._budget, self._keep, self._quick = budget, keep, quick
        self._stepwise: Stepwise | None = None
        self._has_states = False
        self.fit = Fit(case.steps, keep)
        out.mkdir(parents=True, exist_ok=True)

    def begin(self) -> Begun:
        """Has both sides get ready, and the reference make its float32 trajectory, from which all else is made.

        Raises:
          SideFailed: a side could not do its part.
          MappingError: the variables do not join.
        """
        self._prepared = prepare_both(self._case, self._reference, self._candidate, self._out, self._tick)
        prepared = self._prepared
        self.states = SidePaths(self._out / "states" / "tf", self._out / "states" / "torch")
        if self._budget is not None and self._is_too_large(self._budget):
            self.fit = fit(prepared.sizes, self._case.steps, self._keep, self._budget)
            self._stepwise = self._new_stepwise(self.fit.keep)
            # What the mapping was decided by, where it was by numbers, is as large as a step.
            for path in (each for name in ("start", "tf", "torch") for each in (self._out / name).glob(f"{MAPPING}*")):
                shutil.rmtree(path)
            most = step_by_step(prepared.sizes, self.fit.steps, self.fit.keep)
            self._tick(f"step by step: {most / 1e9:.3g} GB on disk predicted", 0, 1)
        if self._stepwise is None:
            reference = rough_reference(prepared.playing)
        else:
            reference = Future()
            reference.set_result(self._stepwise.stage.runs["reference32"])
        return Begun(prepared.join, prepared.draft.mapping().texts(), reference)

    @property
    def is_stepwise(self) -> bool:
        """Whether steps are judged and removed one by one, once it has begun."""
        return self._stepwise is not None

    def _is_too_large(self, budget: Budget) -> bool:
        # What races is judged by all orders of all steps, and a golden trace has its runs on disk already.
        if self._prepared.playing.racing or not isinstance(self._reference, TensorFlowSide):
            return False
        return all_runs(self._prepared.sizes, self._case.steps, self._spread) > budget.most

    def _new_stepwise(self, keep: bool) -> Stepwise:
        level_2 = self._spread and self._case.precision == "float32"
        stage = Stage(self.playing, self._prepared.join, self._out, level_2, keep, self._quick, self._tick)
        return Stepwise(stage, self._prepared, self.states, self.write_states)

    def write_states(self) -> None:
        """Writes the states before all steps where they are not there yet: what experiments and rules start from."""
        if self._stepwise is None or self._has_states:
            return
        rough = whole_float32(self._stepwise.stage).result()
        self._write_states(self._prepared.join, rough)
        remove(rough)
        self._has_states = True

    def tidy(self) -> None:
        """Removes what a recording step by step has left beside what `keep` asks for."""
        if self._stepwise is not None:
            for name in ("start", "states"):
                shutil.rmtree(self._out / name, ignore_errors=True)

    @property
    def structure(self) -> tuple[Structure, MappingError | None]:
        """What one side holds and the other does not, and the error that asks for it, once it has begun."""
        return self._prepared.structure, self._prepared.question

    @property
    def candidate_facts(self) -> dict[str, Any]:
        """What the candidate says of itself when it has begun."""
        facts = self._candidate.prepare("float32").result()["facts"]
        return {**facts, "producer": {"package": "torch_ddp", "framework": facts["framework"]}}

    @property
    def playing(self) -> Setup:
        """The sides and what they are fed, once it has begun."""
        return self._prepared.playing._replace(torch=self._candidate)

    def record(self, begun: Begun | None = None) -> Recorded:
        """Runs everything and returns the traces.

        Args:
          begun: what `begin` returned, where it has begun.

        Raises:
          SideFailed: a side could not do its part.
          MappingError: the variables do not join.
        """
        join, pairs, asked = begun or self.begin()
        case, playing = self._case, self.playing
        if self._stepwise is not None:
            self.again = Rerun(case, playing, join, self.states)
            return self._stepwise.record(self._reference.notes + self._prepared.notes, pairs)
        # Started first: the port trains while TensorFlow makes the trajectory that the lockstep waits for.
        free = None if self._quick else free_candidate(playing)
        # Every state of the lockstep is one of this float32 trajectory: where training is, is where steps are judged.
        rough = asked.result()
        states = self._write_states(join, rough)
        self.again = Rerun(case, playing, join, states)
        candidates = candidate_in_lockstep(playing, states.torch)
        references = reference_in_float64(playing, states.tf, self._quick)
        repeats = {} if self._quick else lockstep_repeated(playing, states)
        draws = list(run_draws(playing, join, states)) if self._spread else []
        # One more run for each further tower and precision, only of graphs that leave an order open.
        races = run_orders(playing, states.torch, case, candidates) if playing.racing else None
        lockstep = Lockstep(
            reference32=rough,
            reference64=references["float64"].result(),
            candidate32=candidates["float32"].result(),
            candidate64=candidates["float64"].result(),
            states=Trace(states.tf),
        )
        # Once both float64 runs are there: the join reads outputs in these layouts from here on.
        layouts = take_layouts(join, lockstep.reference64, lockstep.candidate64)
        return Recorded(
            join=join,
            start=Trace(playing.start.tf),
            lockstep=lockstep,
            reference_free=references["free" if free else "float64"].result(),
            candidate_free=(free or candidates["float64"]).result(),
            quick=self._quick,
            initial_slots=self._prepared.initial_slots,
            written=self._prepared.written,
            replicas=[references[f"replica-{number}"].result() for number in range(REPLICAS if free else 0)],
            reference_draws=[reference.result() for reference, _ in draws],
            candidate_draws=[candidate.result() for _, candidate in draws],
            pairs=pairs,
            races=races,
            notes=self._reference.notes + self._prepared.notes + layouts,
            repeats={side: again.result() for side, again in repeats.items()},
        )

    def rules(self, recorded: Recorded) -> list[Rule]:
        """Returns the rules that judge the checks of level 1 again where rounding decides."""
        return rules_of_case(recorded, self.playing, self.states)

    def leave_beside(self, recorded: Recorded) -> None:
        """Has the reference leave what later ports are judged by where rounding decides, for a golden trace."""
        leave_beside(recorded, self.playing, self.states)

    def again_with_rounded_hyper_parameters(self, recorded: Recorded) -> Recorded:
        """Records the candidate once more, its hyper-parameters rounded to float32, its schedule's rates the reference's."""
        # The rounded port takes the other's place in every later run, experiments and levels 3 and 4 among them.
        self._candidate = self._candidate.rounded(
            self._out / "torch-rounded",
            rates=_rates(recorded.lockstep.reference64) if self._case.torch.scheduler else None,
            moved_statistics=moved_statistics(recorded.join, recorded.lockstep),
        )
        self.again.playing = self.playing
        if self._stepwise is not None:
            self._stepwise = self._new_stepwise(keep=False)
            return self._stepwise.record(self._reference.notes + self._prepared.notes, recorded.pairs)
        free = None if self._quick else free_candidate(self.playing)
        candidates = candidate_in_lockstep(self.playing, self.states.torch)
        repeat = None if self._quick else candidate_repeated(self.playing, self.states)
        # The reference's runs stay: nothing of it was rounded anew.
        lockstep = recorded.lockstep._replace(
            candidate32=candidates["float32"].result(), candidate64=candidates["float64"].result()
        )
        repeats = {**recorded.repeats, **({"candidate": repeat.result()} if repeat else {})}
        candidate_free = (free or candidates["float64"]).result()
        return replace(recorded, lockstep=lockstep, candidate_free=candidate_free, repeats=repeats)

    def _write_states(self, join: Join, rough: Trace) -> SidePaths:
        steps = self.playing.steps
        # One state more than steps: inference is evaluated after the last.
        states = [*states_before(rough, steps), state_to_evaluate(rough)]
        write_states(self.states.tf, states)
        write_states(self.states.torch, ((n, translated(join, state)) for n, state in states))
        return self.states


def _rates(trace: Trace) -> dict[int, float]:
    files = {step: trace.step(step) for step in trace.step_numbers}
    return {step: float(file.read(LEARNING_RATE)) for step, file in files.items() if LEARNING_RATE in file}
