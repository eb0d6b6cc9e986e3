"""Computes in NHWC what a script for GPUs computes in NCHW, for which the CPU has no kernels."""

from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import numpy as np
from tensorflow.core.framework import node_def_pb2, types_pb2

from tf_towers.float64.errors import refuse
from tf_towers.float64.graph_def import constant_beside, full, redirect
from tf_towers.float64.op_rewrites import EXPANSIONS
from tf_towers.tf_types import GraphDef, NodeDef

# Axes of NCHW in the order of NHWC, and back.
TO_LAST = (0, 2, 3, 1)
TO_FIRST = (0, 3, 1, 2)
LISTS_BY_AXIS = ("strides", "dilations", "ksize")


class Placed(NamedTuple):
    """Where an op has images.

    Fields:
      images: places of the inputs that are images.
      sizes: places of the inputs that are the shape of one.
      gives: whether its output is an image.
    """

    images: Tuple[int, ...]
    sizes: Tuple[int, ...]
    gives: bool


PLACED = {
    "Conv2D": Placed((0,), (), True),
    # Inputs: sizes of the image, filter, gradient of the output. Filters are HWIO in both layouts.
    "Conv2DBackpropInput": Placed((2,), (0,), True),
    "Conv2DBackpropFilter": Placed((0, 2), (), False),
    "DepthwiseConv2dNative": Placed((0,), (), True),
    "DepthwiseConv2dNativeBackpropInput": Placed((2,), (0,), True),
    "DepthwiseConv2dNativeBackpropFilter": Placed((0, 2), (), False),
    "MaxPool": Placed((0,), (), True),
    # Inputs: image, output, gradient of the output.
    "MaxPoolGrad": Placed((0, 1, 2), (), True),
    "AvgPool": Placed((0,), (), True),
    "AvgPoolGrad": Placed((1,), (0,), True),
}
ANYWHERE = frozenset(["BiasAdd", "BiasAddGrad"])  # whose kernels on the CPU know both


def to_channels_last(definition: GraphDef) -> Tuple[List[str], Dict[str, str]]:
    """Turns every op with channels first into one with channels last between two transpositions, in place.

    What reads its output reads it as before, channels first. Transposing moves numbers and rounds none.

    Args:
      definition: a GraphDef.

    Returns:
      ``(types, renamed)``: sorted list of the types of ops that were turned, and dict of the name of each tensor that has
      another layout now to that of the one with the old layout.

    Raises:
      CannotShadow: an op has channels first and is not known in another layout.
    """
    back, renamed, types = [], {}, set()
    for node in [node for node in definition.node if _is_first(node)]:
        # An expansion reads data_format itself.
        if node.op in EXPANSIONS or node.op in ANYWHERE:
            continue
        if node.op not in PLACED:
            refuse(f"expected channels last on the CPU, got the op {node.name}, a {node.op} with channels first")
        types.add(node.op)
        definition.node.extend(_turn(node, PLACED[node.op]))
        # The node keeps its name and gives NHWC now; readers are sent to its transposition.
        if PLACED[node.op].gives:
            back += _moved(node.name + "/channels_first", node.name, TO_FIRST, node)
            renamed[full(node.name)] = full(back[-1].name)
    # One op's output may go straight into the next: what it goes through there reads the old layout too.
    redirect(definition, renamed)
    definition.node.extend(back)
    return sorted(types), renamed


def _is_first(node: NodeDef) -> bool:
    return node.attr["data_format"].s.startswith(b"NC") if "data_format" in node.attr else False


def _turn(node: NodeDef, placed: Placed) -> List[NodeDef]:
    """Changes the op itself; returns what its inputs go through."""
    # NCDHW has five axes, for which the orders above are wrong.
    if node.attr["data_format"].s != b"NCHW":
        refuse(f"expected images of two axes, got the op {node.name} in {node.attr['data_format'].s.decode('utf-8')}")
    node.attr["data_format"].s = b"NHWC"
    for name in LISTS_BY_AXIS:
        if name in node.attr:
            _permute(node.attr[name].list, 1)
    if "explicit_paddings" in node.attr and node.attr["explicit_paddings"].list.i:
        _permute(node.attr["explicit_paddings"].list, 2)
    added = []
    for place in placed.images + placed.sizes:
        name = f"{node.name}/channels_last_{place}"
        make = _moved if place in placed.images else _picked
        parts = make(name, node.input[place], TO_LAST, node)
        node.input[place] = parts[-1].name
        added += parts
    return added


def _permute(listed: Any, width: int) -> None:
    # width numbers for each axis: 1 of strides and dilations, 2 of paddings (before, after).
    old = list(listed.i)
    listed.i[:] = [old[axis * width + each] for axis in TO_LAST for each in range(width)]


def _moved(name: str, tensor: str, order: Sequence[int], beside: NodeDef) -> List[NodeDef]:
    parts = [constant_beside(name + "/order", np.array(order, np.int32), tensor)]
    parts.append(node_def_pb2.NodeDef(name=name, op="Transpose", input=[tensor, parts[0].name]))
    # Still float32: widen turns it into float64 with all other types.
    parts[-1].attr["T"].type = beside.attr["T"].type
    parts[-1].attr["Tperm"].type = types_pb2.DT_INT32
    return parts


def _picked(name: str, sizes: str, order: Sequence[int], beside: NodeDef) -> List[NodeDef]:
    """The shape of an image, of four numbers, in another order."""
    parts = [constant_beside(name + "/order", np.array(order, np.int32), sizes)]
    parts.append(constant_beside(name + "/axis", np.array(0, np.int32), sizes))
    parts.append(node_def_pb2.NodeDef(name=name, op="GatherV2", input=[sizes, parts[0].name, parts[1].name]))
    parts[-1].attr["Tparams"].type = types_pb2.DT_INT32
    parts[-1].attr["Tindices"].type = types_pb2.DT_INT32
    parts[-1].attr["Taxis"].type = types_pb2.DT_INT32
    return parts
