"""Plans what is recorded of a `Session.run`, once for each list of fetches."""

import collections
from typing import Any, Dict, FrozenSet, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

import tensorflow.compat.v1 as tf
from tensorflow.python.client import session as session_module

from parity.trace import LEARNING_RATE, ROW_INDICES, ROW_VALUES, trace_name
from tf_towers.graph.op_types import PLACEHOLDERS
from tf_towers.graph.traversal import ancestors, ops_that_draw_in_functions
from tf_towers.record.fed_values import given_to_updates
from tf_towers.record.gradient_combination import Combination, combinations_of
from tf_towers.record.hooks import ApplyCall, Calls
from tf_towers.record.inputs import Input, draws_in, inputs_of, is_fed, is_source
from tf_towers.record.manual_updates import HandWritten
from tf_towers.record.observe import IN_A_FUNCTION, WITHOUT_DEBUGGER, Observed, observe
from tf_towers.record.towers import TowerFound, split_by_loss, towers_of, values_of
from tf_towers.record.variables import Variables, learning_rate
from tf_towers.tf_types import Gradient, Graph, Operation, Tensor

# Takes apart what a script fetches and feeds.


def fetched_by(graph: Graph, fetches: Any) -> Optional[List[Any]]:
    """Returns the tensors and ops of a structure of fetches, or None where TensorFlow itself will refuse it."""
    try:
        # As the session does: a script may run a graph that is not the default one, and in other threads none is.
        with graph.as_default():
            # Private, but the same in 1.15 and 2.21: fetches are nested structures of tensors, variables and sparse
            # tensors.
            unique = session_module._FetchMapper.for_fetch(fetches).unique_fetches()
        return [graph.as_graph_element(each, allow_tensor=True, allow_operation=True) for each in unique]
    except (TypeError, ValueError, KeyError):
        return None


def fed_beside_placeholders(graph: Graph, feed_dict: Any) -> FrozenSet[str]:
    """Returns the names of the tensors that are fed though they are no placeholders, e.g. an RNN's first state."""
    found = set()
    for key in feed_dict or {}:
        try:
            tensor = graph.as_graph_element(key, allow_tensor=True, allow_operation=False)
        except (TypeError, ValueError, KeyError):
            continue  # a structure, or what TensorFlow itself will refuse
        if tensor.op.type not in PLACEHOLDERS:
            found.add(tensor.name)
    return frozenset(found)


# Decides what is recorded of a run of a script's train op.


class Section(NamedTuple):
    """One optimizer's part of a training step.

    Fields:
      name: of the optimizer, made unique.
      prefix: of its quantities in a trace: "" where there is one optimizer only.
      apply: the `ApplyCall`.
      towers: list of `TowerFound`.
      towers_ops: list over the towers of the set of ops that the loss needs.
      inputs: list over the towers of lists of `Input`.
      combinations: dict of variable name to `Combination`.
      draws: list over the towers of dicts of random op name to its output.
      inside: the same for those inside loops and branches, whose output cannot be fetched.
      loss_factor: what the sum of the towers' losses is multiplied by where they are differentiated at once, else None.
    """

    name: str
    prefix: str
    apply: ApplyCall
    towers: List[TowerFound]
    towers_ops: List[Set[Operation]]
    inputs: List[List[Input]]
    combinations: Dict[str, Combination]
    draws: List[Dict[str, Tensor]]
    inside: List[Dict[str, Tensor]]
    loss_factor: Optional[float]


class RecordPlan(NamedTuple):
    """What is recorded of a run of the script's train op.

    Fields:
      sections: list of the `Section` whose updates this run makes.
      observed: the `Observed` that says how.
      watched: dict of trace name to the tensor of a draw inside a loop or a branch, for `Watch`.
      ops: the set of ops that the script's own run needs.
      left_out: dict of trace name or tensor name to why it is not recorded.
      fetched: names of the tensors and ops that the script itself fetches.
      reductions: dict of trace name of a loss to "mean" or "sum", where what is recorded is that of the tensor's elements.
      shares: dict of trace name of a feed to ``(place, count)``, where one of equal shares of the tensor is recorded.
      given: dict of trace name to tensor of what is fed to an update that the script writes itself.
    """

    sections: List[Section]
    observed: Observed
    watched: Dict[str, Tensor]
    ops: Set[Operation]
    left_out: Dict[str, str]
    fetched: List[str]
    reductions: Dict[str, str]
    shares: Dict[str, Tuple[int, int]]
    given: Dict[str, Tensor]


def make_section(
    apply: ApplyCall, name: str, prefix: str, calls: Calls, fed: FrozenSet[str] = frozenset()
) -> Tuple[Section, Dict[str, str]]:
    """Finds everything about one update; returns a `Section`. `fed` as in `inputs_of`."""
    found = towers_of(apply, calls.gradients)
    towers, loss_factor = split_by_loss(found)
    # Losses need what comes from these, and not what a queue or an iterator does before: that is another run's.
    stop = {
        op
        for op in ancestors([loss.op for tower in towers for loss in tower.losses])
        if is_source(op) or is_fed(op, fed)
    }
    towers_ops = [ancestors([loss.op for loss in tower.losses], stop) for tower in towers]
    inputs, missed = inputs_of(towers_ops, fed)
    draws = [draws_in(ops) for ops in towers_ops]
    section = Section(
        name,
        prefix,
        apply,
        towers,
        towers_ops,
        inputs,
        # Of what was found before any split: losses that are joined have one gradient together.
        combinations_of(apply, found),
        [drawn for drawn, _ in draws],
        [inside for _, inside in draws],
        loss_factor,
    )
    left_out = dict.fromkeys(missed, "no array: a string, a handle, or inside a loop")
    left_out.update(dict.fromkeys(ops_that_draw_in_functions(towers_ops), IN_A_FUNCTION))
    return section, left_out


def changed_after_combining(section: Section) -> bool:
    """Tells whether what a `Section` applies is not the combined gradients themselves: clipped ones, say."""
    return any(
        section.combinations[variable.op.name].combined.name != values_of(gradient).name
        for gradient, variable in section.apply.pairs
    )


def make_plan(
    graph: Graph,
    fetched: Sequence[Any],
    sections: List[Section],
    left_out: Mapping[str, str],
    variables: Variables,
    can_watch: bool = False,
    fed: FrozenSet[str] = frozenset(),
) -> RecordPlan:
    """Decides what to record of a run that fetches `fetched`, and how.

    Args:
      graph: the graph that runs.
      fetched: list of the tensors and ops that the script fetches.
      sections: list of `Section` whose train ops are among their ancestors.
      left_out: dict of name to reason, known so far.
      variables: the `Variables` of the graph.
      can_watch: whether a `Watch` works.
      fed: as in `inputs_of`.
    """
    own = ancestors([each if isinstance(each, tf.Operation) else each.op for each in fetched])
    wanted, reasons = collections.OrderedDict(), dict(left_out)
    for section in sections:
        for key, tensor in _wanted(section):
            # Not fetchable is what lies inside a loop or a branch of TensorFlow 1.
            if graph.is_fetchable(tensor):
                wanted[section.prefix + key] = tensor
            else:
                reasons[section.prefix + key] = "it is inside a loop or a branch"
    # After the loop above, for what is recorded already is not asked for again.
    given = given_to_updates(sections, wanted, own, variables, fed)
    wanted.update(given)
    observed, more = observe(wanted, own, variables)
    reasons.update(more)
    watched = _watched(sections)
    if watched and not can_watch:
        reasons.update((tensor.op.name, WITHOUT_DEBUGGER) for tensor in watched.values())
        watched = {}
    reductions = {
        section.prefix + trace_name("loss", tower=number): reduction
        for section in sections
        for number, tower in enumerate(section.towers)
        for reduction in [tower.reduction or _reduction_of_gradients(tower)]
        if reduction
    }
    shares = {
        section.prefix + trace_name("feed", each.name, tower=number): each.share
        for section in sections
        for number, inputs in enumerate(section.inputs)
        for each in inputs
        if each.share
    }
    by_hand = all(isinstance(section.apply.optimizer, HandWritten) for section in sections)
    names = [each.name for each in fetched]
    return RecordPlan(sections, observed, watched, own, reasons, names, reductions, shares, given if by_hand else {})


def _reduction_of_gradients(tower: TowerFound) -> str:
    """What TensorFlow differentiates of a loss with several elements is their sum; "" of any other."""
    return "sum" if len(tower.losses) == 1 and tower.losses[0].shape.ndims else ""


def _watched(sections: List[Section]) -> Dict[str, Tensor]:
    return collections.OrderedDict(
        (section.prefix + trace_name("noise", name, tower=number), draw)
        for section in sections
        for number, inside in enumerate(section.inside)
        for name, draw in inside.items()
    )


def _wanted(section: Section) -> Iterator[Tuple[str, Tensor]]:
    rate = learning_rate(section.apply.optimizer)
    if rate is not None:
        yield LEARNING_RATE, rate
    for number, tower in enumerate(section.towers):
        for each in section.inputs[number]:
            yield trace_name("feed", each.name, tower=number), each.tensor
        for name, draw in section.draws[number].items():
            yield trace_name("noise", name, tower=number), draw
        for loss in tower.losses:
            name = "" if len(tower.losses) == 1 else loss.op.name
            yield trace_name("loss", name, tower=number), loss
        for name, gradient in tower.gradients.items():
            yield from _of_gradient(trace_name("tower_grad", name, tower=number), gradient)
        for name, combination in section.combinations.items():
            if number in combination.entries:
                yield trace_name("tower_clip", name, tower=number), combination.entries[number]
    for gradient, variable in section.apply.pairs:
        yield from _combined(variable.op.name, gradient, section.combinations[variable.op.name])


def _combined(name: str, applied: Gradient, combination: Combination) -> Iterator[Tuple[str, Tensor]]:
    sparse = isinstance(applied, tf.IndexedSlices)
    changed = combination.combined.name != values_of(applied).name
    if not changed:
        yield from _of_gradient(trace_name("grad", name), applied)
    elif sparse:
        yield trace_name("grad", name + ROW_VALUES), combination.combined
        # Clipping scales values and hands the indices on: the combined slices have the same.
        yield trace_name("grad", name + ROW_INDICES), applied.indices
        yield from _of_gradient(trace_name("clip", name), applied)
    else:
        yield trace_name("grad", name), combination.combined
        yield trace_name("clip", name), applied


def _of_gradient(key: str, gradient: Gradient) -> Iterator[Tuple[str, Tensor]]:
    if isinstance(gradient, tf.IndexedSlices):
        yield key + ROW_VALUES, gradient.values
        yield key + ROW_INDICES, gradient.indices
    else:
        yield key, gradient
