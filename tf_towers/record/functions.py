"""Looks into the functions of a graph, as which TensorFlow 2 keeps loops and branches."""

from tf_towers.record.inputs import RANDOM


def ops_that_draw_in_functions(towers_ops):
    """Returns the sorted names of the ops that draw random numbers in a function that they call.

    Args:
      towers_ops: list over the towers of sets of ops.
    """
    calling = {op: functions_of(op.node_def) for ops in towers_ops for op in ops}
    calling = {op: names for op, names in calling.items() if names}
    if not calling:
        return []
    library = {each.signature.name: each for each in next(iter(calling)).graph.as_graph_def().library.function}
    return sorted(op.name for op, names in calling.items() if _draws(names, library))


def functions_of(node):
    """Returns the names of the functions that a node calls."""
    names = []
    for attr in node.attr.values():
        names += [attr.func.name] if attr.HasField("func") else []
        names += [each.name for each in attr.list.func]
    return names


def _draws(names, library):
    seen, pending = set(), list(names)
    while pending:
        name = pending.pop()
        if name in library and name not in seen:
            seen.add(name)
            for node in library[name].node_def:
                if node.op in RANDOM:
                    return True
                pending += functions_of(node)
    return False
