"""Writes how a script draws the first values of its variables, from the recorded ops that compute them."""

import json
import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import numpy as np

from parity.mapping import parse_transform
from parity.port.source.code import array, number
from parity.port.source.parameters import Parameters
from parity.port.tower.attributes import attributes_of
from parity.trace import RecordedGraph, trace_name
from parity.trace.arrays import Array
from parity.trace.as_written import as_written

MOST_NUMBERS_WRITTEN = 64  # of first values that are no draws
# Of tensorflow/python/ops/init_ops.py, 1.15: the deviation of a unit normal that is cut at two sigma.
OF_A_CUT_NORMAL = 0.87962566103423978
CLOSE_IN_FLOAT32 = 2.0**-22  # relative: a bound goes through a root and a quotient
# Layouts in which torch counts the inputs and outputs of a weight as TensorFlow counts those of its own.
SAME_FANS = ("transpose", "hwio_to_oihw")
OF_A_FRESH_NORM = {"weight": 1.0, "bias": 0.0, "running_mean": 0.0, "running_var": 1.0}
PASSED_ON = ("Identity", "Cast", "ReadVariableOp")


class Draw(NamedTuple):
    """A random number, times a scale, plus a shift.

    Fields:
      kind: "RandomUniform", "RandomStandardNormal" or "TruncatedNormal"; "" for constants.
      scale: factor of it.
      shift: added to it; of constants the array itself.
    """

    kind: str
    scale: float
    shift: Array


class Initial(NamedTuple):
    """How a module's parameters get their first values.

    Fields:
      statements: of the function `initialize(model)`.
      unknown: parameters of which the recorded ops are no draw that is known, or are not recorded.
    """

    statements: list[str]
    unknown: list[str]


def initial_of(
    graph: RecordedGraph,
    mapping: Mapping[str, tuple[str, str]],
    kinds: Mapping[str, str],
    shapes: Mapping[str, tuple[int, ...]],
    fresh: Mapping[str, float],
    buffers: Collection[str] = (),
    optional: Collection[str] = (),
) -> Initial:
    """Returns the statements that give a model its first values.

    Args:
      graph: of the script.
      mapping: by name of the script's variable, the path of the module's and the transform.
      kinds: by name, "var", "stat" or "state".
      shapes: by name of the script's variable.
      fresh: by path, the number that torch itself fills a parameter with, for those that it does.
      buffers: names of the variables that the module holds as buffers.
      optional: paths of parameters that a layer may be made without, by torch's types.
    """
    # Read as ops and not by the names of initializers, which the graph does not hold.
    draws = _Draws(graph)
    statements, unknown = [], []
    for name, (path, transform) in mapping.items():
        draw = draws.of(graph.initial.get(trace_name(kinds.get(name, "var"), name), ""))
        # What torch fills in by itself needs no line.
        if draw is not None and not draw.kind and draw.shift.size and (draw.shift == fresh.get(path)).all():
            continue
        target = _reached(path, name in buffers, path in optional)
        text = _statement(target, draw, transform, shapes[name]) if draw else None
        if text is None:
            unknown.append(path)
        else:
            statements.append(text)
    return Initial(statements, unknown)


def _reached(path: str, is_buffer: bool, is_optional: bool) -> str:
    """The expression for a parameter of the model; in a Sequential it has a number, which is no attribute.

    Of an attribute that may be None a type checker would ask whether it is.
    """
    if is_optional or any(each.isdigit() for each in path.split(".")):
        return f"model.get_{'buffer' if is_buffer else 'parameter'}({json.dumps(path)})"
    return f"model.{path}"


def optional_parameters(parameters: Parameters) -> list[str]:
    """Returns the paths of parameters that torch's types say may be None: biases of convolutions."""
    found = []
    for name, (path, _) in parameters.mapping().items():
        layer = parameters.layer_of(name)
        if layer is not None and "Conv" in layer.made and path.endswith(".bias"):
            found.append(path)
    return found


def fresh_values(parameters: Parameters) -> dict[str, float]:
    """Returns what torch fills parameters and statistics of a module with, by path, where that is one number."""
    found = {}
    for name, (path, _) in parameters.mapping().items():
        layer, own = parameters.layer_of(name), path.rpartition(".")[2]
        if layer is None:
            found[path] = 0.0
        elif ("BatchNorm" in layer.made or "LayerNorm" in layer.made) and own in OF_A_FRESH_NORM:
            found[path] = OF_A_FRESH_NORM[own]
    return found


class _Draws:
    """Reads what the ops of initial values compute."""

    def __init__(self, graph: RecordedGraph) -> None:
        self._nodes = {str(node["name"]): node for node in graph.initial_nodes}

    def of(self, tensor: str) -> Draw | None:
        """Returns what a tensor holds, None where it is neither constant nor a shifted and scaled draw."""
        node = self._nodes.get(tensor.partition(":")[0])
        if node is None:
            return None
        read = _READERS.get(str(node["op"]))
        return read(self, node) if read else None

    def taken(self, node: Mapping[str, Any]) -> "list[Draw | None]":
        """Returns what an op takes."""
        return [self.of(str(name)) for name in node.get("input", []) if not str(name).startswith("^")]


def _constant(draws: _Draws, node: Mapping[str, Any]) -> Draw | None:
    value = attributes_of(node).get("value")
    return Draw("", 0.0, value) if isinstance(value, np.ndarray) else None


def _fill(draws: _Draws, node: Mapping[str, Any]) -> Draw | None:
    dimensions, value = (*draws.taken(node), None, None)[:2]
    if dimensions is None or value is None or dimensions.kind or value.kind:
        return None
    # One number stands for all: an embedding of zeros may have gigabytes of them.
    return Draw("", 0.0, value.shift)


def _random(draws: _Draws, node: Mapping[str, Any]) -> Draw:
    return Draw(str(node["op"]), 1.0, np.zeros((), np.float32))


def _same(draws: _Draws, node: Mapping[str, Any]) -> Draw | None:
    taken = draws.taken(node)
    return taken[0] if taken else None


def _sum(draws: _Draws, node: Mapping[str, Any]) -> Draw | None:
    taken = draws.taken(node)
    if len(taken) != 2 or taken[0] is None or taken[1] is None or (taken[0].kind and taken[1].kind):
        return None
    draw, constant = taken if taken[0].kind else (taken[1], taken[0])
    assert draw is not None and constant is not None
    return draw._replace(shift=draw.shift + constant.shift)


def _difference(draws: _Draws, node: Mapping[str, Any]) -> Draw | None:
    taken = draws.taken(node)
    if len(taken) != 2 or taken[0] is None or taken[1] is None or taken[1].kind:
        return None
    return taken[0]._replace(shift=taken[0].shift - taken[1].shift)


def _product(draws: _Draws, node: Mapping[str, Any]) -> Draw | None:
    taken = draws.taken(node)
    if len(taken) != 2 or taken[0] is None or taken[1] is None or (taken[0].kind and taken[1].kind):
        return None
    draw, constant = taken if taken[0].kind else (taken[1], taken[0])
    assert draw is not None and constant is not None
    # A draw with another scale for each element is none that an initializer makes.
    if draw.kind and constant.shift.size != 1:
        return None
    factor = constant.shift
    return Draw(draw.kind, draw.scale * float(factor.flat[0]) if draw.kind else 0.0, draw.shift * factor)


def _reshaped(draws: _Draws, node: Mapping[str, Any]) -> Draw | None:
    taken = draws.taken(node)
    if len(taken) != 2 or taken[0] is None or taken[1] is None or taken[1].kind:
        return None
    if taken[0].kind or taken[0].shift.size == 1:
        return taken[0]
    return taken[0]._replace(shift=taken[0].shift.reshape([int(size) for size in taken[1].shift]))


_READERS: dict[str, Callable[[_Draws, Mapping[str, Any]], Draw | None]] = {
    "Const": _constant,
    "Fill": _fill,
    **dict.fromkeys(["RandomUniform", "RandomStandardNormal", "TruncatedNormal"], _random),
    **dict.fromkeys(PASSED_ON, _same),
    **dict.fromkeys(["Add", "AddV2"], _sum),
    "Sub": _difference,
    "Mul": _product,
    "Reshape": _reshaped,
}


def _statement(target: str, draw: Draw, transform: str, shape: tuple[int, ...]) -> str | None:
    """The statement that fills a parameter; None where that is too long to be written."""
    if not draw.kind:
        return _constants(target, draw.shift, transform, shape)
    if draw.shift.size != 1:
        return None
    shift = float(draw.shift.flat[0])
    named = _by_fans(target, draw, shift, transform, shape)
    if named:
        return named
    if draw.kind == "RandomUniform":
        # In float32, as the graph computes it: maxval = minval + range.
        return f"nn.init.uniform_({target}, {_written(shift)}, {_written(np.float32(shift) + np.float32(draw.scale))})"
    mean = f"{_written(shift)}, " if shift else ""
    if draw.kind == "RandomStandardNormal":
        return f"nn.init.normal_({target}, {mean}{'' if mean else 'std='}{_written(draw.scale)})"
    return f"like_tf.truncated_normal_({target}, {mean}{'' if mean else 'std='}{_written(draw.scale)})"


def _by_fans(target: str, draw: Draw, shift: float, transform: str, shape: tuple[int, ...]) -> str:
    """The initializer that makes its bounds of the shape; "" where the numbers are none of such a one's."""
    if transform not in SAME_FANS or len(shape) < 2:
        return ""
    # TensorFlow counts a kernel's window to both fans, and so do like_tf's initializers.
    area = math.prod(shape[:-2])
    fan_in, fan_out = area * shape[-2], area * shape[-1]
    # Variances: of a uniform draw up to b it is b^2 / 3, of a normal one cut at two sigma less by OF_A_CUT_NORMAL
    # squared.
    glorot, he = 2.0 / (fan_in + fan_out), 2.0 / fan_in
    if draw.kind == "RandomUniform" and _close(draw.scale, -2 * shift):
        return f"like_tf.glorot_uniform_({target})" if _close(-shift, math.sqrt(3 * glorot)) else ""
    if draw.kind == "TruncatedNormal" and not shift:
        if _close(draw.scale, math.sqrt(glorot) / OF_A_CUT_NORMAL):
            return f"like_tf.glorot_normal_({target})"
        if _close(draw.scale, math.sqrt(he) / OF_A_CUT_NORMAL):
            return f"like_tf.he_normal_({target})"
    return ""


def _close(one: float, other: float) -> bool:
    return abs(one - other) <= CLOSE_IN_FLOAT32 * abs(other)


def _constants(target: str, value: Array, transform: str, shape: tuple[int, ...]) -> str | None:
    if value.size and (value == value.flat[0]).all():
        single = float(value.flat[0])
        if single in (0.0, 1.0):
            return f"nn.init.{'ones' if single else 'zeros'}_({target})"
        return f"nn.init.constant_({target}, {_written(single)})"
    if value.shape != shape:
        return None
    (laid_out,) = parse_transform(transform).forward(value)
    # Along an axis on which nothing changes one place stands for all.
    for axis in range(laid_out.ndim):
        first = laid_out.take([0], axis)
        if (laid_out == first).all():
            laid_out = first
    if laid_out.size > MOST_NUMBERS_WRITTEN:
        return None
    numbers = array(as_written(laid_out) if laid_out.dtype == np.float32 else laid_out)
    return f"{target}.data.copy_(torch.tensor({numbers}))"


def _written(value: Any) -> str:
    return number(float(as_written(np.float32(value)))).text
