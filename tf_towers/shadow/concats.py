"""Writes concatenations that want shapes known beforehand as such that do not."""

import numpy as np
from tensorflow.core.framework import types_pb2

from tf_towers.shadow.definition import constant_beside


def plain_concats(definition):
    """Makes each `ParallelConcat`, of pieces with one element each, a concatenation along the first axis, in place.

    TensorFlow refuses one whose inputs have no shape before it runs, which those that are fed here do not have.

    Args:
      definition: a GraphDef.
    """
    for node in [node for node in definition.node if node.op == "ParallelConcat"]:
        axis = constant_beside(node.name + "/axis", np.array(0, np.int32), node.input[0])
        definition.node.add().CopyFrom(axis)
        pieces = len([name for name in node.input if not name.startswith("^")])
        node.input.insert(pieces, axis.name)
        node.op = "ConcatV2"
        del node.attr["shape"]
        node.attr["Tidx"].type = types_pb2.DT_INT32
