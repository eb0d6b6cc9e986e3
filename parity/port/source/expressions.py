"""How ops without variables are written: arithmetic, activations, reductions, shapes."""

import re
from collections.abc import Sequence

import numpy as np

from parity.port.source.code import ATOM, SIGNED, Code, axes, call, infix, method
from parity.port.source.writer import Writer, scalar, writes
from parity.port.tower.fold import CHOICE, strided_index
from parity.port.tower.moves import VARIANCE
from parity.port.tower.ops import CONST, VARIABLE, Op, Tensor
from parity.port.tower.simplify import HITS, axes_of
from parity.trace.as_written import as_written

TORCH_FUNCTIONS = {
    "Relu": "F.relu",
    "Relu6": "F.relu6",
    "Elu": "F.elu",
    "Softsign": "F.softsign",
    "Tanh": "torch.tanh",
    "Sigmoid": "torch.sigmoid",
    "Exp": "torch.exp",
    "Expm1": "torch.expm1",
    "Log": "torch.log",
    "Log1p": "torch.log1p",
    "Sqrt": "torch.sqrt",
    "Rsqrt": "torch.rsqrt",
    "Sin": "torch.sin",
    "Cos": "torch.cos",
    "Tan": "torch.tan",
    "Asin": "torch.asin",
    "Acos": "torch.acos",
    "Atan": "torch.atan",
    "Sinh": "torch.sinh",
    "Cosh": "torch.cosh",
    "Asinh": "torch.asinh",
    "Acosh": "torch.acosh",
    "Atanh": "torch.atanh",
    "Erf": "torch.erf",
    "Erfc": "torch.erfc",
    "Lgamma": "torch.lgamma",
    "MatrixInverse": "torch.linalg.inv",
    "MatrixDeterminant": "torch.linalg.det",
    "Reciprocal": "torch.reciprocal",
    "Inv": "torch.reciprocal",
    "Sign": "torch.sign",
    "Floor": "torch.floor",
    "Ceil": "torch.ceil",
    "Rint": "torch.round",
    "Round": "torch.round",
    "IsFinite": "torch.isfinite",
    "IsNan": "torch.isnan",
    "IsInf": "torch.isinf",
    "LogicalNot": "torch.logical_not",
}
METHODS = {"Square": "square", "Abs": "abs", "StopGradient": "detach"}
SIGNS = {
    "Add": "+",
    "AddV2": "+",
    "Sub": "-",
    "Mul": "*",
    "RealDiv": "/",
    "FloorDiv": "//",
    "FloorMod": "%",
    "Pow": "**",
    "Equal": "==",
    "NotEqual": "!=",
    "Less": "<",
    "LessEqual": "<=",
    "Greater": ">",
    "GreaterEqual": ">=",
    "LogicalAnd": "&",
    "LogicalOr": "|",
}
TORCH_REDUCTIONS = {
    "Sum": "sum",
    "Mean": "mean",
    "Max": "amax",
    "Min": "amin",
    "Prod": "prod",
    "All": "all",
    "Any": "any",
    VARIANCE: "var",
}
ONE_AXIS = ("prod", "all", "any")  # torch's take one axis
# Beyond it torch's softplus is its argument itself; exp(-40) is less than a unit in the last place of float64.
SOFTPLUS_THRESHOLD = 40
SELU_SCALE = 1.0507009873554805  # of what is above 0, in both frameworks
EQUATION = re.compile(r"[A-Za-z.,]+->[A-Za-z.]*")  # of einsum; text of a trace, so nothing else is let through


@writes(*TORCH_FUNCTIONS)
def _function(writer: Writer, op: Op) -> Code:
    return _kept(writer, op, call(TORCH_FUNCTIONS[op.kind], writer.as_it_is(op.inputs[0])))


@writes(*METHODS)
def _method(writer: Writer, op: Op) -> Code:
    return _kept(writer, op, method(writer.as_it_is(op.inputs[0]), METHODS[op.kind]))


@writes("Softplus")
def _softplus(writer: Writer, op: Op) -> Code:
    return _kept(writer, op, call("F.softplus", writer.as_it_is(op.inputs[0]), threshold=SOFTPLUS_THRESHOLD))


@writes("Selu")
def _selu(writer: Writer, op: Op) -> Code:
    # At 0 TensorFlow's gradient is that of what is above, torch's that of what is below.
    x = op.inputs[0]
    writer.assign([x])
    taken = writer.as_it_is(x)
    above = infix(Code(repr(SELU_SCALE)), "*", taken)
    return _kept(writer, op, call("torch.where", infix(taken, "<", Code("0")), call("F.selu", taken), above))


@writes("LeakyRelu")
def _leaky_relu(writer: Writer, op: Op) -> Code:
    alpha = float(as_written(np.float32(op.attributes.get("alpha", 0.2))))
    return _kept(writer, op, call("F.leaky_relu", writer.as_it_is(op.inputs[0]), repr(alpha)))


@writes("Neg")
def _negative(writer: Writer, op: Op) -> Code:
    return _kept(writer, op, Code(f"-{writer.as_it_is(op.inputs[0]).within(SIGNED)}", SIGNED))


def _kept(writer: Writer, op: Op, code: Code) -> Code:
    """The output has its channels where the input has them."""
    if any(each in writer.channels_first for each in op.inputs):
        writer.channels_first.add(op.output())
    return code


@writes(*SIGNS, "BiasAdd")
def _infix(writer: Writer, op: Op) -> Code:
    first, second = _together(writer, op, op.inputs)
    if op.kind == "FloorDiv" and op.dtypes[0].startswith("float"):  # torch's // has no derivative; this one's is 0
        return call("torch.floor", infix(first, "/", second))
    return infix(first, SIGNS.get(op.kind, "+"), second)


@writes("Div")
def _divided(writer: Writer, op: Op) -> Code:
    first, second = _together(writer, op, op.inputs)
    return infix(first, "/" if op.dtypes[0].startswith("float") else "//", second)


@writes("DivNoNan")
def _divided_unless_zero(writer: Writer, op: Op) -> Code:
    # By infinity where the divisor is 0: quotient and both gradients are 0 there, as TensorFlow has them.
    divisor = writer.named(op.inputs[1])
    kept = call("torch.where", infix(divisor, "==", Code("0")), "torch.inf", divisor)
    return infix(writer.code(op.inputs[0]), "/", kept)


@writes("Atan2")
def _angle(writer: Writer, op: Op) -> Code:
    return call("torch.atan2", *_together(writer, op, op.inputs))


@writes("Einsum")
def _einsum(writer: Writer, op: Op) -> Code | None:
    equation = str(op.attributes.get("equation", ""))
    if not EQUATION.fullmatch(equation):
        return None
    return call("torch.einsum", f'"{equation}"', *(writer.code(each) for each in op.inputs))


@writes("AddN")
def _sum_of_several(writer: Writer, op: Op) -> Code:
    first, *others = _together(writer, op, op.inputs)
    for each in others:
        first = infix(first, "+", each)
    return first


@writes("SquaredDifference")
def _squared_difference(writer: Writer, op: Op) -> Code:
    first, second = _together(writer, op, op.inputs)
    return method(infix(first, "-", second), "square")


@writes("Maximum", "Minimum")
def _extreme(writer: Writer, op: Op) -> Code:
    # Where both are the same TensorFlow gives the first one the whole gradient; torch.maximum would share it.
    first, second = op.inputs
    sign, limit, bound = (">=", "min", scalar(second)) if op.kind == "Maximum" else ("<=", "max", scalar(second))
    if bound is not None and first.shape == op.output().shape:  # which clamp does
        return _kept(writer, op, method(writer.as_it_is(first), "clamp", **{limit: bound.text}))
    own = scalar(first)
    if not op.dtypes[0].startswith("float"):  # whole numbers have no gradient: either side will do
        if own is not None and second.shape == op.output().shape:
            return _kept(writer, op, method(writer.as_it_is(second), "clamp", **{limit: own.text}))
        return call(f"torch.{op.kind.lower()}", *_together(writer, op, op.inputs))
    if op.kind == "Maximum" and own is not None and own.text == "0" and second.shape == op.output().shape:
        return _kept(writer, op, call("F.relu", writer.as_it_is(second)))  # 0 at 0
    one, other = _named_together(writer, op)
    return call("torch.where", infix(one, sign, other), one, other)


def _named_together(writer: Writer, op: Op) -> list[Code]:
    """Operands that are broadcast against each other, as expressions that may stand several times."""
    computed = [each for each in op.inputs if each.kind not in (CONST, VARIABLE)]
    writer.assign(computed)
    return _together(writer, op, op.inputs)


@writes(CHOICE)
def _branches(writer: Writer, op: Op) -> Code:
    condition, yes, no = (writer.code(each) for each in op.inputs)
    return Code(f"({yes.text} if {condition.text} else {no.text})")


@writes("Select", "SelectV2")
def _choice(writer: Writer, op: Op) -> Code:
    chosen, *others = op.inputs
    rank = len(op.output().shape)
    if (
        op.kind == "Select" and len(chosen.shape) == 1 and rank > 1
    ):  # by rows, where torch.where would choose by columns
        rows = Code(f"{writer.code(chosen).within(ATOM)}[{', '.join([':', *['None'] * (rank - 1)])}]")
        return call("torch.where", rows, *(_operand(writer, each, rank, False) for each in others))
    return call("torch.where", *_together(writer, op, op.inputs))


def _together(writer: Writer, op: Op, tensors: Sequence[Tensor]) -> list[Code]:
    """Operands that are broadcast against each other, all with their channels in the same place."""
    rank = len(op.output().shape)
    first = any(each in writer.channels_first for each in tensors)
    first = first and all(len(each.shape) in (0, 1, rank) or each.is_number for each in tensors)
    if first:
        writer.channels_first.add(op.output())
    return [_operand(writer, each, rank, first) for each in tensors]


def _operand(writer: Writer, tensor: Tensor, rank: int, first: bool) -> Code:
    number = scalar(tensor)
    if number is not None and tensor.kind == CONST:
        return number
    code = writer.code(tensor, first and len(tensor.shape) == rank and tensor.kind not in (CONST, VARIABLE))
    if not first or not tensor.shape:
        return code
    if len(tensor.shape) == 1:
        return Code(f"{code.within(ATOM)}[{', '.join([':', *['None'] * (rank - 2)])}]")
    if tensor.kind in (CONST, VARIABLE):
        return method(code, "permute", *map(str, (0, rank - 1, *range(1, rank - 1))))
    return code


@writes(*TORCH_REDUCTIONS)
def _reduction(writer: Writer, op: Op) -> Code | None:
    found = axes_of(op)
    if found is None:
        return None
    taken = op.inputs[0]
    rank, name = len(taken.shape), TORCH_REDUCTIONS[op.kind]
    keep = True if op.attributes.get("keep_dims") else None
    if len(found) == rank:
        code = writer.as_it_is(taken)
        if keep:
            return (
                _one_axis_after_another(code, name, found, keep)
                if name in ONE_AXIS
                else method(code, name, axes(found), keepdim=True)
            )
        return method(code, {"amax": "max", "amin": "min"}.get(name, name))
    moved = taken in writer.channels_first and (keep or rank - 1 not in found)
    code = writer.code(taken, moved)
    if moved:
        places = {0: 0, rank - 1: 1, **{axis: axis + 1 for axis in range(1, rank - 1)}}
        found = tuple(sorted(places[axis] for axis in found))
        if len(op.output().shape) > 2:
            writer.channels_first.add(op.output())
    if name in ONE_AXIS:
        return _one_axis_after_another(code, name, found, keep)
    return method(code, name, axes(found), keepdim=keep)


def _one_axis_after_another(code: Code, name: str, found: Sequence[int], keep: bool | None) -> Code:
    for axis in sorted(found, reverse=True):
        code = method(code, name, str(axis), keepdim=keep)
    return code


@writes("L2Loss")
def _l2_loss(writer: Writer, op: Op) -> Code:
    taken = op.inputs[0]
    if taken.kind == VARIABLE:
        return call("like_tf.l2_loss", writer.parameters.whole(taken.op.name, writer.owner))
    return call("like_tf.l2_loss", writer.as_it_is(taken))


@writes("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def _product(writer: Writer, op: Op) -> Code:
    names = ("transpose_a", "transpose_b") if op.kind == "MatMul" else ("adj_x", "adj_y")
    turned = [
        Code(f"{writer.code(each).within(ATOM)}.mT") if op.attributes.get(name) else writer.code(each)
        for each, name in zip(op.inputs, names, strict=True)
    ]
    return infix(turned[0], "@", turned[1])


@writes("Softmax", "LogSoftmax")
def _softmax(writer: Writer, op: Op) -> Code:
    return call(f"F.{'softmax' if op.kind == 'Softmax' else 'log_softmax'}", writer.code(op.inputs[0]), "-1")


@writes("Cast")
def _cast(writer: Writer, op: Op) -> Code:
    wanted = op.dtypes[0]
    if wanted.startswith("float"):
        if op.inputs[0].dtype.startswith("float"):
            return _kept(writer, op, writer.as_it_is(op.inputs[0]))
        return _kept(
            writer, op, method(writer.as_it_is(op.inputs[0]), "to", f"{writer.parameters.example(writer.owner)}.dtype")
        )
    kind = {"bool": "bool", "int32": "int", "int64": "long"}.get(wanted, "long")
    return _kept(writer, op, method(writer.as_it_is(op.inputs[0]), kind))


# Shapes.


@writes("Reshape", "ExpandDims", "Squeeze")
def _reshape(writer: Writer, op: Op) -> Code:
    taken, before, after = op.inputs[0], op.inputs[0].shape, op.output().shape
    code = writer.code(taken)
    if len(after) == 2 and len(before) > 2 and after[0] == before[0]:
        return method(code, "flatten", "1")
    if len(after) == 1 and len(before) > 1:
        return method(code, "flatten")
    added = _axis_added(before, after)
    if added is not None:
        return method(code, "unsqueeze", str(added))
    added = _axis_added(after, before)
    if added is not None:
        return method(code, "squeeze", str(added))
    for cut in range(len(before), 1, -1):  # the first axes joined
        if after == (int(np.prod(before[:cut])), *before[cut:]):
            return method(code, "flatten", "0", str(cut - 1))
    return method(code, "reshape", *_lengths(op))


def _axis_added(before: tuple[int, ...], after: tuple[int, ...]) -> int | None:
    if len(after) != len(before) + 1:
        return None
    ones = [axis for axis, length in enumerate(after) if length == 1]
    return next((axis for axis in ones if (*after[:axis], *after[axis + 1 :]) == before), None)


def _lengths(op: Op) -> list[str]:
    """The lengths of a reshape, with -1 for that of the examples."""
    after = op.output().shape
    rest = int(np.prod(after[1:]))
    if len(after) > 1 and rest > 0:
        return ["-1", *map(str, after[1:])]
    return [*map(str, after)]


@writes("Transpose")
def _transpose(writer: Writer, op: Op) -> Code | None:
    if op.inputs[1].kind != CONST:
        return None
    order = [int(each) for each in op.inputs[1].value]
    if order == [1, 0]:
        return Code(f"{writer.code(op.inputs[0]).within(ATOM)}.T")
    rank = len(order)
    if rank > 3 and op.inputs[0] in writer.channels_first and order == [0, rank - 1, *range(1, rank - 1)]:
        return writer.code(op.inputs[0], True)
    moved = [axis for axis in range(rank) if order[axis] != axis]
    if len(moved) == 2:
        return method(writer.code(op.inputs[0]), "transpose", *map(str, moved))
    return method(writer.code(op.inputs[0]), "permute", *map(str, order))


@writes("ConcatV2")
def _concatenated(writer: Writer, op: Op) -> Code | None:
    *parts, axis = op.inputs
    if axis.kind != CONST:
        return None
    rank = len(op.output().shape)
    place = int(axis.value) % rank
    first = rank > 2 and any(each in writer.channels_first for each in parts)
    if first:
        writer.channels_first.add(op.output())
        place = {0: 0, rank - 1: 1}.get(place, place + 1)
    listed = ", ".join(writer.code(each, first).text for each in parts)
    return Code(f"torch.cat([{listed}], {place})")


@writes("Pack")
def _stacked(writer: Writer, op: Op) -> Code:
    listed = ", ".join(writer.code(each).text for each in op.inputs)
    return Code(f"torch.stack([{listed}], {int(op.attributes.get('axis', 0))})")


@writes("Unpack")
def _unstacked(writer: Writer, op: Op) -> Code:
    return method(writer.code(op.inputs[0]), "unbind", str(int(op.attributes.get("axis", 0))))


@writes("Split")
def _split(writer: Writer, op: Op) -> Code | None:
    axis, taken = op.inputs
    if axis.kind != CONST:
        return None
    return method(
        writer.code(taken), "chunk", str(int(op.attributes["num_split"])), str(int(axis.value) % len(taken.shape))
    )


@writes("SplitV")
def _split_unevenly(writer: Writer, op: Op) -> Code | None:
    taken, sizes, axis = op.inputs
    if sizes.kind != CONST or axis.kind != CONST:
        return None
    return method(
        writer.code(taken),
        "split",
        str([int(each) for each in sizes.value]),
        str(int(axis.value) % len(taken.shape)),
    )


@writes("StridedSlice")
def _strided_slice(writer: Writer, op: Op) -> Code | None:
    taken, *bounds = op.inputs
    if any(each.kind != CONST for each in bounds):
        return None
    index = strided_index(op, [each.value for each in bounds], len(taken.shape))
    if any(isinstance(each, slice) and each.step is not None and each.step < 0 for each in index):
        return None
    return Code(f"{writer.code(taken).within(ATOM)}[{', '.join(_part(each) for each in _trimmed(index))}]")


def _trimmed(index: tuple[object, ...]) -> list[object]:
    found = list(index)
    while len(found) > 1 and found[-1] == slice(None):
        found.pop()
    return found


def _part(each: object) -> str:
    if isinstance(each, slice):
        bounds = ["" if bound is None else str(bound) for bound in (each.start, each.stop)]
        if each.start == 0:
            bounds[0] = ""
        return ":".join(bounds if each.step is None else [*bounds, str(each.step)])
    return "..." if each is ... else str(each)


@writes("Slice")
def _slice(writer: Writer, op: Op) -> Code | None:
    taken, begin, size = op.inputs
    if begin.kind != CONST or size.kind != CONST:
        return None
    index = []
    for start, length, whole in zip(begin.value.tolist(), size.value.tolist(), taken.shape, strict=True):
        end = whole if length < 0 else start + length
        index.append(slice(start or None, None if end == whole else end))
    return Code(f"{writer.code(taken).within(ATOM)}[{', '.join(_part(each) for each in _trimmed(tuple(index)))}]")


@writes("Pad", "PadV2", "MirrorPad")
def _padded(writer: Writer, op: Op) -> Code | None:
    if op.inputs[1].kind != CONST:
        return None
    taken = op.inputs[0]
    widths = [tuple(map(int, each)) for each in op.inputs[1].value]
    first = taken in writer.channels_first
    if first:
        widths = [widths[0], widths[-1], *widths[1:-1]]
        writer.channels_first.add(op.output())
    while widths and widths[0] == (0, 0):
        widths.pop(0)
    flat = tuple(bound for each in reversed(widths) for bound in each)
    mode = {"REFLECT": '"reflect"', "SYMMETRIC": None}.get(op.attributes.get("mode", ""))
    if op.kind == "MirrorPad" and mode is None:
        return None
    value = scalar(op.inputs[2]) if op.kind == "PadV2" else None
    return call("F.pad", writer.code(taken, first), str(flat), mode=mode, value=value.text if value else None)


@writes("Tile")
def _tiled(writer: Writer, op: Op) -> Code | None:
    if op.inputs[1].kind != CONST:
        return None
    return method(writer.code(op.inputs[0]), "repeat", *(str(int(each)) for each in op.inputs[1].value))


@writes("Gather", "GatherV2")
def _gathered(writer: Writer, op: Op) -> Code | None:
    taken, places = op.inputs[:2]
    axis = int(op.inputs[2].value) % len(taken.shape) if len(op.inputs) > 2 and op.inputs[2].kind == CONST else 0
    if int(op.attributes.get("batch_dims", 0)):
        return None
    index = writer.code(places)
    index = index if places.kind == CONST else method(index, "long")
    return Code(f"{writer.code(taken).within(ATOM)}[{', '.join([':'] * axis + [index.text])}]")


@writes("OneHot")
def _one_hot(writer: Writer, op: Op) -> Code | None:
    places, depth, on, off = op.inputs
    if depth.kind != CONST or scalar(on) is None or scalar(off) is None or int(op.attributes.get("axis", -1)) != -1:
        return None
    if float(on.value) != 1 or float(off.value) != 0:
        return None
    coded = call("F.one_hot", method(writer.code(places), "long"), str(int(depth.value)))
    return method(coded, "to", f"{writer.parameters.example(writer.owner)}.dtype") if op.dtypes[0] != "int32" else coded


@writes("ArgMax", "ArgMin")
def _place_of_extreme(writer: Writer, op: Op) -> Code | None:
    if op.inputs[1].kind != CONST:
        return None
    return method(writer.code(op.inputs[0]), op.kind.lower(), str(int(op.inputs[1].value)))


# Losses.


@writes("SparseSoftmaxCrossEntropyWithLogits")
def _sparse_cross_entropy(writer: Writer, op: Op) -> Code:
    return call("F.cross_entropy", *_logits_and_classes(writer, op), reduction='"none"')


def _logits_and_classes(writer: Writer, op: Op) -> tuple[Code, Code]:
    logits, labels = op.inputs
    number = scalar(labels) if labels.kind == CONST else None
    if number is None:
        return writer.code(logits), method(writer.code(labels), "long")
    writer.assign([logits])
    found = writer.code(logits)
    same = method(found, "new_full", f"({call('len', found).text},)", number.text)
    return found, method(same, "long")


@writes("CrossEntropy")
def _mean_cross_entropy(writer: Writer, op: Op) -> Code:
    reduction = '"sum"' if op.attributes["reduction"] == "Sum" else None
    return call("F.cross_entropy", *_logits_and_classes(writer, op), reduction=reduction)


@writes("SoftmaxCrossEntropyWithLogits")
def _cross_entropy(writer: Writer, op: Op) -> Code:
    logits, labels = op.inputs
    return call("like_tf.softmax_cross_entropy_with_logits", writer.code(labels), writer.code(logits))


@writes(HITS)
def _accidental_hits(writer: Writer, op: Op) -> Code:
    """The lowest number of float32 for candidates that are a true class, which the softmax leaves out so; 0 for others."""
    true, candidates = op.inputs
    several = true.shape[1] > 1
    classes = Code(f"{writer.code(true).within(ATOM)}[..., None]") if several else writer.code(true)
    compared = infix(classes, "==", writer.code(candidates))
    compared = method(compared, "any", "1") if several else compared
    return infix(compared, "*", Code("torch.finfo(torch.float32).min"))


# Draws.


@writes("RandomUniform", "RandomStandardNormal")
def _drawn(writer: Writer, op: Op) -> Code:
    name = {"RandomUniform": "rand", "RandomStandardNormal": "randn"}[op.kind]
    like = writer.parameters.example(writer.owner)
    return call(f"torch.{name}", str(op.output().shape), dtype=f"{like}.dtype", device=f"{like}.device")
