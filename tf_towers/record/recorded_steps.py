"""The trace that a recorder writes: a script's steps, and what they and its graph say of the script."""

from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Set, Tuple

import numpy as np
import tensorflow as real

from parity.trace import GLOBAL_STEP, TraceWriter, quantity_of, write_graph
from parity.trace.arrays import Tensors
from tf_towers.record.graph import facts_of, facts_of_section, recorded_graph
from tf_towers.record.hazards.gradients import HAZARDS_OF_GRADIENTS
from tf_towers.record.hazards.losses import HAZARDS_OF_LOSSES, reported_loss
from tf_towers.record.hazards.state import HAZARDS_OF_STATE
from tf_towers.record.hazards.types import Hazard
from tf_towers.record.hazards.values import Batches, combine_from_values, hazards_in_values
from tf_towers.record.plan import RecordPlan, Section
from tf_towers.record.planner import Planner
from tf_towers.record.update_check import changed_by_clipping, gradients_not_applied
from tf_towers.record.variables import Variables, describe
from tf_towers.tf_types import Session


class RecordedSteps:
    """A trace that begins with the first step it is given.

    Args:
      out: folder of the trace.
      planner: the `Planner`, whose variables and left-out names are those of the trace.

    Attributes:
      count: number of steps in the trace.
      hazards: dict of ``(name, evidence)`` to `Hazard`, in the order of finding.
      sections: list of `Section` that trained.
      soft_placement: who turned soft placement on, a fact.
      gpus: number of the GPUs that the recorder stands in for, a fact where there are any.
    """

    def __init__(self, out: str, planner: Planner) -> None:
        self.count = 0
        self.hazards: Dict[Tuple[str, str], Hazard] = {}
        self.sections: List[Section] = []
        self.soft_placement = "asked for by the script"
        self.gpus = 0
        self._out, self._planner = out, planner
        self._writer: Optional[TraceWriter] = None
        self._plans: List[RecordPlan] = []
        self._plan_of_step: List[int] = []
        self._combine: Dict[str, str] = {}
        self._fetched: Set[str] = set()
        self._clipping: Dict[str, bool] = {}
        self._batches = Batches()

    @property
    def begun(self) -> bool:
        """Whether there is a trace, be it without a whole step."""
        return self._writer is not None

    def keep(self, hazards: Iterable[Hazard]) -> None:
        """Keeps hazards that are not known yet."""
        for hazard in hazards:
            self.hazards.setdefault((hazard.name, hazard.evidence), hazard)

    def _once(self, hazards: Iterable[Hazard]) -> None:
        """Keeps hazards of which one example is enough."""
        known = {name for name, _ in self.hazards}
        self.keep(hazard for hazard in hazards if hazard.name not in known)

    def combine_of(self, section: Section) -> str:
        """Returns how a `Section` combines its towers' gradients, as in its facts."""
        return facts_of_section(section, self._combine[section.name])["combine"]

    def clip_never_in_effect(self, section: Section) -> bool:
        """Tells whether a `Section` clips and every gradient that was recorded came out of it as it was."""
        return not self._clipping.get(section.name, True)

    def fetched(self, names: Iterable[str]) -> None:
        """Remembers what a script fetches, in whatever run."""
        self._fetched.update(names)

    def step(
        self,
        session: Session,
        plan: RecordPlan,
        before: Tensors,
        tensors: Tensors,
        after: Tensors,
        so_far: Mapping[str, int],
    ) -> None:
        """Adds a step.

        Args:
          session: that made it.
          plan: the `RecordPlan` of the script's run.
          before: dict of trace name to array, the state before the step.
          tensors: dict of trace name to array of what the step computed; what is no array is left out.
          after: the state after the step.
          so_far: dict of the counters that are facts: ``skipped_steps`` and ``steps_of_the_script``.
        """
        if not self.begun or any(section not in self.sections for section in plan.sections):
            self._learn(plan, tensors)
        writer = self._writer or self._open(session, plan, before, so_far)
        # By identity: the planner makes one plan for each kind of run, and comparing plans compares tensors.
        if not any(plan is each for each in self._plans):
            self._plans.append(plan)
            # Before the step: of a script that is killed no step is left whose run the graph does not know.
            write_graph(self._out, recorded_graph(session.graph, self._plans, self._planner.variables))
        # Counters as the step read them, everything else as it left it: a schedule's rate belongs to its counter.
        recorded = {name: value for name, value in before.items() if quantity_of(name) == "state"}
        recorded.update((name, value) for name, value in tensors.items() if _is_array(value))
        recorded.update((name, value) for name, value in after.items() if quantity_of(name) != "state")
        if not any(hazard.name == "batch_trained_twice" for hazard in self.hazards.values()):
            self.keep(self._batches.look(plan, self.count, recorded))
        writer.step(self.count, recorded)
        self._plan_of_step.append([plan is each for each in self._plans].index(True))
        self._look_at_counter(before, after)
        for section in plan.sections:
            changed = changed_by_clipping(section, tensors)
            if changed is not None:
                self._clipping[section.name] = self._clipping.get(section.name, False) or changed
            self._once(gradients_not_applied(section, plan.ops, before, tensors, after))
        self.count += 1

    def close(self, so_far: Mapping[str, int]) -> None:
        """Marks the trace complete; `so_far` as for `step`."""
        for section in self.sections:
            self.keep(reported_loss(section, self._fetched))
        if self._writer is not None:
            self._writer.close(**self._late_facts(so_far))

    def _learn(self, plan: RecordPlan, tensors: Tensors) -> None:
        self._planner.left_out.update(plan.left_out)
        self.keep(_hazards_in_graph(plan, self._planner.variables))
        for section in plan.sections:
            if section not in self.sections:
                self.sections.append(section)
                self._combine[section.name] = combine_from_values(section, tensors)
                named = {hazard.name for hazard in self.hazards.values()}  # the graph says more than its numbers
                self.keep(hazard for hazard in hazards_in_values(section, tensors) if hazard.name not in named)

    def _look_at_counter(self, before: Tensors, after: Tensors) -> None:
        counted = GLOBAL_STEP in before and GLOBAL_STEP in after
        # auroua/InsightFace_TF counts twice a step, in apply_gradients and beside it: its schedule runs twice as fast.
        step = int(after[GLOBAL_STEP]) - int(before[GLOBAL_STEP]) if counted else 0
        if step > 1:
            what = f"global_step grew by {step} in one update"
            meaning = f"Schedules run {step} times as fast as updates are made."
            self.keep([Hazard("global_step_counted_twice", what, meaning)])

    def _open(self, session: Session, plan: RecordPlan, before: Tensors, so_far: Mapping[str, int]) -> TraceWriter:
        ops = plan.sections[0].towers_ops[0] if plan.sections[0].towers_ops else plan.ops
        producer = {"package": "tf_towers.record", "framework": "tensorflow " + real.__version__}
        described = describe(self._planner.variables, ops)
        facts = facts_of(self.sections, self._planner.variables, self._combine, session, self.soft_placement)
        facts = dict(facts, observed=plan.observed.mode, **self._late_facts(so_far))
        self._writer = writer = TraceWriter(self._out, producer, facts, described)
        # Only now: the first plan says which variables there are, and the script has restored what it restores.
        writer.init(before)
        return writer

    def _late_facts(self, so_far: Mapping[str, int]) -> Dict[str, Any]:
        facts: Dict[str, Any] = {
            "hazards": [hazard._asdict() for hazard in self.hazards.values()],
            "not_recorded": dict(self._planner.left_out),
            "run_of_step": list(self._plan_of_step),
        }
        facts.update(so_far)
        if self.gpus:
            facts["gpus_stood_in_for"] = self.gpus
        if self.sections:
            facts.update(self._clipping_of(self.sections[0]))
        if any(section.prefix for section in self.sections):
            facts["sections"] = {
                each.name: dict(facts_of_section(each, self._combine[each.name]), **self._clipping_of(each))
                for each in self.sections
            }
        return facts

    def _clipping_of(self, section: Section) -> Dict[str, Any]:
        return {"clip_never_in_effect": True} if self.clip_never_in_effect(section) else {}


def _is_array(value: Any) -> bool:
    return np.asarray(value).dtype.kind in "biuf"


def _hazards_in_graph(plan: RecordPlan, variables: Variables) -> Iterator[Hazard]:
    for section in plan.sections:
        for look in HAZARDS_OF_GRADIENTS + HAZARDS_OF_LOSSES:
            yield from look(section, plan)
    for look_at_state in HAZARDS_OF_STATE:
        yield from look_at_state(plan, variables)
