"""How arithmetic is written: functions of each element, operators, products, comparisons and choices."""

import re
from collections.abc import Sequence

import numpy as np

from parity.port.source.code import ATOM, COMPARISON, SIGNED, Code, call, infix, method
from parity.port.source.writer import Writer, scalar, writes
from parity.port.tower.fold import CHOICE
from parity.port.tower.ops import CONST, VARIABLE, Op, Tensor
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
# Both frameworks take 0 for the gradient of |x| at 0.
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
    # torch's own threshold of 20 is off by 2e-9, which float64 shows.
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
    # TensorFlow's slope is 0.2 where nothing is said, torch's 0.01.
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
    # Letters are the same in both, and stand for the script's own order of axes: no operand has its channels turned.
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
    return Code(f"{yes.within(COMPARISON)} if {condition.within(COMPARISON)} else {no.within(COMPARISON)}", -1)


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
    # Over the last axis in the script's order, wherever torch has the channels.
    return call(f"F.{'softmax' if op.kind == 'Softmax' else 'log_softmax'}", writer.code(op.inputs[0]), "-1")


@writes("Cast")
def _cast(writer: Writer, op: Op) -> Code:
    # A float is of the module's precision, whatever the script wrote: float32 there is float64 in the proof.
    wanted = op.dtypes[0]
    if wanted.startswith("float"):
        if op.inputs[0].dtype.startswith("float"):
            return _kept(writer, op, writer.as_it_is(op.inputs[0]))
        return _kept(
            writer, op, method(writer.as_it_is(op.inputs[0]), "to", f"{writer.parameters.example(writer.owner)}.dtype")
        )
    kind = {"bool": "bool", "int32": "int", "int64": "long"}.get(wanted, "long")
    return _kept(writer, op, method(writer.as_it_is(op.inputs[0]), kind))
