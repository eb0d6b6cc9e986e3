"""Ops of graphs and functions of torch as functions of arrays, by name: what either side computes, on any inputs."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from parity.causes.functions import FUNCTIONS, log_softmax, softmax
from parity.causes.more_ops import MORE
from parity.judge.metrics import Array

# Names in lower case, without underscores at the ends: of graphs first, then of torch.
ALIASES = {
    "addv2": "add", "biasadd": "add", "radd": "add", "iadd": "add", "rmul": "mul", "multiply": "mul", "imul": "mul",
    "realdiv": "div", "truediv": "div", "divide": "div", "itruediv": "div", "rtruediv": "rdiv", "rdiv": "rdiv",
    "subtract": "sub", "isub": "sub", "maximum": "maximum", "minimum": "minimum", "negative": "neg",
    "batchmatmul": "matmul", "batchmatmulv2": "matmul", "bmm": "matmul", "mm": "matmul", "rsub": "rsub",
    "amax": "max", "amin": "min", "absolute": "abs", "leakyrelu": "leaky_relu", "logsoftmax": "log_softmax",
}  # fmt: skip
UNARY: dict[str, Callable[[Array], Array]] = {
    "relu": FUNCTIONS["ReLU"],
    "relu6": FUNCTIONS["ReLU6"],
    "sigmoid": FUNCTIONS["sigmoid"],
    "tanh": FUNCTIONS["tanh"],
    "softplus": FUNCTIONS["softplus"],
    "elu": FUNCTIONS["ELU"],
    "silu": FUNCTIONS["SiLU"],
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
    except (ValueError, TypeError, LookupError, AttributeError):
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
