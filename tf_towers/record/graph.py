"""Takes the graph of a script, from its inputs to its losses, gradients and updates, as data."""

from google.protobuf import json_format
from tensorflow.core.framework import graph_pb2

from parity.trace import RecordedGraph
from tf_towers.record.ancestry import ancestors
from tf_towers.record.by_hand import HandWritten
from tf_towers.record.inputs import is_source
from tf_towers.record.loops import loop_of
from tf_towers.record.races import writers_of


def recorded_graph(graph, plans, variables):
    """Returns the `RecordedGraph` of some runs of a script.

    Kept is what the recorded values and the updates need, up to where data enters: what is behind a placeholder, a queue or
    an iterator is left out.

    Args:
      graph: the `tf.Graph`.
      plans: list of `Plan`.
      variables: the `Variables` of the graph.
    """
    runs = [_run(plan, variables) for plan in plans]
    wanted = {graph.get_operation_by_name(name) for run in runs for name in run["updates"]}
    wanted |= {variable.op for variable in variables.keys.values()}
    for plan in plans:
        wanted |= {tensor.op for tensor in plan.observed.fetches.values()}
    stop = {op for op in ancestors(wanted) if is_source(op)}
    ops = ancestors(wanted, stop)
    return RecordedGraph(
        json_format.MessageToDict(_definition(graph, ops, stop), preserving_proto_field_name=True),
        {key: variable.op.name for key, variable in variables.keys.items()},
        runs,
    )


def _definition(graph, ops, stop):
    definition = graph_pb2.GraphDef()
    definition.versions.CopyFrom(graph.graph_def_versions)
    for op in sorted(ops, key=lambda op: op._id):
        node = definition.node.add()
        node.CopyFrom(op.node_def)
        if op in stop:
            del node.input[:]
    if getattr(graph, "_functions", None):
        definition.library.CopyFrom(graph.as_graph_def().library)
    return definition


def _run(plan, variables):
    updates = {op.name for variable in variables.keys.values() for op in writers_of(variable, plan.ops)}
    values = {key: _described(tensor) for key, tensor in plan.observed.fetches.items()}
    for section in plan.sections:
        for number, inputs in enumerate(section.inputs):
            for each in inputs:
                key = f"{section.prefix}feed/{number}/{each.name}"
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
    by_hand = [section.apply for section in plan.sections if isinstance(section.apply.optimizer, HandWritten)]
    return {
        "values": values,
        "updates": sorted(updates),
        "by_hand": sorted({op.name for apply in by_hand for op in _written(apply, variables, plan.ops)}),
        "sections": {
            section.name: {"prefix": section.prefix, "variables": [each.op.name for _, each in section.apply.pairs]}
            for section in plan.sections
        },
    }


def _written(apply, variables, ops):
    names = {variable.op.name for _, variable in apply.pairs}
    for key, variable in variables.keys.items():
        if variable.op.name in names or "slot/" in key:
            for op in writers_of(variable, ops):
                yield op


def _described(tensor):
    shape = tensor.shape.as_list() if tensor.shape.ndims is not None else None
    return {"tensor": tensor.name, "dtype": tensor.dtype.base_dtype.name, "shape": shape}
