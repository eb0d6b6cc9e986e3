"""Ops of graphs and functions of torch as functions of arrays, by name."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from parity.diagnose.ops.activations import FUNCTIONS, log_softmax, softmax
from parity.diagnose.ops.arguments import Arguments, Attributes, set_to
from parity.diagnose.ops.indexing import INDEXING
from parity.diagnose.ops.loss_functions import LOSS_FUNCTIONS
from parity.diagnose.ops.windows import WINDOWS
from parity.trace.arrays import Array


def _concat(arguments: Arguments, attributes: Attributes) -> Array:
    if isinstance(arguments[0], list):  # torch: a list, then the axis
        return np.concatenate(arguments[0], int(set_to("dim", "1", arguments, attributes, 0)))
    # ConcatV2 has its axis last, as a tensor.
    return np.concatenate([np.asarray(each) for each in arguments[:-1]], int(np.asarray(arguments[-1])))


def _stack(arguments: Arguments, attributes: Attributes) -> Array:
    if isinstance(arguments[0], list):
        return np.stack(arguments[0], int(set_to("dim", "1", arguments, attributes, 0)))
    return np.stack(list(arguments), int(attributes.get("axis", 0)))


def _where(arguments: Arguments, attributes: Attributes) -> Array:
    condition, one, other = (np.asarray(each) for each in arguments)
    condition = condition.astype(bool)
    if condition.ndim == 1 < one.ndim:  # a graph's first Select chooses rows
        condition = condition.reshape(len(condition), *[1] * (one.ndim - 1))
    return np.where(condition, one, other)


def _masked_fill(arguments: Arguments, attributes: Attributes) -> Array:
    x, mask = np.asarray(arguments[0], np.float64), np.asarray(arguments[1]).astype(bool)
    return np.where(mask, float(set_to("value", "2", arguments, attributes)), x)


def _clip(arguments: Arguments, attributes: Attributes) -> Array:
    low, high = set_to("min", "1", arguments, attributes), set_to("max", "2", arguments, attributes)
    return np.clip(np.asarray(arguments[0], np.float64), low, high)


def _linear(arguments: Arguments, attributes: Attributes) -> Array:
    """What is multiplied by a kernel or, where that was done before, has a bias added; or both."""
    made = np.asarray(arguments[0], np.float64)
    for each in arguments[1:]:
        array = np.asarray(each, np.float64)
        made = made @ array.T if array.ndim == 2 else made + array
    return made


def _scores(arguments: Arguments, attributes: Attributes) -> Array:
    query, key = (np.asarray(each, np.float64) for each in arguments)
    return np.asarray(query @ key.swapaxes(-1, -2))


def _masked_scores(arguments: Arguments, attributes: Attributes) -> Array:
    """What `scaled_dot_product_attention` masks: what comes after, or by a mask that is added or says what may be seen."""
    scores = np.asarray(arguments[0], np.float64)
    # Without a mask among its operands it is the causal one, which torch makes of shapes.
    if len(arguments) < 2:
        return np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    mask = np.asarray(arguments[1])
    return np.where(mask, scores, -np.inf) if mask.dtype.kind == "b" else scores + mask


def _attended(arguments: Arguments, attributes: Attributes) -> Array:
    return np.asarray(np.asarray(arguments[0], np.float64) @ np.asarray(arguments[1], np.float64))


def _einsum(arguments: Arguments, attributes: Attributes) -> Array:
    equation, arrays = attributes.get("equation"), list(arguments)
    if equation is None:
        equation, *arrays = arrays
    return np.asarray(np.einsum(equation.replace(" ", ""), *(np.asarray(each, np.float64) for each in arrays)))


def _tile(arguments: Arguments, attributes: Attributes) -> Array:
    return np.tile(np.asarray(arguments[0]), [int(each) for each in np.atleast_1d(arguments[1])])


def _strided_slice(arguments: Arguments, attributes: Attributes) -> Array:
    x, begin, end, steps = (np.asarray(each) for each in arguments[:4])
    # Bit k of a mask is about the k-th index: tensorflow/core/util/strided_slice_op.h.
    masks = {name: int(attributes.get(f"{name}_mask", 0)) for name in ("begin", "end", "new_axis", "shrink_axis")}
    if attributes.get("ellipsis_mask", 0):
        raise ValueError("an ellipsis")
    index: list[Any] = []
    for at in range(len(begin)):
        bit = 1 << at
        if masks["new_axis"] & bit:
            index.append(None)
        elif masks["shrink_axis"] & bit:
            index.append(int(begin[at]))
        else:
            first, last = (
                None if masks[name] & bit else int(each[at]) for name, each in (("begin", begin), ("end", end))
            )
            index.append(slice(first, last, int(steps[at])))
    return np.asarray(x[tuple(index)])


def _to_depth(arguments: Arguments, attributes: Attributes) -> Array:
    """Blocks of pixels to channels: of a graph ``[n, h, w, c]``, the place in the block before the channel."""
    x, size = np.asarray(arguments[0]), int(attributes["block_size"])
    n, h, w, c = x.shape
    blocks = x.reshape(n, h // size, size, w // size, size, c).transpose(0, 1, 3, 2, 4, 5)
    return np.asarray(blocks.reshape(n, h // size, w // size, size * size * c))


def _to_space(arguments: Arguments, attributes: Attributes) -> Array:
    x, size = np.asarray(arguments[0]), int(attributes["block_size"])
    n, h, w, c = x.shape
    blocks = x.reshape(n, h, w, size, size, c // size**2).transpose(0, 1, 3, 2, 4, 5)
    return np.asarray(blocks.reshape(n, h * size, w * size, c // size**2))


def _normalised(x: Array, axes: tuple[int, ...], eps: float) -> Array:
    # Divided by n: both frameworks normalise by the biased variance, whatever their moving one is.
    mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return np.asarray((x - mean) / np.sqrt(variance + eps))


def _layer_norm(arguments: Arguments, attributes: Attributes) -> Array:
    x = np.asarray(arguments[0], np.float64)
    axes = tuple(range(x.ndim - len(np.atleast_1d(set_to("normalized_shape", "1", arguments, attributes))), x.ndim))
    made = _normalised(x, axes, float(set_to("eps", "4", arguments, attributes, 1e-5)))
    weight, bias = (set_to(name, place, arguments, attributes) for name, place in (("weight", "2"), ("bias", "3")))
    made = made if weight is None else made * np.asarray(weight)
    return made if bias is None else made + np.asarray(bias)


def _channels(x: Array, vector: Any) -> Array:
    return np.asarray(vector, np.float64).reshape(1, -1, *[1] * (x.ndim - 2))


def _batch_norm(arguments: Arguments, attributes: Attributes) -> Array:
    x = np.asarray(arguments[0], np.float64)
    eps = float(set_to("eps", "7", arguments, attributes, 1e-5))
    if set_to("training", "5", arguments, attributes, False):
        made = _normalised(x, (0, *range(2, x.ndim)), eps)
    else:
        mean, variance = (_channels(x, arguments[at]) for at in (1, 2))
        made = (x - mean) / np.sqrt(variance + eps)
    weight, bias = (set_to(name, place, arguments, attributes) for name, place in (("weight", "3"), ("bias", "4")))
    made = made if weight is None else made * _channels(x, weight)
    return made if bias is None else made + _channels(x, bias)


def _fused_batch_norm(arguments: Arguments, attributes: Attributes) -> Array:
    x, gamma, beta = (np.asarray(each, np.float64) for each in arguments[:3])
    eps = float(attributes.get("epsilon", 1e-3))
    if not attributes.get("is_training", True):
        mean, variance = (np.asarray(each, np.float64) for each in arguments[3:5])
        return np.asarray((x - mean) / np.sqrt(variance + eps) * gamma + beta)
    return np.asarray(_normalised(x, tuple(range(x.ndim - 1)), eps) * gamma + beta)


def _same(arguments: Arguments, attributes: Attributes) -> Array:
    return np.asarray(arguments[0])


def _sum_of_all(arguments: Arguments, attributes: Attributes) -> Array:
    return np.asarray(sum(np.asarray(each, np.float64) for each in arguments))


def _half_square(arguments: Arguments, attributes: Attributes) -> Array:
    return np.asarray(0.5 * np.square(np.asarray(arguments[0], np.float64)).sum())


def _cumulative(arguments: Arguments, attributes: Attributes) -> Array:
    """Running sums: TensorFlow's may leave each number itself out, and run backwards."""
    x, axis = np.asarray(arguments[0], np.float64), int(np.asarray(set_to("dim", "1", arguments, attributes)))
    return running_sum(x, axis, bool(attributes.get("reverse")), bool(attributes.get("exclusive")))


def running_sum(x: Array, axis: int, from_end: bool, without_own: bool) -> Array:
    """Returns sums along an axis, as `tf.cumsum` makes them.

    Args:
      x: float64, of any shape.
      axis: along which is added up.
      from_end: whether each place's sum is of what comes behind it.
      without_own: whether each place itself is left out of its sum.
    """
    x = np.flip(x, axis) if from_end else x
    made = np.cumsum(x, axis) - x if without_own else np.cumsum(x, axis)
    return np.flip(made, axis) if from_end else made


def _log_sum_exp(arguments: Arguments, attributes: Attributes) -> Array:
    x, axes = np.asarray(arguments[0], np.float64), axes_of(arguments, attributes)
    keeps = bool(set_to("keepdim", "2", arguments, attributes, False))
    largest = x.max(axes, keepdims=True)
    made = np.log(np.exp(x - largest).sum(axes, keepdims=True)) + largest
    return np.asarray(made if keeps else made.reshape(x.max(axes).shape))


def _length(arguments: Arguments, attributes: Attributes) -> Array:
    x, dim = np.asarray(arguments[0], np.float64), set_to("dim", "2", arguments, attributes)
    if set_to("p", "1", arguments, attributes, 2) not in (2, "fro"):
        raise ValueError("another norm")
    axes = None if dim is None else tuple(int(each) for each in np.atleast_1d(dim))
    return np.asarray(
        np.sqrt(np.square(x).sum(axes, keepdims=bool(set_to("keepdim", "3", arguments, attributes, False))))
    )


def _triangle(function: Callable[..., Any]) -> Callable[[Arguments, Attributes], Array]:
    return lambda arguments, attributes: np.asarray(
        function(np.asarray(arguments[0]), int(set_to("diagonal", "1", arguments, attributes, 0)))
    )


def _band(arguments: Arguments, attributes: Attributes) -> Array:
    """The diagonal with so many below and above it; below 0 is all of them."""
    x, (below, above) = np.asarray(arguments[0]), (int(np.asarray(each)) for each in arguments[1:3])
    places = np.arange(x.shape[-1])[None, :] - np.arange(x.shape[-2])[:, None]
    return np.where(((below < 0) | (places >= -below)) & ((above < 0) | (places <= above)), x, 0)


def _lerp(arguments: Arguments, attributes: Attributes) -> Array:
    start, end, weight = (np.asarray(each) for each in arguments[:3])
    return np.asarray(start + weight * (end - start))


def _truth(function: Callable[..., Any]) -> Callable[[Arguments, Attributes], Array]:
    return lambda arguments, attributes: np.asarray(function(*(np.asarray(each) for each in arguments[:2])))


# A rule may leave out what few ops have, as one_hot its axis: an op is computed from other inputs only where this gives
# its recorded output from its recorded inputs.
MORE: dict[str, Callable[[Arguments, Attributes], Array]] = {
    **WINDOWS,
    **dict.fromkeys(("concatv2", "concat", "cat"), _concat),
    **dict.fromkeys(("pack", "stack"), _stack),
    **dict.fromkeys(("select", "selectv2", "where"), _where),
    "lerp": _lerp,
    **dict.fromkeys(("clipbyvalue", "clamp", "clip", "hardtanh"), _clip),
    **INDEXING,
    **dict.fromkeys(("fusedbatchnorm", "fusedbatchnormv2", "fusedbatchnormv3"), _fused_batch_norm),
    **dict.fromkeys(("cast", "long", "float", "double", "to", "type_as", "int", "bool", "stopgradient"), _same),
    **dict.fromkeys(("logicaland", "and", "logical_and"), _truth(np.logical_and)),
    **dict.fromkeys(("logicalor", "or", "logical_or"), _truth(np.logical_or)),
    **dict.fromkeys(("logicalnot", "invert", "logical_not"), _truth(np.logical_not)),
    **dict.fromkeys(("greater", "gt"), _truth(np.greater)),
    **dict.fromkeys(("greaterequal", "ge"), _truth(np.greater_equal)),
    **dict.fromkeys(("less", "lt"), _truth(np.less)),
    **dict.fromkeys(("lessequal", "le"), _truth(np.less_equal)),
    **dict.fromkeys(("equal", "eq"), _truth(np.equal)),
    **dict.fromkeys(("notequal", "ne"), _truth(np.not_equal)),
    **dict.fromkeys(("addn", "accumulatenv2"), _sum_of_all),
    **dict.fromkeys(("norm", "linalg_vector_norm", "linalg_norm"), _length),
    "l2loss": _half_square,
    "cumsum": _cumulative,
    "logsumexp": _log_sum_exp,
    "tril": _triangle(np.tril),
    "triu": _triangle(np.triu),
    "matrixbandpart": _band,
    "masked_fill": _masked_fill,
    "scores": _scores,
    "masked scores": _masked_scores,
    "scaled_dot_product_attention": _attended,
    "linear without bias": _linear,
    "linear": _linear,
    "layer_norm": _layer_norm,
    "batch_norm": _batch_norm,
    **LOSS_FUNCTIONS,
    "stridedslice": _strided_slice,
    "spacetodepth": _to_depth,
    "depthtospace": _to_space,
    "einsum": _einsum,
    "tile": _tile,
}  # fmt: skip


# Names in lower case, without underscores at the ends: of graphs first, then of torch.
ALIASES = {
    "addv2": "add", "biasadd": "add", "radd": "add", "iadd": "add", "rmul": "mul", "multiply": "mul", "imul": "mul",
    "realdiv": "div", "truediv": "div", "divide": "div", "itruediv": "div", "rtruediv": "rdiv", "rdiv": "rdiv",
    "subtract": "sub", "isub": "sub", "maximum": "maximum", "minimum": "minimum", "negative": "neg",
    "batchmatmul": "matmul", "batchmatmulv2": "matmul", "bmm": "matmul", "mm": "matmul", "rsub": "rsub",
    "amax": "max", "amin": "min", "absolute": "abs", "leakyrelu": "leaky_relu", "logsoftmax": "log_softmax",
    "logsigmoid": "log_sigmoid",
}  # fmt: skip
UNARY: dict[str, Callable[[Array], Array]] = {
    "relu": FUNCTIONS["ReLU"],
    "relu6": FUNCTIONS["ReLU6"],
    "sigmoid": FUNCTIONS["sigmoid"],
    "tanh": FUNCTIONS["tanh"],
    "softplus": FUNCTIONS["softplus"],
    "elu": FUNCTIONS["ELU"],
    "silu": FUNCTIONS["SiLU"],
    "selu": FUNCTIONS["SELU"],
    "mish": FUNCTIONS["Mish"],
    "hardswish": FUNCTIONS["hard swish"],
    "hardsigmoid": FUNCTIONS["hard sigmoid"],
    "exp": np.exp,
    "log": np.log,
    "log1p": np.log1p,
    "expm1": np.expm1,
    "neg": np.negative,
    "abs": np.abs,
    "square": np.square,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "sign": np.sign,
    "sin": np.sin,
    "cos": np.cos,
    "softsign": lambda x: x / (1 + abs(x)),
    "log_sigmoid": lambda x: -np.logaddexp(0.0, -x),
    "erf": lambda x: np.asarray(np.vectorize(math.erf)(x)),
}
BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "rsub": lambda x, y: y - x,
    "mul": np.multiply,
    "div": np.divide,
    "rdiv": lambda x, y: y / x,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "pow": np.power,
    "squareddifference": lambda x, y: (x - y) ** 2,
    "matmul": np.matmul,
}
REDUCTIONS: dict[str, Callable[..., Array]] = {
    "sum": np.sum,
    "mean": np.mean,
    "max": np.max,
    "min": np.min,
    "prod": np.prod,
}


def plain(kind: str) -> str:
    """Returns the name of an op or function that both sides share, e.g. "add" of "AddV2", "BiasAdd" and "__radd__"."""
    name = kind.lower().strip("_")
    return ALIASES.get(name, name)


def computed(kind: str, arguments: Sequence[Any], attributes: Mapping[str, Any]) -> Array | None:
    """Returns what an op gives in float64, None where it is not in the table or cannot be called so.

    Args:
      kind: of the op or function, as in a `ForwardOp`.
      arguments: what it takes by position: arrays and numbers; of a reduction the axes behind the array.
      attributes: by name.
    """
    name = plain(kind)
    # The pass was recorded in float64 where it can be: all is computed so, integers and masks too.
    given = [
        np.asarray(each, np.float64)
        for each in arguments[:2]
        if not isinstance(each, list) and np.asarray(each).dtype.kind in "fiub"
    ]
    try:
        with np.errstate(all="ignore"):
            if name in UNARY and len(given) == 1:
                return np.asarray(UNARY[name](given[0]))
            if name in BINARY and len(given) == 2 and attributes.get("alpha", 1) == 1:
                # MatMul has transpose_a and transpose_b, BatchMatMul adj_x and adj_y; torch's have neither.
                turned = [_turned(each, attributes, which) for each, which in zip(given, "ab", strict=True)]
                return np.asarray(BINARY[name](*(turned if name == "matmul" else given)))
            if name in ("max", "min") and len(given) == 2 and np.asarray(arguments[1]).dtype.kind == "f":
                return np.asarray(BINARY[f"{name}imum"](*given))  # torch's of two tensors
            if name in REDUCTIONS and given:
                return _reduced(name, given[0], axes_of(arguments, attributes), attributes)
            if name == "gelu" and given:
                return np.asarray(
                    FUNCTIONS["GELU (tanh)" if attributes.get("approximate") == "tanh" else "GELU"](given[0])
                )
            if name == "leaky_relu" and given:
                slope = attributes.get("alpha", attributes.get("negative_slope", attributes.get("1", 0.01)))
                return np.where(given[0] > 0, given[0], slope * given[0])
            if name in ("softmax", "log_softmax") and given:
                axes = axes_of(arguments, attributes) or (-1,)
                return softmax(given[0], axes) if name == "softmax" else log_softmax(given[0], axes)
            if name in MORE:
                return np.asarray(MORE[name](arguments, attributes))
    # An op that is called in a way unknown here, or takes what fits nothing, as fewer channels than its kernel reads, is not
    # computed, and nothing is said of it: no reason to lose the rest.
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError):
        return None
    return None


def axes_of(arguments: Sequence[Any], attributes: Mapping[str, Any]) -> tuple[int, ...] | None:
    """Returns the axes that an op reduces, None where it names none."""
    named = next((attributes[name] for name in ("dim", "axis") if name in attributes), None)
    given = named if named is not None else arguments[1] if len(arguments) > 1 else None
    if given is None or np.asarray(given).dtype.kind not in "iu":
        return None
    return tuple(int(each) for each in np.asarray(given).reshape(-1))


def _reduced(name: str, x: Array, axes: tuple[int, ...] | None, attributes: Mapping[str, Any]) -> Array:
    keeps = bool(attributes.get("keep_dims", attributes.get("keepdim", False)))
    return np.asarray(REDUCTIONS[name](x, axis=axes, keepdims=keeps))


def _turned(x: Array, attributes: Mapping[str, Any], which: str) -> Array:
    keys = (f"transpose_{which}", f"adj_{'xy'['ab'.index(which)]}")
    return x.swapaxes(-1, -2) if any(attributes.get(key) for key in keys) else x
