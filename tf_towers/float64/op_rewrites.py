"""Writes ops that have no float64 kernel, or a rough one, as plain ops."""

from typing import AbstractSet, Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.core.framework import node_def_pb2, types_pb2
from tensorflow.python.framework import kernels

from parity.trace.as_written import as_written
from tf_towers.float64.errors import refuse
from tf_towers.float64.graph_def import constant_beside, full, op_def, op_of, redirect
from tf_towers.tf_types import DType, Graph, GraphDef, NodeDef, Operation, Tensor

# Writes concatenations that want shapes known beforehand as such that do not.


def plain_concats(definition: GraphDef) -> None:
    """Makes each `ParallelConcat`, of pieces with one element each, a concatenation along the first axis, in place.

    TensorFlow refuses one whose inputs have no shape before it runs, which those that are fed here do not have.

    Args:
      definition: a GraphDef.
    """
    for node in [node for node in definition.node if node.op == "ParallelConcat"]:
        axis = constant_beside(node.name + "/axis", np.array(0, np.int32), node.input[0])
        definition.node.add().CopyFrom(axis)
        # The axis is the last data input of ConcatV2: control inputs come after it.
        pieces = len([name for name in node.input if not name.startswith("^")])
        node.input.insert(pieces, axis.name)
        node.op = "ConcatV2"
        del node.attr["shape"]
        node.attr["Tidx"].type = types_pb2.DT_INT32


# Ops that have no float64 kernel, or a float32 attribute in it, written out as plain ones. Each function takes the
# op's inputs and its attributes and returns the op's outputs; None for those that nothing outside the op's own
# gradient reads. Sources: the CPU kernels of TensorFlow 1.15 in tensorflow/core/kernels: fused_batch_norm_op.cc,
# lrn_op.cc, resize_bilinear_op.cc.


def fused_batch_norm(inputs: Sequence[Tensor], attributes: Mapping[str, Any]) -> List[Tensor]:
    """The moving variance gets Bessel's factor, the normalisation does not."""
    x, scale, offset, mean, variance = inputs
    if not attributes["is_training"]:
        return [_normalized(x, mean, variance, attributes, scale, offset), mean, variance, mean, variance, None]
    # (channels,) each; spread is the biased variance, by n
    found, spread = _moments(x, attributes)
    y = _normalized(x, found, spread, attributes, scale, offset)
    # Values of one channel: batch times height times width. Shapes are not known before the run, sizes are then.
    count = tf.cast(tf.size(x) // tf.maximum(tf.size(found), 1), tf.float64)
    unbiased = spread * (count / tf.maximum(count - 1, 1))
    # In 2.x the op may move the statistics itself; 1.15 has no such attribute, and gives those of the batch.
    part = attributes.get("exponential_avg_factor", 1.0)
    if part != 1.0:
        found, unbiased = (1 - part) * mean + part * found, (1 - part) * variance + part * unbiased
    return [y, found, unbiased, None, None, None]


def fused_batch_norm_gradient(inputs: Sequence[Tensor], attributes: Mapping[str, Any]) -> List[Tensor]:
    """Mean and variance are computed again from the input."""
    dy, x, scale, mean, variance = inputs[:5]
    if attributes["is_training"]:
        mean, variance = _moments(x, attributes)
    axes = _axes(attributes)
    shape = _beside(attributes)
    inverse = tf.reshape(tf.rsqrt(variance + attributes["epsilon"]), shape)
    normal = (x - tf.reshape(mean, shape)) * inverse
    dscale, doffset = tf.reduce_sum(dy * normal, axes), tf.reduce_sum(dy, axes)
    dx = dy * inverse * tf.reshape(scale, shape)
    if attributes["is_training"]:
        # dx = scale / s (dy - mean(dy) - xhat mean(dy xhat)), xhat the normalised input and s its standard deviation
        centred = dy - tf.reduce_mean(dy, axes, keepdims=True)
        centred -= normal * tf.reduce_mean(dy * normal, axes, keepdims=True)
        dx = centred * inverse * tf.reshape(scale, shape)
    return [dx, dscale, doffset, None, None]


def local_response_normalization(inputs: Sequence[Tensor], attributes: Mapping[str, Any]) -> List[Tensor]:
    """Divides by a power of the sum of squares over neighbouring channels."""
    (x,) = inputs
    base, _ = _lrn_base(x, attributes)
    return [x * tf.pow(base, -attributes["beta"])]


def local_response_normalization_gradient(inputs: Sequence[Tensor], attributes: Mapping[str, Any]) -> List[Tensor]:
    """The gradient of `local_response_normalization`."""
    dy, x, y = inputs
    base, band = _lrn_base(x, attributes)
    # With b = bias + alpha sum of x^2 and y = x b^-beta:
    # dx = dy b^-beta - 2 alpha beta x sum of dy y / b, over the same band
    through = tf.tensordot(dy * y / base, band, [[3], [0]])
    return [dy * tf.pow(base, -attributes["beta"]) - 2.0 * attributes["alpha"] * attributes["beta"] * x * through]


def resize_bilinear(inputs: Sequence[Tensor], attributes: Mapping[str, Any]) -> List[Tensor]:
    """A matrix for the rows and one for the columns."""
    images, size = inputs
    rows, columns = (
        _weights(tf.shape(images)[1], size[0], attributes),
        _weights(tf.shape(images)[2], size[1], attributes),
    )
    return [tf.einsum("oh,nhwc,pw->nopc", rows, tf.cast(images, tf.float64), columns)]


def resize_bilinear_gradient(inputs: Sequence[Tensor], attributes: Mapping[str, Any]) -> List[Tensor]:
    """The same matrices the other way round."""
    dy, original = inputs
    size, whole = tf.shape(dy), tf.shape(original)
    rows, columns = _weights(whole[1], size[1], attributes), _weights(whole[2], size[2], attributes)
    return [tf.einsum("oh,nopc,pw->nhwc", rows, dy, columns)]


def leaky_relu(inputs: Sequence[Tensor], attributes: Mapping[str, Any]) -> List[Tensor]:
    """The slope is an attribute in float32: taken as the script wrote it."""
    (x,) = inputs
    return [tf.where(x > 0, x, attributes["alpha"] * x)]


def leaky_relu_gradient(inputs: Sequence[Tensor], attributes: Mapping[str, Any]) -> List[Tensor]:
    """The gradient of `leaky_relu`."""
    dy, x = inputs
    return [tf.where(x > 0, dy, attributes["alpha"] * dy)]


def max_pool_3d(inputs: Sequence[Tensor], attributes: Mapping[str, Any]) -> List[Tensor]:
    """The largest of each image's windows, and of these the largest along the depth."""
    (x,) = inputs
    return [_largest(x, attributes)]


def max_pool_3d_gradient(inputs: Sequence[Tensor], attributes: Mapping[str, Any]) -> List[Tensor]:
    """The gradient of `max_pool_3d`; of two equal elements, which are a point without one, it may take the other."""
    x, _, dy = inputs
    return list(tf.gradients(_largest(x, attributes), x, dy))


def accidental_hits(inputs: Sequence[Tensor], attributes: Mapping[str, Any]) -> List[Tensor]:
    """Where a sampled class is a true one: row, place in the sample, and what takes it out of the softmax.

    Source: tensorflow/core/kernels/candidate_sampler_ops.cc (1.15), ComputeAccidentalHitsOp.
    """
    true_classes, sampled = inputs
    found = tf.where(tf.equal(tf.expand_dims(true_classes, 2), sampled))
    # The lowest number of float32, which the op gives whatever the type of the logits.
    lowest = tf.fill(tf.shape(found)[:1], tf.constant(float(np.finfo(np.float32).min), tf.float64))
    return [tf.cast(found[:, 0], tf.int32), found[:, 2], lowest]


EXPANSIONS = {
    "ComputeAccidentalHits": accidental_hits,
    "FusedBatchNorm": fused_batch_norm,
    "FusedBatchNormV2": fused_batch_norm,
    "FusedBatchNormV3": fused_batch_norm,
    "FusedBatchNormGrad": fused_batch_norm_gradient,
    "FusedBatchNormGradV2": fused_batch_norm_gradient,
    "FusedBatchNormGradV3": fused_batch_norm_gradient,
    "LRN": local_response_normalization,
    "LRNGrad": local_response_normalization_gradient,
    "ResizeBilinear": resize_bilinear,
    "ResizeBilinearGrad": resize_bilinear_gradient,
    "LeakyRelu": leaky_relu,
    "LeakyReluGrad": leaky_relu_gradient,
    "MaxPool3D": max_pool_3d,
    "MaxPool3DGrad": max_pool_3d_gradient,
}

# Ops that may be given float64 and a float attribute, which is not what they compute with.
NOT_COMPUTED_WITH = {
    "AnonymousMutableDenseHashTable": "how full a table gets",
    "ApproximateEqual": "a limit that float32 compares with too",
    "BatchNormWithGlobalNormalization": "in no graph that TensorFlow 1 makes: its function writes plain ops",
    "BatchNormWithGlobalNormalizationGrad": "in no graph that TensorFlow 1 makes: its function writes plain ops",
    "Bucketize": "limits that float32 compares with too: data in float32 lies on the same side of them",
    "CollectiveAllToAllV2": "a time",
    "CollectiveAllToAllV3": "a time",
    "CollectiveBcastRecv": "a time",
    "CollectiveBcastRecvV2": "a time",
    "CollectiveBcastSend": "a time",
    "CollectiveBcastSendV2": "a time",
    "CollectiveGather": "a time",
    "CollectiveGatherV2": "a time",
    "CollectiveReduce": "a time",
    "CollectiveReduceScatterV2": "a time",
    "CollectiveReduceV2": "a time",
    "CollectiveReduceV3": "a time",
    "CropAndResize": "what lies outside; its output is float32 always",
    "DebugNumericSummary": "limits of a count",
    "FractionalAvgPool": "how many pixels go together, a whole number",
    "FractionalMaxPool": "how many pixels go together, a whole number",
    "MutableDenseHashTable": "how full a table gets",
    "MutableDenseHashTableV2": "how full a table gets",
    "QuantizeAndDequantize": "in no graph that TensorFlow 1 makes: V2 and later take tensors",
}


def _axes(attributes: Mapping[str, Any]) -> List[int]:
    # Of what is fed nothing but the dtype is known: the format says how many axes there are.
    return [axis for axis, letter in enumerate(attributes.get("data_format", "NHWC")) if letter != "C"]


def _beside(attributes: Mapping[str, Any]) -> List[int]:
    return [-1 if letter == "C" else 1 for letter in attributes.get("data_format", "NHWC")]


def _moments(x: Tensor, attributes: Mapping[str, Any]) -> Tuple[Tensor, Tensor]:
    axes = _axes(attributes)
    mean = tf.reduce_mean(x, axes)
    apart = x - tf.reshape(mean, _beside(attributes))
    return mean, tf.reduce_mean(apart * apart, axes)


def _normalized(
    x: Tensor, mean: Tensor, variance: Tensor, attributes: Mapping[str, Any], scale: Tensor, offset: Tensor
) -> Tensor:
    shape = _beside(attributes)
    inverse = tf.rsqrt(variance + attributes["epsilon"]) * scale
    return (x - tf.reshape(mean, shape)) * tf.reshape(inverse, shape) + tf.reshape(offset, shape)


def _largest(x: Tensor, attributes: Mapping[str, Any]) -> Tensor:
    _, depth, *window, _ = attributes["ksize"]
    _, step, *steps, _ = attributes["strides"]
    batch, length, height, width, channels = tf.unstack(tf.shape(x), 5)
    images = tf.reshape(x, tf.stack([batch * length, height, width, channels]))
    pooled = tf.nn.max_pool(images, [1, *window, 1], [1, *steps, 1], attributes["padding"])
    _, height, width, _ = tf.unstack(tf.shape(pooled), 4)
    columns = tf.reshape(pooled, tf.stack([batch, length, height * width, channels]))
    pooled = tf.nn.max_pool(columns, [1, depth, 1, 1], [1, step, 1, 1], attributes["padding"])
    return tf.reshape(pooled, tf.stack([batch, tf.shape(pooled)[1], height, width, channels]))


def _lrn_base(x: Tensor, attributes: Mapping[str, Any]) -> Tuple[Tensor, Tensor]:
    channels, radius = tf.shape(x)[3], attributes["depth_radius"]
    band = tf.linalg.band_part(tf.ones([channels, channels], tf.float64), radius, radius)
    # (batch, height, width, channels) times a band matrix (channels, channels) of ones within the radius
    squares = tf.tensordot(x * x, band, [[3], [0]])
    return attributes["bias"] + attributes["alpha"] * squares, band


def _weights(whole: Tensor, size: Tensor, attributes: Mapping[str, Any]) -> Tensor:
    """Weights ``[size, whole]`` of the old pixels in the new ones, of one axis."""
    old, new = tf.cast(whole, tf.float64), tf.cast(size, tf.float64)
    scale = old / new
    if attributes.get("align_corners"):
        # A single new pixel has no last one to align: the kernel divides old by new then.
        scale = tf.where(size > 1, (old - 1) / tf.maximum(new - 1, 1), scale)
    place = tf.cast(tf.range(size), tf.float64) * scale
    if attributes.get("half_pixel_centers"):
        place = (tf.cast(tf.range(size), tf.float64) + 0.5) * scale - 0.5
    below = tf.floor(place)
    part = tf.expand_dims(place - below, 1)
    # (size, whole), a row for each new pixel. At the borders both neighbours are one old pixel: weights add up.
    lower = tf.one_hot(tf.cast(tf.maximum(below, 0), tf.int32), whole, dtype=tf.float64)
    upper = tf.one_hot(tf.minimum(tf.cast(tf.ceil(place), tf.int32), whole - 1), whole, dtype=tf.float64)
    return (1 - part) * lower + part * upper


# Replaces ops without a float64 kernel by plain ones, and finds those for which that is not known.

# An argument that is declared as one of these, not as a type that the op is made with, stays float32 in float64 graphs.
CAST_TYPES = (types_pb2.DT_FLOAT, types_pb2.DT_HALF, types_pb2.DT_BFLOAT16)
FLOW_ARGUMENTS = ("flow", "flow_in", "flow_out")
DTYPE_IN_FLOAT64 = {tf.float32: tf.float64, tf.float16: tf.float64, tf.bfloat16: tf.float64}


def expand(definition: GraphDef, typed: Graph) -> Tuple[List[str], Dict[str, str]]:
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
    # Noted before anything is added: no expansion holds an op that is expanded itself.
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
    # Who waited for an op that is gone waits for its first output.
    anchors = {op_of(name): op_of(tensor) for name, tensor in renamed.items() if name.endswith(":0")}
    for node in definition.node:
        for place, name in enumerate(node.input):
            if name.startswith("^") and name[1:] in anchors:
                node.input[place] = "^" + anchors[name[1:]]
    _cast_flows(definition)
    _check(definition)
    return types, renamed


def _cast_flows(definition: GraphDef) -> None:
    """Keeps the flows of tensor arrays, which only say what comes after what, in the float32 that those want."""
    renamed, given = {}, []
    for node in list(definition.node):
        described = op_def(node.op) if node.op.startswith("TensorArray") else None
        for place, argument in enumerate(described.input_arg if described else []):
            if argument.name in FLOW_ARGUMENTS:
                name = f"{node.name}/{argument.name}_in_float32"
                definition.node.add().CopyFrom(_cast(name, node.input[place], tf.float64, tf.float32))
                node.input[place] = name
        for place, argument in enumerate(described.output_arg if described else []):
            if argument.name in FLOW_ARGUMENTS:
                tensor = f"{node.name}:{place}"
                given.append(_cast(f"{node.name}/{argument.name}_in_float64", tensor, tf.float32, tf.float64))
                renamed[tensor] = given[-1].name + ":0"
    # One array's flow may go straight into the next op on it: what reads a flow, casts too, reads it in float64.
    redirect(definition, renamed)
    definition.node.extend(given)


def _cast(name: str, tensor: str, source: DType, target: DType) -> NodeDef:
    node = node_def_pb2.NodeDef(name=name, op="Cast", input=[tensor])
    node.attr["SrcT"].type = source.as_datatype_enum
    node.attr["DstT"].type = target.as_datatype_enum
    return node


def _splice(definition: GraphDef, node: NodeDef, op: Operation) -> Dict[str, str]:
    """Adds what an op stands for; returns dict of its outputs to what gives them now."""
    fragment = tf.Graph()
    with fragment.as_default():
        inputs = [
            tf.placeholder(
                DTYPE_IN_FLOAT64.get(each.dtype.base_dtype, each.dtype.base_dtype), each.shape, f"input_{place}"
            )
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


def _renamed(name: str, scope: str, handed: Mapping[str, str]) -> str:
    if name.startswith("^"):
        return "^" + scope + name[1:]
    op = op_of(name)
    if op in handed:
        return handed[op]
    return full(scope + name)


def _attributes(node: NodeDef) -> Dict[str, Any]:
    found: Dict[str, Any] = {}
    for name, attr in node.attr.items():
        kind = attr.WhichOneof("value")
        if kind == "f":
            found[name] = float(as_written(np.float32(attr.f)))
        elif kind in ("i", "b"):
            found[name] = getattr(attr, kind)
        elif kind == "s":
            found[name] = attr.s.decode("utf-8")
        elif kind == "list":
            found[name] = list(attr.list.i)
    return found


def _check(definition: GraphDef) -> None:
    for node in definition.node:
        why = _unfit(node)
        if why:
            refuse(f"expected float64 everywhere, got the op {node.name}, a {node.op}, {why}")


def _unfit(node: NodeDef) -> Optional[str]:
    described = op_def(node.op)
    if described is None:
        return None  # a function of the graph's own library
    for argument in list(described.input_arg) + list(described.output_arg):
        if argument.type in CAST_TYPES and argument.name not in FLOW_ARGUMENTS:
            return "which is in float32 whatever its input"
    wide = {name for name, attr in node.attr.items() if attr.type == types_pb2.DT_DOUBLE}
    for attr in described.attr:
        # The registry of ops; that of kernels, below, is narrower: LRN declares half and float alone.
        allowed = attr.allowed_values.list.type
        if attr.name in wide and allowed and types_pb2.DT_DOUBLE not in allowed:
            return "which is not there in float64"
    if wide and not _has_kernel(node, wide):
        return "which has no float64 kernel on the CPU"
    if wide and node.op not in NOT_COMPUTED_WITH and any(map(_is_rounded, node.attr.values())):
        return "which computes with an attribute in float32 whatever its input"
    return None


def _is_rounded(attr: Any) -> bool:
    values = [attr.f] if attr.WhichOneof("value") == "f" else attr.list.f
    return any(float(as_written(np.float32(value))) != value for value in values)


def _has_kernel(node: NodeDef, wide: AbstractSet[str]) -> bool:
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
