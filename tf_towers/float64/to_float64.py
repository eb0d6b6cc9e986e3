"""Widens a graph's types and constants to float64; a constant is read as a script wrote it: 0.1, no float32 near it."""

from typing import AbstractSet, Any, Dict, List

import numpy as np
from tensorflow.core.framework import types_pb2
from tensorflow.python.framework import tensor_util

from parity.trace.as_written import as_written
from tf_towers.tf_types import GraphDef, NodeDef

# Turns a graph into float64: types, constants, functions.

WIDER = {
    types_pb2.DT_FLOAT: types_pb2.DT_DOUBLE,
    types_pb2.DT_HALF: types_pb2.DT_DOUBLE,
    types_pb2.DT_BFLOAT16: types_pb2.DT_DOUBLE,
    types_pb2.DT_COMPLEX64: types_pb2.DT_COMPLEX128,
    types_pb2.DT_FLOAT_REF: types_pb2.DT_DOUBLE_REF,
}


def widen(definition: GraphDef, computed: AbstractSet[str]) -> Dict[str, List[float]]:
    """Makes everything float64, in place.

    Args:
      definition: a GraphDef.
      computed: names of the ops whose constants are taken as the script wrote them. All others keep the value that they have
        in float32: hyper-parameters of optimizers and decays of moving averages.

    Returns:
      Dict of the name of each constant that was read otherwise to ``[float32 value, value taken]``; of arrays the first one.
    """
    read: Dict[str, List[float]] = {}
    for node in definition.node:
        _widen_node(node, node.name in computed, read)
    for function in definition.library.function:
        for argument in list(function.signature.input_arg) + list(function.signature.output_arg):
            argument.type = WIDER.get(argument.type, argument.type)
        for node in function.node_def:
            # As which TensorFlow 2 keeps loops and branches: all are taken for parts of the model.
            _widen_node(node, True, read)
    return read


def _widen_node(node: NodeDef, exact: bool, read: Dict[str, List[float]]) -> None:
    # There may be no such GPU here, and its kernels would add in another order.
    node.device = ""
    for attr in node.attr.values():
        if attr.HasField("type"):
            attr.type = WIDER.get(attr.type, attr.type)
        elif attr.HasField("list") and attr.list.type:
            wider = [WIDER.get(each, each) for each in attr.list.type]
            del attr.list.type[:]
            attr.list.type.extend(wider)
        elif attr.HasField("tensor") and attr.tensor.dtype in WIDER:
            _widen_tensor(node.name, attr.tensor, exact, read)


def _widen_tensor(name: str, tensor: Any, exact: bool, read: Dict[str, List[float]]) -> None:
    array = tensor_util.MakeNdarray(tensor)
    # A float32 hyper-parameter is exact in float64; the optimizer's kernels compute with this very number.
    wide = as_written(array) if exact else array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    changed = np.flatnonzero((wide.ravel() != array.ravel()) & np.isfinite(array.ravel()))
    if exact and changed.size:
        read[name] = [float(array.ravel()[changed[0]]), float(wide.ravel()[changed[0]])]
    tensor.CopyFrom(tensor_util.make_tensor_proto(wide, shape=wide.shape))
