"""Replaces ops without a float64 kernel by plain ones, and finds those for which that is not known."""

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.core.framework import node_def_pb2, types_pb2
from tensorflow.python.framework import kernels

from tf_towers.shadow.constants import as_written
from tf_towers.shadow.definition import full, op_def, op_of, redirect
from tf_towers.shadow.expansions import EXPANSIONS, NOT_COMPUTED_WITH
from tf_towers.shadow.refusal import refuse

FLOATS = (types_pb2.DT_FLOAT, types_pb2.DT_HALF, types_pb2.DT_BFLOAT16)
FLOWS = ("flow", "flow_in", "flow_out")
WIDE = {tf.float32: tf.float64, tf.float16: tf.float64, tf.bfloat16: tf.float64}


def expand(definition, typed):
    """Replaces every op of `EXPANSIONS` by what it stands for, in place.

    Args:
      definition: a GraphDef in float64.
      typed: the same graph before, as a `tf.Graph`, for types and shapes.

    Returns:
      ``(types, renamed)``: sorted list of the types that were replaced, and dict of the name of each tensor that is gone to
      that of the one that stands for it.

    Raises:
      CannotShadow: an op has no float64 kernel, and nothing is known that it stands for.
    """
    found = [node for node in definition.node if node.op in EXPANSIONS]
    renamed = {}
    for node in found:
        renamed.update(_splice(definition, node, typed.get_operation_by_name(node.name)))
    types, gone = sorted({node.op for node in found}), {node.name for node in found}
    kept = [node for node in definition.node if node.name not in gone]
    copies = [type(node).FromString(node.SerializeToString()) for node in kept]
    del definition.node[:]
    definition.node.extend(copies)
    redirect(definition, renamed)
    anchors = {op_of(name): op_of(tensor) for name, tensor in renamed.items() if name.endswith(":0")}
    for node in definition.node:
        for place, name in enumerate(node.input):
            if name.startswith("^") and name[1:] in anchors:
                node.input[place] = "^" + anchors[name[1:]]
    _cast_flows(definition)
    _check(definition)
    return types, renamed


def _cast_flows(definition):
    """Keeps the flows of tensor arrays, which only say what comes after what, in the float32 that those want."""
    renamed, given = {}, []
    for node in list(definition.node):
        described = op_def(node.op) if node.op.startswith("TensorArray") else None
        for place, argument in enumerate(described.input_arg if described else []):
            if argument.name in FLOWS:
                name = f"{node.name}/{argument.name}_in_float32"
                definition.node.add().CopyFrom(_cast(name, node.input[place], tf.float64, tf.float32))
                node.input[place] = name
        for place, argument in enumerate(described.output_arg if described else []):
            if argument.name in FLOWS:
                tensor = f"{node.name}:{place}"
                given.append(_cast(f"{node.name}/{argument.name}_in_float64", tensor, tf.float32, tf.float64))
                renamed[tensor] = given[-1].name + ":0"
    # One array's flow may go straight into the next op on it: what reads a flow, casts too, reads it in float64.
    redirect(definition, renamed)
    definition.node.extend(given)


def _cast(name, tensor, source, target):
    node = node_def_pb2.NodeDef(name=name, op="Cast", input=[tensor])
    node.attr["SrcT"].type = source.as_datatype_enum
    node.attr["DstT"].type = target.as_datatype_enum
    return node


def _splice(definition, node, op):
    """Adds what an op stands for; returns dict of its outputs to what gives them now."""
    fragment = tf.Graph()
    with fragment.as_default():
        inputs = [
            tf.placeholder(WIDE.get(each.dtype.base_dtype, each.dtype.base_dtype), each.shape, f"input_{place}")
            for place, each in enumerate(op.inputs)
        ]
        outputs = EXPANSIONS[node.op](inputs, _attributes(node))
    scope = node.name + "/in_float64/"
    given = [name for name in node.input if not name.startswith("^")]
    handed = {f"input_{place}": name for place, name in enumerate(given)}
    control = [name for name in node.input if name.startswith("^")]
    for part in fragment.as_graph_def().node:
        if part.name in handed:
            continue
        added = definition.node.add()
        added.CopyFrom(part)
        added.name = scope + part.name
        named = [_renamed(name, scope, handed) for name in part.input]
        # A constant without inputs would not be in the frame of a loop that this may be in.
        del added.input[:]
        added.input.extend(named + (control or [] if named else [*control, "^" + op_of(given[0])]))
    return {
        f"{node.name}:{place}": _renamed(output.name, scope, handed)
        for place, output in enumerate(outputs)
        if output is not None
    }


def _renamed(name, scope, handed):
    if name.startswith("^"):
        return "^" + scope + name[1:]
    op = op_of(name)
    if op in handed:
        return handed[op]
    return full(scope + name)


def _attributes(node):
    found = {}
    for name, attr in node.attr.items():
        kind = attr.WhichOneof("value")
        if kind == "f":
            found[name] = float(as_written(np.float32(attr.f)))
        elif kind in ("i", "b"):
            found[name] = getattr(attr, kind)
        elif kind == "s":
            found[name] = attr.s.decode("utf-8")
    return found


def _check(definition):
    for node in definition.node:
        why = _unfit(node)
        if why:
            refuse(f"expected float64 everywhere, got the op {node.name}, a {node.op}, {why}")


def _unfit(node):
    described = op_def(node.op)
    if described is None:
        return None  # a function of the graph's own library
    for argument in list(described.input_arg) + list(described.output_arg):
        if argument.type in FLOATS and argument.name not in FLOWS:
            return "which is in float32 whatever its input"
    wide = {name for name, attr in node.attr.items() if attr.type == types_pb2.DT_DOUBLE}
    for attr in described.attr:
        allowed = attr.allowed_values.list.type
        if attr.name in wide and allowed and types_pb2.DT_DOUBLE not in allowed:
            return "which is not there in float64"
    if wide and not _has_kernel(node, wide):
        return "which has no float64 kernel on the CPU"
    if wide and node.op not in NOT_COMPUTED_WITH and any(map(_is_rounded, node.attr.values())):
        return "which computes with an attribute in float32 whatever its input"
    return None


def _is_rounded(attr):
    values = [attr.f] if attr.WhichOneof("value") == "f" else attr.list.f
    return any(float(as_written(np.float32(value))) != value for value in values)


def _has_kernel(node, wide):
    registered = kernels.get_registered_kernels_for_op(node.op).kernel
    on_cpu = [kernel for kernel in registered if kernel.device_type in ("CPU", "DEFAULT")]
    if not registered:
        return True
    return any(
        all(
            types_pb2.DT_DOUBLE in each.allowed_values.list.type
            for each in kernel.constraint
            if each.name in wide and each.allowed_values.list.type
        )
        for kernel in on_cpu
    )
