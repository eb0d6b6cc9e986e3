"""Finds what a tower is fed with: placeholders, and what queues and iterators hand out."""

import collections

import tensorflow.compat.v1 as tf
from tensorflow.python.framework import tensor_util

PLACEHOLDERS = frozenset(["Placeholder", "PlaceholderV2", "PlaceholderWithDefault"])
VARIABLES = frozenset(["Variable", "VariableV2", "AutoReloadVariable", "VarHandleOp", "VarIsInitializedOp"])
READS = frozenset(["ReadVariableOp", "ResourceGather", "ResourceGatherNd"])
WRITING = ("Assign", "Apply", "ResourceApply", "SparseApply", "ResourceSparseApply", "Scatter", "ResourceScatter")
RANDOM = frozenset(
    ["RandomUniform", "RandomStandardNormal", "TruncatedNormal", "RandomUniformInt", "RandomShuffle", "RandomGamma"]
    + ["Multinomial", "ParameterizedTruncatedNormal", "RandomPoissonV2", "StatelessRandomUniform"]
    + ["StatelessRandomNormal"]
)
# Stateful to TensorFlow, since what they hold is changed in place; yet they compute the same from the same.
OF_A_RUN = ("TensorArray", "Stack", "TensorList", "CreateTemporary", "DestroyTemporary", "TemporaryVariable")
FUNCTIONS = frozenset(["While", "If", "Case", "StatefulPartitionedCall"])
ABOUT_SHAPES = frozenset(["Shape", "ShapeN", "Size", "Rank"])
PASSED_ON = frozenset(["Print", "PrintV2", "Assert"])

Input = collections.namedtuple("Input", ["name", "source", "tensor"])
Input.__doc__ = """One input of one tower.

Fields:
  name: for the trace, the same in every tower.
  source: the tensor that it comes from, e.g. a placeholder of the whole batch.
  tensor: the tower's own piece of it.
"""


def inputs_of(towers_ops, fed=frozenset()):
    """Finds the inputs of every tower.

    Args:
      towers_ops: list over the towers of the set of ops that its loss needs.
      fed: names of tensors that the script feeds though they are no placeholders, such as an RNN's first state.

    Returns:
      ``(inputs, missed)``: a list over the towers of lists of `Input`, and the names of what cannot be recorded.
    """
    found, missed = [], set()
    for ops in towers_ops:
        pieces = []
        for source in sources_in(ops, fed):
            if source.dtype.base_dtype in (tf.string, tf.resource, tf.variant) or not source.graph.is_fetchable(source):
                missed.add(source.name)
            else:
                pieces.append((source, _piece(source, ops)))
        found.append(pieces)
    names = _names([source for source, _ in found[0]]) if found else []
    named = []
    for pieces in found:
        own = names if _alike(found[0], pieces) else _names([source for source, _ in pieces])
        named.append([Input(name, source, tensor) for name, (source, tensor) in zip(own, pieces)])
    return named, sorted(missed)


def sources_in(ops, fed=frozenset()):
    """Returns the tensors in which data enters `ops`, in the order in which they were made; `fed` as in `inputs_of`."""
    sources = []
    for op in sorted(ops, key=lambda op: op._id):
        if is_fed(op, fed):
            sources += [out for out in op.outputs if out.name in fed]
        elif is_source(op):
            sources += [out for out in op.outputs if any(reader in ops for reader in out.consumers())]
    return sources


def is_fed(op, fed):
    """Tells whether the script feeds an output of `op`; `fed` is a set of names of tensors."""
    return bool(fed) and any(out.name in fed for out in op.outputs)


def is_source(op):
    """Tells whether data enters the graph here: a placeholder, or an op with a state other than a variable's."""
    if op.type in PLACEHOLDERS:
        return True
    if op.type in VARIABLES | READS | RANDOM | PASSED_ON | FUNCTIONS or op.type.startswith(WRITING + OF_A_RUN):
        return False
    handles = all(out.dtype.base_dtype in (tf.resource, tf.variant) or out.dtype._is_ref_dtype for out in op.outputs)
    return bool(op.op_def is not None and op.op_def.is_stateful and len(op.outputs) and not handles)


def _piece(tensor, ops):
    """Follows a batch through the ops that only cut it, to the piece that is this tower's."""
    while True:
        readers = [op for op in tensor.consumers() if op in ops and op.type not in ABOUT_SHAPES]
        if not readers or not all(_cuts(op, tensor) for op in readers):
            return tensor
        outputs = [out for op in readers for out in op.outputs if any(reader in ops for reader in out.consumers())]
        outputs = outputs if len(outputs) == 1 else _put_together(outputs, ops)
        if len(outputs) != 1:
            return tensor
        tensor = outputs[0]


def _put_together(pieces, ops):
    """Returns the output of the one op that puts pieces of a batch together again, or [] where there is none."""
    readers = {op for piece in pieces for op in piece.consumers() if op in ops and op.type not in ABOUT_SHAPES}
    if len(readers) != 1:
        return []
    op = readers.pop()
    if op.type == "Pack":
        along, parts = op.get_attr("axis") == 0, list(op.inputs)
    elif op.type == "ConcatV2":
        along, parts = tensor_util.constant_value(op.inputs[-1]) == 0, list(op.inputs)[:-1]
    else:
        return []
    return list(op.outputs) if along and {each.name for each in parts} <= {each.name for each in pieces} else []


def _cuts(op, tensor):
    if op.type == "Identity":
        return True
    if op.type in ("Gather", "GatherV2"):
        axis = tensor_util.constant_value(op.inputs[2]) if op.type == "GatherV2" else 0
        return op.inputs[0] is tensor and axis == 0 and tensor_util.constant_value(op.inputs[1]) is not None
    if op.type in ("Split", "SplitV"):
        axis = tensor_util.constant_value(op.inputs[0 if op.type == "Split" else 2])
        return axis is not None and int(axis) in (0, -(tensor.shape.ndims or 99))
    if op.type == "Unpack":
        return bool(op.get_attr("axis") == 0)
    if op.type not in ("Slice", "StridedSlice") or op.inputs[0] is not tensor or tensor.shape.ndims is None:
        return False
    whole, piece = tensor.shape.as_list(), op.outputs[0].shape
    return piece.ndims is not None and piece.as_list()[max(0, piece.ndims - len(whole) + 1) :] == whole[1:]


def _names(sources):
    """Last parts of the ops' names, numbered where an op has several outputs; whole names where those collide."""

    def name(source, whole):
        parts = source.op.name.split("/")
        number = "_%d" % source.value_index if len(source.op.outputs) > 1 else ""
        return ("_".join(parts) if whole else parts[-1]) + number

    short = [name(source, False) for source in sources]
    return [each if short.count(each) == 1 else name(source, True) for each, source in zip(short, sources)]


def _alike(one, other):
    def kinds(pieces):
        return [(source.dtype.base_dtype, source.shape.ndims) for source, _ in pieces]

    return kinds(one) == kinds(other)


def draws_in(ops):
    """Returns ``(draws, inside)``: outputs of random ops as dict of op name to tensor, and those in loops and branches."""
    draws, inside = collections.OrderedDict(), collections.OrderedDict()
    for op in sorted(ops, key=lambda op: op._id):
        if op.type in RANDOM:
            found = draws if op.graph.is_fetchable(op.outputs[0]) else inside
            found[op.name] = op.outputs[0]
    return draws, inside
