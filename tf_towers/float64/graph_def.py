"""Cuts and walks graphs as they are written down: nodes with named inputs."""

import re
from typing import AbstractSet, Any, Dict, Iterable, Mapping, Optional, Set

from tensorflow.core.framework import graph_pb2, node_def_pb2
from tensorflow.python.framework import op_def_registry, tensor_util

from parity.trace.arrays import Array
from tf_towers.tf_types import GraphDef, NodeDef

_CONTROL = re.compile(r"^\^")


def op_of(name: str) -> str:
    """Returns the op's name of an input: of "conv:1", "conv" and "^conv"."""
    return _CONTROL.sub("", name).partition(":")[0]


def op_def(op_type: str) -> Any:
    """Returns how a type of op is registered; None where there is no such one."""
    # 1.15 has the table; 2.x a function for one op.
    if hasattr(op_def_registry, "get_registered_ops"):
        return op_def_registry.get_registered_ops().get(op_type)
    return op_def_registry.get(op_type)


def full(name: str) -> str:
    """Returns the tensor's name with its number: "conv:0" of "conv"."""
    return name if ":" in name else name + ":0"


def by_name(definition: GraphDef) -> Dict[str, NodeDef]:
    """Returns dict of name to node."""
    return {node.name: node for node in definition.node}


def needed(nodes: Mapping[str, NodeDef], names: Iterable[str], control: bool = True) -> Set[str]:
    """Returns the set of names of the nodes that `names` need, themselves included.

    Args:
      nodes: dict of name to node.
      names: of ops.
      control: whether what only has to run before counts too, or nothing but what they are computed from.
    """
    seen, pending = set(), [name for name in names if name in nodes]
    while pending:
        name = pending.pop()
        # Each node once: graphs of unrolled RNNs have exponentially many paths.
        if name not in seen:
            seen.add(name)
            read = [each for each in nodes[name].input if control or not each.startswith("^")]
            pending += [op_of(each) for each in read if op_of(each) in nodes]
    return seen


def pruned(definition: GraphDef, names: Iterable[str]) -> GraphDef:
    """Returns a copy with the nodes that `names` need, and the library."""
    nodes = by_name(definition)
    kept = needed(nodes, names)
    copy = graph_pb2.GraphDef()
    # The producer's version, by which TensorFlow decides which ops it still takes.
    copy.versions.CopyFrom(definition.versions)
    copy.library.CopyFrom(definition.library)
    for node in definition.node:
        if node.name in kept:
            copy.node.add().CopyFrom(node)
    return copy


def redirect(definition: GraphDef, renamed: Mapping[str, str], only: Optional[AbstractSet[str]] = None) -> None:
    """Makes the readers of some tensors read others, in place.

    Args:
      definition: a GraphDef.
      renamed: dict of tensor name, e.g. "conv:0", to that of another.
      only: names of the nodes that are changed; by default all.
    """
    for node in definition.node:
        if only is not None and node.name not in only:
            continue
        for place, name in enumerate(node.input):
            # A control input names an op and no tensor: what has to run before still has to.
            if not name.startswith("^") and full(name) in renamed:
                node.input[place] = renamed[full(name)]


def add_placeholder(definition: GraphDef, name: str, dtype: Any) -> str:
    """Adds a placeholder; returns its tensor's name.

    Args:
      definition: a GraphDef.
      name: of the op.
      dtype: a `tf.DType`.
    """
    node = definition.node.add(name=name, op="Placeholder")
    node.attr["dtype"].type = dtype.as_datatype_enum
    # Placeholders take batches of any size, and towers' shares of the last one may be shorter.
    node.attr["shape"].shape.unknown_rank = True
    return name + ":0"


def constant_beside(name: str, value: Array, beside: str) -> NodeDef:
    """Returns the node of a constant in the frame of the loop, or the branch, that `beside` is in.

    Args:
      name: of the op.
      value: array.
      beside: name of a tensor.
    """
    # A control input puts an op without inputs into a frame: without one it runs outside of its reader's loop.
    node = node_def_pb2.NodeDef(name=name, op="Const", input=["^" + op_of(beside)])
    node.attr["value"].tensor.CopyFrom(tensor_util.make_tensor_proto(value))
    node.attr["dtype"].type = tensor_util.make_tensor_proto(value).dtype
    return node
