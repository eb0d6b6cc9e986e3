"""Takes the graph and the facts of a script as data."""

import sys
from typing import AbstractSet, Any, Dict, Iterator, List, Mapping, Sequence, Set, Tuple

import tensorflow as real
import tensorflow.compat.v1 as tf
from google.protobuf import json_format
from tensorflow.core.framework import graph_pb2

from parity.trace import RecordedGraph, quantity_of, trace_name
from tf_towers.facts import environment_flags
from tf_towers.graph.traversal import ancestors
from tf_towers.graph.value_flow import writers_of
from tf_towers.record.clipping import clipping_of
from tf_towers.record.hooks import ApplyCall, loop_of
from tf_towers.record.inputs import is_source
from tf_towers.record.manual_updates import is_by_hand
from tf_towers.record.plan import RecordPlan, Section, changed_after_combining
from tf_towers.record.provenance import (
    collections_of,
    flags_of_script,
    initial_values,
    settings_of,
    shapes_of,
    source_of,
)
from tf_towers.record.towers import suggested_towers
from tf_towers.record.variables import Variables, hyper_parameters
from tf_towers.tf_types import Graph, GraphDef, Operation, Session, Tensor

MOST_OF_A_CONSTANT = 1 << 16  # bytes; the state before the first step has the numbers of larger ones


def recorded_graph(graph: Graph, plans: Sequence[RecordPlan], variables: Variables) -> RecordedGraph:
    """Returns the `RecordedGraph` of some runs of a script.

    Kept is what the recorded values and the updates need, up to where data enters: what is behind a placeholder, a queue or
    an iterator is left out.

    Args:
      graph: the `tf.Graph`.
      plans: list of `RecordPlan`.
      variables: the `Variables` of the graph.
    """
    runs = [_run(plan, variables) for plan in plans]
    wanted = {graph.get_operation_by_name(name) for run in runs for name in run["updates"]}
    wanted |= {variable.op for variable in variables.keys.values()}
    for plan in plans:
        wanted |= {tensor.op for tensor in plan.observed.fetches.values()}
    # By name, for one optimizer may be in several kinds of runs, as with and without summaries.
    sections = {section.name: section for plan in plans for section in plan.sections}
    settings = {name: settings_of(section.apply.optimizer) for name, section in sections.items()}
    wanted |= {value.op for each in settings.values() for value in each.values() if tf.is_tensor(value)}
    ops, stop = _with_ancestors(wanted)
    frames, callers = source_of(ops)
    initial = initial_values(variables)
    return RecordedGraph(
        json_format.MessageToDict(_definition(graph, ops, stop), preserving_proto_field_name=True),
        {key: variable.op.name for key, variable in variables.keys.items()},
        runs,
        frames=frames,
        callers=callers,
        shapes=shapes_of(ops),
        initial={key: tensor.name for key, tensor in initial.items()},
        initial_nodes=_initial_nodes(graph, {tensor.op for tensor in initial.values()}),
        arguments=sys.argv[1:],
        flags=flags_of_script(),
        collections=collections_of(graph),
        hyper_parameters={
            section: {name: value.name if tf.is_tensor(value) else value for name, value in each.items()}
            for section, each in settings.items()
        },
        combinations={name: kinds_of_combination(section) for name, section in sections.items()},
        clipping={name: clipping_of(section) for name, section in sections.items()},
    )


def _with_ancestors(wanted: AbstractSet[Operation]) -> Tuple[List[Operation], Set[Operation]]:
    """Returns the ops in the order of making, and those of them where data enters, behind which nothing is looked at."""
    stop = {op for op in ancestors(wanted) if is_source(op)}
    return sorted(ancestors(wanted, stop), key=lambda op: op._id), stop


def _initial_nodes(graph: Graph, wanted: AbstractSet[Operation]) -> List[Dict[str, Any]]:
    definition = _definition(graph, *_with_ancestors(wanted))
    for node in definition.node:
        if node.op == "Const" and node.attr["value"].ByteSize() > MOST_OF_A_CONSTANT:
            del node.attr["value"]
    nodes: List[Dict[str, Any]] = json_format.MessageToDict(definition, preserving_proto_field_name=True).get(
        "node", []
    )
    return nodes


def _definition(graph: Graph, ops: Sequence[Operation], stop: AbstractSet[Operation]) -> GraphDef:
    definition = graph_pb2.GraphDef()
    definition.versions.CopyFrom(graph.graph_def_versions)
    for op in ops:
        node = definition.node.add()
        node.CopyFrom(op.node_def)
        if op in stop:
            # What it takes is left out of the definition, and no node may name one that is not there.
            del node.input[:]
    if getattr(graph, "_functions", None):
        # Only where there are functions: as_graph_def copies the whole graph, constants included.
        definition.library.CopyFrom(graph.as_graph_def().library)
    return definition


def _run(plan: RecordPlan, variables: Variables) -> Dict[str, Any]:
    updates = {op.name for variable in variables.keys.values() for op in writers_of(variable, plan.ops)}
    values = {key: _described(tensor) for key, tensor in plan.observed.fetches.items()}
    for section in plan.sections:
        for number, inputs in enumerate(section.inputs):
            for each in inputs:
                key = section.prefix + trace_name("feed", each.name, tower=number)
                if key in values:
                    values[key]["source"] = each.source.name
    for key, share in plan.shares.items():
        if key in values:
            values[key]["share"] = list(share)
    for key, reduction in plan.reductions.items():
        if key in values:
            values[key]["reduced"] = reduction
    for key, tensor in plan.watched.items():
        values[key] = dict(_described(tensor), loop=loop_of(tensor.op))
    by_hand = [section.apply for section in plan.sections if is_by_hand(section.apply)]
    return {
        "values": values,
        "updates": sorted(updates),
        "by_hand": sorted({op.name for apply in by_hand for op in _written(apply, variables, plan.ops)}),
        "sections": {
            section.name: {"prefix": section.prefix, "variables": [each.op.name for _, each in section.apply.pairs]}
            for section in plan.sections
        },
    }


def _written(apply: ApplyCall, variables: Variables, ops: AbstractSet[Operation]) -> Iterator[Operation]:
    names = {variable.op.name for _, variable in apply.pairs}
    for key, variable in variables.keys.items():
        if variable.op.name in names or quantity_of(key) == "slot":
            for op in writers_of(variable, ops):
                yield op


def _described(tensor: Tensor) -> Dict[str, Any]:
    shape = tensor.shape.as_list() if tensor.shape.ndims is not None else None
    return {"tensor": tensor.name, "dtype": tensor.dtype.base_dtype.name, "shape": shape}


# States the facts of a recorded script.


def facts_of(
    sections: Sequence[Section],
    variables: Variables,
    combined: Mapping[str, str],
    session: Session,
    soft_placement: str,
) -> Dict[str, Any]:
    """Returns the facts as a dict of JSON values.

    Args:
      sections: list of `Section` that trained; the first one's are the facts.
      variables: the `Variables`.
      combined: dict of section name to what the numbers say: "mean", "sum", "other" or "unknown".
      session: that trains.
      soft_placement: who turned it on.
    """
    first = facts_of_section(sections[0], combined[sections[0].name])
    dtypes = sorted({variable.dtype.base_dtype.name for variable in variables.weights.values()})
    config = session._config
    facts = {
        "side": "tf_towers.record",
        "script": sys.argv[0],
        "framework": "tensorflow " + real.__version__,
        "precision": dtypes[0] if len(dtypes) == 1 else "+".join(dtypes),
        "slots": variables.slots,
        "resource_variables": any(variable.op.type == "VarHandleOp" for variable in variables.weights.values()),
        # 0 is TensorFlow's own choice, one for each core.
        "threads": {
            "inter_op": config.inter_op_parallelism_threads if config else 0,
            "intra_op": config.intra_op_parallelism_threads if config else 0,
        },
        "queue_runners": len(session.graph.get_collection("queue_runners")),
        "soft_placement": soft_placement,
        "graph_seed": session.graph.seed,
        "flags": environment_flags(),
    }
    facts.update(first)
    return facts


def combine_of_losses(section: Section) -> str:
    """Returns how the towers' losses are added up before one differentiation: "mean", "sum" or "scaled"."""
    towers, factor = len(section.towers), section.loss_factor
    assert factor is not None  # whoever asks knows that they are
    # 1/3 is a float32 constant of the graph, at most 2^-24 off; sum and mean are a factor of `towers` apart.
    if abs(factor * towers - 1) < 1e-6:
        return "mean"
    return "sum" if abs(factor - 1) < 1e-6 else "scaled"


def kinds_of_combination(section: Section) -> Dict[str, str]:
    """Returns dict of the name of a variable's op to how its gradients are combined: the kind of its `Combination`.

    Where the towers' losses are joined before one differentiation, that is how those are.
    """
    if section.loss_factor is not None:
        return dict.fromkeys(section.combinations, combine_of_losses(section))
    return {name: each.kind for name, each in section.combinations.items()}


def facts_of_section(section: Section, from_values: str) -> Dict[str, Any]:
    """Returns what is known of one optimizer's part as a dict of JSON values; `from_values` as in `facts_of`."""
    kinds = sorted(set(kinds_of_combination(section).values()))
    from_graph = kinds[0] if len(kinds) == 1 else "+".join(kinds)
    # Numbers hold whatever ops did it; where they say "other" or "unknown" the graph says more.
    sure = from_values if from_values in ("mean", "sum") else from_graph
    if section.loss_factor is not None:
        sure = from_graph
    return {
        "towers": max(1, len(section.towers)),
        "towers_suggested": suggested_towers(set().union(*section.towers_ops)),
        "combine": "mean" if len(section.towers) < 2 else sure,
        "combine_in_graph": from_graph,
        "combine_in_values": from_values,
        "optimizer": hyper_parameters(section.apply.optimizer),
        "by_hand": is_by_hand(section.apply),
        "towers_found_by": sorted({tower.made_by for tower in section.towers}),
        "tower_scopes": [tower.scope for tower in section.towers],
        "devices": [tower.device for tower in section.towers],
        "losses": [[loss.name for loss in tower.losses] for tower in section.towers],
        "train_op": section.apply.op.name,
        "inputs": {
            each.name: [own.tensor.name for inputs in section.inputs for own in inputs if own.name == each.name]
            for inputs in section.inputs
            for each in inputs
        },
        "input_sources": {each.name: each.source.name for inputs in section.inputs for each in inputs},
        "clipped": changed_after_combining(section),
    }
