"""Raises ops that read variables to layers: a dense layer, a convolution, a batch norm, an embedding."""

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from parity.port.tower.ops import CONST, VARIABLE, Op, Tensor, Tower, ops_of, users_of
from parity.port.tower.simplify import axes_of, number_of
from parity.port.tower.statistics import moved
from parity.trace.as_written import as_written

EXACT_RATIO = 1e-12  # relative: of whole numbers in float64; of a million examples n / (n - 1) is 1e-6 from 1

LINEAR, EMBEDDING, DROPOUT = "Linear", "Embedding", "Dropout"
CONVOLUTION_LAYERS = {"Conv2D": "Conv2d", "DepthwiseConv2dNative": "DepthwiseConv2d", "Conv3D": "Conv3d"}
TRANSPOSED_CONVOLUTION = "ConvTranspose2d"
BATCH_NORM, LAYER_NORM = "BatchNorm", "LayerNorm"
FUSED = ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
ADDS = ("BiasAdd", "Add", "AddV2")
CROSS_ENTROPY = "CrossEntropy"
LSTM_CELL, GRU_CELL, DYNAMIC_RNN = "LSTMCell", "GRUCell", "DynamicRNN"
RECURRENT_KINDS = (LSTM_CELL, GRU_CELL, DYNAMIC_RNN)
LAYERS = (
    LINEAR,
    EMBEDDING,
    *CONVOLUTION_LAYERS.values(),
    TRANSPOSED_CONVOLUTION,
    BATCH_NORM,
    LAYER_NORM,
    *RECURRENT_KINDS,
)

Raised = Op | None


def raise_layers(tower: Tower) -> Tower:
    """Returns the tower with layers in the place of the ops that they are made of.

    A layer is an op whose attributes name its variables: "weight", "bias", and of a batch norm "mean" and "variance".
    """
    # In this order: a bias is looked for behind layers, and a batch norm of moments ends in an addition that is none.
    for rule in (
        _variable_op,
        _padded_first,
        _reshaped_linear,
        _with_bias,
        _fused_norm,
        _norm_by_moments,
        _dropout,
        _reduced_entropy,
    ):
        tower = _applied(tower, rule)
    _add_statistics(tower)
    _share(tower)
    return tower


Rule = Callable[[Op, dict[Op, list[Op]]], Raised]


def _applied(tower: Tower, rule: Rule) -> Tower:
    made: dict[Op, Op] = {}

    def now(tensor: Tensor) -> Tensor:
        return Tensor(made.get(tensor.op, tensor.op), tensor.number)

    ops = tower.ops()
    users = users_of(ops)
    for op in ops:
        op.inputs[:] = [now(each) for each in op.inputs]
        found = rule(op, users)
        if found is not None:
            made[op] = found
            users[found] = users.get(op, [])
    return tower.replaced(now)


def layer(op: Op, kind: str, inputs: Sequence[Tensor], **attributes: Any) -> Op:
    """Returns a layer in the place of an op."""
    return Op(kind, op.name, list(inputs), attributes, list(op.shapes), list(op.dtypes), op.place)


def _variable_op(op: Op, users: dict[Op, list[Op]]) -> Raised:
    """An op of data and one variable."""
    if op.kind == "MatMul" and _is(op.inputs[1], VARIABLE) and not _is(op.inputs[0], VARIABLE):
        turned = bool(op.attributes.get("transpose_b"))
        if op.attributes.get("transpose_a"):
            return None
        # torch.nn.Linear keeps [out, in]: `turned` says that the script's variable lies so already.
        return layer(op, LINEAR, op.inputs[:1], weight=op.inputs[1].op.name, turned=turned, bias=None)
    if op.kind in CONVOLUTION_LAYERS and _is(op.inputs[1], VARIABLE):
        kept = {name: op.attributes.get(name) for name in ("strides", "padding", "dilations", "data_format")}
        kept["explicit_paddings"] = op.attributes.get("explicit_paddings") or None
        return layer(op, CONVOLUTION_LAYERS[op.kind], op.inputs[:1], weight=op.inputs[1].op.name, bias=None, **kept)
    if op.kind == "Conv2DBackpropInput" and _is(op.inputs[1], VARIABLE):
        kept = {name: op.attributes.get(name) for name in ("strides", "padding", "dilations", "data_format")}
        return layer(op, TRANSPOSED_CONVOLUTION, op.inputs[2:], weight=op.inputs[1].op.name, bias=None, **kept)
    if op.kind in ("Gather", "GatherV2", "ResourceGather") and _is(op.inputs[0], VARIABLE):
        # GatherV2 has its axis as an input; nn.Embedding takes rows.
        first_axis = len(op.inputs) < 3 or number_of(op.inputs[2]) == 0
        if first_axis and len(op.inputs[0].shape) == 2:
            return layer(op, EMBEDDING, op.inputs[1:2], weight=op.inputs[0].op.name, bias=None)
    return None


def _padded_first(op: Op, users: dict[Op, list[Op]]) -> Raised:
    """A convolution of what is padded with zeros, as much before each axis as behind it: that is the layer's own padding."""
    if op.kind not in (CONVOLUTION_LAYERS["Conv2D"], CONVOLUTION_LAYERS["Conv3D"]) or op.inputs[0].kind != "Pad":
        return None
    padded = op.inputs[0].op
    if op.attributes.get("padding") != "VALID" or len(users.get(padded, [])) != 1 or padded.inputs[1].kind != CONST:
        return None
    widths = [tuple(map(int, each)) for each in padded.inputs[1].value]
    channels = 1 if str(op.attributes.get("data_format", "NHWC")).startswith("NC") else len(widths) - 1
    if any(before != after for before, after in widths) or widths[0] != (0, 0) or widths[channels] != (0, 0):
        return None
    explicit = [width for each in widths for width in each]
    known = {**op.attributes, "padding": "EXPLICIT", "explicit_paddings": explicit}
    return layer(op, op.kind, padded.inputs[:1], **known)


def _is(tensor: Tensor, kind: str) -> bool:
    return tensor.kind == kind


def _reshaped_linear(op: Op, users: dict[Op, list[Op]]) -> Raised:
    """A dense layer of more than two axes: reshaped to two, multiplied, reshaped back."""
    if op.kind != "Reshape" or not _is(op.inputs[0], LINEAR):
        return None
    linear = op.inputs[0].op
    taken = linear.inputs[0]
    # A reader of the two-axis product besides the reshape needs it as it is.
    if taken.kind != "Reshape" or len(users.get(linear, [])) != 1:
        return None
    before, after = taken.op.inputs[0], op.output()
    # tf.layers.dense on more than two axes: all but the last come back as they went in.
    if before.shape[:-1] == after.shape[:-1] and before.shape[-1:] == taken.shape[-1:]:
        return layer(op, LINEAR, [before], **linear.attributes)
    return None


def _with_bias(op: Op, users: dict[Op, list[Op]]) -> Raised:
    """A layer without a bias, and a variable added to its last axis."""
    if op.kind not in ADDS:
        return None
    for taken, bias in (op.inputs, op.inputs[::-1]):
        own = taken.op
        if own.kind not in (LINEAR, TRANSPOSED_CONVOLUTION, *CONVOLUTION_LAYERS.values()) or own.attributes.get("bias"):
            continue
        first = op.attributes.get("data_format") == "NCHW" and len(taken.shape) == 4
        channels = taken.shape[1 if first else -1]
        # A layer that is read before its bias is added, by a summary or a second branch, keeps the two apart.
        if _is(bias, VARIABLE) and bias.shape == (channels,) and len(users.get(own, [])) == 1:
            return layer(op, own.kind, own.inputs, **{**own.attributes, "bias": bias.op.name})
    return None


def _fused_norm(op: Op, users: dict[Op, list[Op]]) -> Raised:
    # In inference a fused norm takes the moving statistics as inputs: plain arithmetic, and written as such.
    if op.kind not in FUSED or not op.attributes.get("is_training", True):
        return None
    scale, shift = op.inputs[1:3]
    known = (_is(scale, VARIABLE) or number_of(scale) == 1) and (_is(shift, VARIABLE) or number_of(shift) == 0)
    if not known:
        return None
    return layer(
        op,
        BATCH_NORM,
        op.inputs[:1],
        weight=scale.op.name if _is(scale, VARIABLE) else None,
        bias=shift.op.name if _is(shift, VARIABLE) else None,
        eps=_epsilon(op),
        fused=True,
        data_format=op.attributes.get("data_format", "NHWC"),
        batch={1: op, 2: op},
    )


def _epsilon(op: Op) -> float:
    return float(as_written(np.float32(op.attributes.get("epsilon", 1e-4))))


def _norm_by_moments(op: Op, users: dict[Op, list[Op]]) -> Raised:
    """``x * m + (beta - mean * m)``, ``m = rsqrt(variance + epsilon) * gamma``: what tf.nn.batch_normalization makes."""
    if op.kind not in ("Add", "AddV2") or len(op.inputs) != 2:
        return None
    for scaled, shift in (op.inputs, op.inputs[::-1]):
        found = _normalised(op, scaled, shift)
        if found is not None:
            return found
    return None


def _normalised(op: Op, scaled: Tensor, shift: Tensor) -> Raised:
    beta: Tensor | None = None
    if scaled.kind != "Mul":
        return None
    if shift.kind == "Sub":
        beta, carried = shift.op.inputs
    elif shift.kind == "Neg":
        carried = shift.op.inputs[0]
    else:
        return None
    if carried.kind != "Mul":
        return None
    for x, factor in (scaled.op.inputs, scaled.op.inputs[::-1]):
        mean = next((each for each in carried.op.inputs if each != factor), None)
        root, gamma = _root_and_scale(factor)
        if root is None or mean is None or factor not in carried.op.inputs:
            continue
        variance, epsilon = _sum_with_number(root.op.inputs[0])
        axes = _moments(x, mean, variance)
        if axes is None or any(each is not None and not _is(each, VARIABLE) for each in (beta, gamma)):
            continue
        kind = _kind_of_norm(x, axes)
        if kind is None or variance is None:
            return None
        return layer(
            op,
            kind,
            [x],
            weight=gamma.op.name if gamma else None,
            bias=beta.op.name if beta else None,
            eps=epsilon,
            fused=False,
            data_format="NHWC",
            # what moving statistics come from, which a layer norm has none of
            **({"batch": {1: mean.op, 2: variance.op}} if kind == BATCH_NORM else {}),
        )
    return None


def _root_and_scale(factor: Tensor) -> tuple[Tensor | None, Tensor | None]:
    if factor.kind == "Rsqrt":
        return factor, None
    if factor.kind == "Mul":
        for root, gamma in (factor.op.inputs, factor.op.inputs[::-1]):
            if root.kind == "Rsqrt":
                return root, gamma
    return None, None


def _sum_with_number(tensor: Tensor) -> tuple[Tensor | None, float]:
    if tensor.kind in ("Add", "AddV2"):
        for term, small in (tensor.op.inputs, tensor.op.inputs[::-1]):
            number = number_of(small)
            if number is not None:
                return term, number
    return None, 0.0


def _moments(x: Tensor, mean: Tensor, variance: Tensor | None) -> tuple[int, ...] | None:
    """The axes over which two tensors are the mean and the biased variance of a third; None where they are not."""
    mean, spread = _unsqueezed(mean), _unsqueezed(variance) if variance is not None else None
    if spread is None or mean.kind != "Mean" or spread.kind != "Mean" or mean.op.inputs[0] != x:
        return None
    squared = spread.op.inputs[0]
    if squared.kind != "SquaredDifference" or x not in squared.op.inputs:
        return None
    # tf.nn.moments stops the gradient of the mean inside the variance: it is zero there in exact arithmetic, and kept
    # out of it.
    other = next((each for each in squared.op.inputs if each != x), None)
    if other is None or _unsqueezed(_ungated(other)) != mean:
        return None
    axes = axes_of(mean.op)
    return axes if axes == axes_of(spread.op) else None


def _ungated(tensor: Tensor) -> Tensor:
    return tensor.op.inputs[0] if tensor.kind == "StopGradient" else tensor


def _unsqueezed(tensor: Tensor) -> Tensor:
    while tensor.kind in ("Squeeze", "Reshape", "ExpandDims") and tensor.op.inputs:
        tensor = tensor.op.inputs[0]
    return tensor


def _kind_of_norm(x: Tensor, axes: tuple[int, ...]) -> str | None:
    rank = len(x.shape)
    # Channels come last: a norm by moments over NCHW is written op by op.
    if axes == tuple(range(rank - 1)):
        return BATCH_NORM
    return LAYER_NORM if axes == (rank - 1,) else None


def _dropout(op: Op, users: dict[Op, list[Op]]) -> Raised:
    """The three ways in which TensorFlow's versions write dropout."""
    x = mask = scale = None
    if op.kind == "Mul":
        for first, second in (op.inputs, op.inputs[::-1]):
            if second.kind in ("Cast", "Floor"):
                x, mask = first, second
        if x is not None:
            x, scale = _scaled(x)
    if op.kind in ("Select", "SelectV2") and number_of(op.inputs[2]) == 0:
        mask = op.inputs[0]
        x, scale = _scaled(op.inputs[1])
    rate = _rate(mask) if mask is not None else None
    # The scale is 1 / keep_prob in float32: 1e-6 is 16 of its roundings, and a script's own odd scale is a factor of
    # two off.
    if x is None or rate is None or scale is None or abs(scale * (1 - rate[1]) - 1) > 1e-6:
        return None
    draw = rate[0]
    shape = draw.shape if draw.shape != x.shape else None
    return layer(op, DROPOUT, [x], rate=rate[1], noise_shape=shape, draw=draw.op)


def _reduced_entropy(op: Op, users: dict[Op, list[Op]]) -> Raised:
    """The mean or the sum of the cross entropies of all examples."""
    if op.kind not in ("Mean", "Sum") or op.attributes.get("keep_dims") or op.output().shape != ():
        return None
    taken = op.inputs[0]
    # Losses of single examples that are read elsewhere too (hard example mining) stay a vector.
    if taken.kind != "SparseSoftmaxCrossEntropyWithLogits" or len(users.get(taken.op, [])) != 1:
        return None
    return layer(op, CROSS_ENTROPY, taken.op.inputs, reduction=op.kind)


def _scaled(x: Tensor) -> tuple[Tensor, float | None]:
    if x.kind in ("Mul", "RealDiv"):
        for taken, factor in (x.op.inputs, x.op.inputs[::-1]):
            number = number_of(factor)
            # x / keep_prob scales; keep_prob / x does not.
            if number and (x.kind == "Mul" or factor is x.op.inputs[1]):
                return taken, number if x.kind == "Mul" else 1 / number
    return x, None


def _rate(mask: Tensor) -> tuple[Tensor, float] | None:
    """The draw and the rate of a mask: ``draw >= rate``, or ``floor(keep_prob + draw)``."""
    if mask.kind == "Cast":
        mask = mask.op.inputs[0]
    # TensorFlow 1.15 and 2: the draw is kept where it reaches the rate. Older versions: floor(keep_prob + draw).
    if mask.kind == "GreaterEqual" and mask.op.inputs[0].kind == "RandomUniform":
        rate = number_of(mask.op.inputs[1])
        return None if rate is None else (mask.op.inputs[0], rate)
    if mask.kind == "Floor" and mask.op.inputs[0].kind in ("Add", "AddV2"):
        for draw, keep in (mask.op.inputs[0].op.inputs, mask.op.inputs[0].op.inputs[::-1]):
            kept = number_of(keep)
            if draw.kind == "RandomUniform" and kept is not None:
                return draw, 1 - kept
    return None


UNMOVED = 1.0  # the weight of the old one, of a statistic that nothing moves


def _add_statistics(tower: Tower) -> None:
    """Adds to each batch norm which variables its statistics move, and how fast."""
    known = [(each, moved(each.kind, each.value)) for each in tower.writes if each.is_statistic]
    moves = [(write, found) for write, found in known if found is not None]
    # Of TensorFlow 2 a fused norm is handed moving statistics that it does not look at: its layer takes none.
    idle = tower.unmoved - {op.name for op in tower.ops() if op.kind == VARIABLE}
    for op in tower.ops():
        if op.kind == BATCH_NORM and "batch" in op.attributes:
            batch = op.attributes.pop("batch")
            for write, found in moves:
                for index, name in ((1, "mean"), (2, "variance")):
                    unbiased = index == 2 and _is_unbiased(found.source, batch[index], op)
                    if unbiased or _comes_from(found.source, batch[index], index, op):
                        # A fused norm is just this: it normalises by the biased variance, and keeps the other one.
                        op.attributes["fused"] = op.attributes["fused"] or unbiased
                        op.attributes.update({name: write.variable, "decay": found.decay})
                        if found.biased:
                            op.attributes.update({f"{name}_biased": found.biased, f"{name}_step": found.step})
            of_one_alone = ("mean" in op.attributes) != ("variance" in op.attributes)
            debiased_alone = op.attributes.get("variance_biased") and not op.attributes.get("mean_biased")
            if of_one_alone or debiased_alone:
                # No layer has that: both are then moved op by op.
                for name in ("mean", "variance"):
                    op.attributes.pop(name, None)
            op.attributes.update(_unmoved_statistics(op, idle))


def _unmoved_statistics(norm: Op, idle: Collection[str]) -> dict[str, Any]:
    """What a batch norm has of moving statistics that the script never moves, for it does not run its UPDATE_OPS.

    Nothing of the graph that trains leads to them: they stand under the names of their layer, beside its weights.
    """
    own = norm.attributes.get("weight") or norm.attributes.get("bias")
    if not own or "mean" in norm.attributes:
        return {}
    scope = own.rpartition("/")[0]
    of_layer = [name for name in sorted(idle) if name.rpartition("/")[0] == scope]
    found = [[name for name in of_layer if word in name.rpartition("/")[2]] for word in ("mean", "var")]
    if not all(len(names) == 1 for names in found):
        return {}
    return {"mean": found[0][0], "variance": found[1][0], "decay": UNMOVED}


def _is_unbiased(source: Tensor, batch: Op, norm: Op) -> bool:
    """Whether something is an unfused norm's variance times n / (n - 1), by its n examples."""
    sizes = norm.inputs[0].shape[:-1]
    examples = math.prod(sizes)
    if norm.attributes["fused"] or any(size < 0 for size in sizes) or examples < 2:
        return False
    factor, tensor = 1.0, _unsqueezed(source)
    while tensor.kind in ("Mul", "RealDiv"):
        one, other = tensor.op.inputs
        if tensor.kind == "Mul" and number_of(other) is None:
            one, other = other, one
        number = number_of(other)
        if number is None or not number:
            return False
        factor, tensor = (factor * number if tensor.kind == "Mul" else factor / number), _unsqueezed(one)
    return tensor.op is _unsqueezed(batch.output()).op and math.isclose(
        factor, examples / (examples - 1), rel_tol=EXACT_RATIO
    )


def _comes_from(source: Tensor, batch: Op, index: int, norm: Op) -> bool:
    source = _unsqueezed(source)
    if batch.kind in FUSED:
        return source.op in (batch, norm) and source.number == index
    return source.op is _unsqueezed(batch.output()).op


def settings(op: Op) -> tuple[Any, ...]:
    """Returns what tells one layer from another."""
    # Without the draw, which each use of a dropout makes anew.
    return (op.kind, *(repr(op.attributes.get(name)) for name in sorted(op.attributes) if name != "draw"))


def _share(tower: Tower) -> None:
    """Gives a weight to one layer: where layers of several kinds read it, the later ones read it as a plain tensor."""
    owners: dict[str, tuple[Any, ...]] = {}
    for op in sorted(ops_of([tower.loss]), key=lambda op: op.place):
        if op.kind in LAYERS and (name := op.attributes.get("weight") or op.attributes.get("bias")):
            own = owners.setdefault(name, settings(op))
            if own != settings(op):
                op.attributes["borrowed"] = True
