"""Remembers what is recorded of which run of a script."""

from typing import AbstractSet, Any, Callable, Dict, FrozenSet, List, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf

from parity.trace import section_prefix
from tf_towers.graph.traversal import ancestors
from tf_towers.record.hooks import ApplyCall, Calls
from tf_towers.record.manual_updates import update_by_hand
from tf_towers.record.plan import RecordPlan, Section, make_plan, make_section
from tf_towers.record.report import print_planning
from tf_towers.record.variables import Variables, sort_variables
from tf_towers.tf_types import Graph, Operation

LARGE = 5000  # ops, from which planning takes seconds


class Planner:
    """Makes the plan of every kind of run once.

    Args:
      calls: the `Calls` of the script.
      left_out: dict of what is not recorded to the reason, added to.
      can_watch: function without arguments, whether draws inside loops can be watched.

    Attributes:
      left_out: the dict given.
    """

    def __init__(self, calls: Calls, left_out: Dict[str, str], can_watch: Callable[[], bool]) -> None:
        self._variables: Optional[Variables] = None
        self._calls = calls
        self.left_out = left_out
        self._can_watch = can_watch
        self._plans: Dict[Any, Tuple[Graph, Optional[RecordPlan]]] = {}
        self._sections: Dict[ApplyCall, Tuple[Section, Dict[str, str]]] = {}
        self._graph = None

    @property
    def variables(self) -> Variables:
        """The variables of the graph that trains, once there is a plan."""
        assert self._variables is not None
        return self._variables

    def plan(self, graph: Graph, fetched: Sequence[Any], fed: FrozenSet[str] = frozenset()) -> Optional[RecordPlan]:
        """Returns the `RecordPlan` of a run; None where it makes no update.

        Args:
          graph: the graph that runs.
          fetched: list of the tensors and ops of it that are fetched.
          fed: names of tensors that are fed though they are no placeholders.
        """
        key = (id(graph), tuple(each.name for each in fetched), fed)
        if key not in self._plans:
            ops = ancestors([each if isinstance(each, tf.Operation) else each.op for each in fetched])
            applies = [each for each in self._calls.applies if each.graph is graph and each.op in ops]
            applies = applies or self._by_hand(graph, ops)
            # The graph is kept beside its plan, so that no later one gets its id.
            self._plans[key] = graph, self._new_plan(graph, fetched, applies, fed) if applies else None
        return self._plans[key][1]

    def _by_hand(self, graph: Graph, ops: AbstractSet[Operation]) -> List[ApplyCall]:
        found = update_by_hand(graph, ops, self._calls.gradients)
        if found is None:
            return []
        # As if the script had called apply_gradients: from here on nothing tells the two apart but `HandWritten`.
        self._calls.applies.append(found)
        return [found]

    def _new_plan(
        self, graph: Graph, fetched: Sequence[Any], applies: Sequence[ApplyCall], fed: FrozenSet[str]
    ) -> Optional[RecordPlan]:
        if self._graph not in (None, graph):
            self.left_out[applies[0].op.name] = "it trains another graph than the first one that was trained"
            return None
        # One trace is of one graph: a second one, as for evaluation by training, has names of its own for the same
        # variables.
        self._graph = graph
        size = len(graph.get_operations())
        if size >= LARGE:
            print_planning(size)
        sections, left_out = self._sections_of(applies, fed)
        self._variables = self._variables or self._sort(graph)
        can_watch = any(inside for section in sections for inside in section.inside) and self._can_watch()
        return make_plan(graph, fetched, sections, left_out, self._variables, can_watch, fed)

    def _sections_of(
        self, applies: Sequence[ApplyCall], fed: FrozenSet[str] = frozenset()
    ) -> Tuple[List[Section], Dict[str, str]]:
        # Of one graph: names without a section stay what they are where another graph trains too.
        several = len([each for each in self._calls.applies if each.graph is applies[0].graph]) > 1
        sections, left_out = [], {}
        for apply in applies:
            if apply not in self._sections:
                base = getattr(apply.optimizer, "_name", None) or type(apply.optimizer).__name__
                taken = [section.name for section, _ in self._sections.values()]
                # A name of a section stands in trace names, whose parts "/" separates.
                base = base.replace("/", "_")
                name = base if base not in taken else f"{base}_{len(taken)}"
                prefix = section_prefix(name) if several else ""
                self._sections[apply] = make_section(apply, name, prefix, self._calls, fed)
            section, missed = self._sections[apply]
            sections.append(section)
            left_out.update(missed)
        return sections, left_out

    def _sort(self, graph: Graph) -> Variables:
        applies = [each for each in self._calls.applies if each.graph is graph]
        known = {apply: section.prefix for apply, (section, _) in self._sections.items()}
        prefixes = [known[each] if each in known else self._sections_of([each])[0][0].prefix for each in applies]
        return sort_variables(graph, applies, prefixes)
