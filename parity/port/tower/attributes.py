"""Reads the attributes of a node, as protobuf's JSON form has them, as Python values."""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import numpy as np

from parity.port.errors import PortError
from parity.trace.arrays import Array

DTYPES = {
    "DT_FLOAT": "float32",
    "DT_DOUBLE": "float64",
    "DT_HALF": "float16",
    # numpy has no bfloat16; every one of its numbers is a float32.
    "DT_BFLOAT16": "float32",
    "DT_INT8": "int8",
    "DT_UINT8": "uint8",
    "DT_INT16": "int16",
    "DT_UINT16": "uint16",
    "DT_INT32": "int32",
    "DT_INT64": "int64",
    "DT_BOOL": "bool",
}
# A constant of 64 MB: protobuf ends at 2 GB, and what is larger than this belongs into a variable.
LARGEST_ARRAY = 1 << 24
_LISTED = ("float_val", "double_val", "int_val", "int64_val", "bool_val", "half_val")


def attributes_of(node: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the attributes of a node, each as a bool, int, float, str, dtype name, shape, list of these, or array.

    What has another form is left out: functions, handles.
    """
    found = {}
    for name, kept in node.get("attr", {}).items():
        value = _value(kept, str(node.get("name")))
        if value is not None:
            found[name] = value
    return found


def _value(kept: Mapping[str, Any], who: str) -> Any:
    if "list" in kept:
        return [_scalar(kind, each) for kind, listed in kept["list"].items() for each in listed]
    if "tensor" in kept:
        return array_of(kept["tensor"], who)
    for kind, value in kept.items():
        return _scalar(kind, value)
    return None


def _scalar(kind: str, value: Any) -> Any:
    if kind == "i":
        return int(value)
    if kind == "f":
        return float(value)
    if kind == "b":
        return bool(value)
    if kind == "s":
        return base64.b64decode(value).decode("utf-8", "replace")
    if kind == "type":
        return dtype_of(value)
    if kind == "shape":
        return shape_of(value)
    return None


def dtype_of(name: str) -> str:
    """Returns the numpy name of a type of TensorFlow's, "" where there is none: a resource, a variant, a string."""
    return DTYPES.get(str(name).removesuffix("_REF"), "")


def shape_of(kept: Mapping[str, Any]) -> tuple[int, ...] | None:
    """Returns a static shape, -1 for a length that is not known; None for an unknown rank."""
    if kept.get("unknown_rank"):
        return None
    return tuple(int(each.get("size", 0)) for each in kept.get("dim", []))


def array_of(kept: Mapping[str, Any], who: str) -> Array | None:
    """Returns the array of a constant; None of a type that is no number.

    Args:
      kept: a TensorProto.
      who: name of the op, for errors.

    Raises:
      PortError: it is not as long as its shape says.
    """
    dtype, shape = dtype_of(str(kept.get("dtype"))), shape_of(kept.get("tensor_shape", {})) or ()
    if not dtype:
        return None
    # In floating point: the product of hostile lengths would wrap around to a small integer.
    size = int(np.prod(shape, dtype=float))
    if min(shape, default=0) < 0 or size > LARGEST_ARRAY:
        raise PortError(f"port: expected a constant of at most {LARGEST_ARRAY} elements for {who}, got {shape}.")
    try:
        if "tensor_content" in kept:
            raw = base64.b64decode(kept["tensor_content"], validate=True)
            values = np.frombuffer(raw, np.dtype(dtype).newbyteorder("<"))
        else:
            listed: Any = next((kept[name] for name in _LISTED if name in kept), [])
            values = _typed(listed, dtype, "half_val" in kept)
        return _filled(values, size).reshape(shape).astype(dtype)
    except (binascii.Error, ValueError, TypeError, OverflowError) as error:
        raise PortError(
            f"port: expected {size} numbers of {dtype} for {who}, got {error}. Record the script again."
        ) from error


def _typed(listed: Any, dtype: str, halves: bool) -> Array:
    if halves:  # given by their bits
        return np.array([int(each) for each in listed], np.uint16).view(np.float16)
    # protobuf's JSON form writes "NaN" and "Infinity" as strings, and integers of 64 bits too.
    return np.array([float(each) if isinstance(each, str) and "int" not in dtype else each for each in listed]).astype(
        dtype
    )


def _filled(values: Array, size: int) -> Array:
    """TensorFlow leaves out what repeats at the end, and everything where it is zero."""
    if len(values) > size:
        raise ValueError(f"{len(values)} of them")
    if len(values) < size:
        last = values[-1:] if len(values) else np.zeros(1, values.dtype)
        values = np.concatenate([values, np.repeat(last, size - len(values))])
    return values
