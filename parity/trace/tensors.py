"""Writes named tensors in the safetensors format with numpy alone (Python 3.7 and up).

Files appear by rename: a reader never sees half a file.
"""

import json
import os
import struct
import uuid
from typing import Any, Dict, List, Mapping, Tuple, Union

import numpy as np

from parity.trace.errors import TraceError
from parity.trace.header import NUMPY_OF, Buffer

Path = Union[str, "os.PathLike[str]"]
_NAME_OF = {np.dtype(numpy_name): name for name, numpy_name in NUMPY_OF.items() if name != "BF16"}


class BFloat16(object):
    """Marks raw 16-bit words as bfloat16, which numpy has no dtype for.

    Args:
      words: uint16 array of any shape, the upper halves of the float32 words.
    """

    def __init__(self, words: Any) -> None:
        self.words = np.asarray(words, dtype=np.uint16)


def encode(tensors: Mapping[str, Any]) -> List[Buffer]:
    """Encodes named arrays as the bytes of a safetensors file.

    Args:
      tensors: dict of name to array (bool, integer or float of any shape), or to `BFloat16`.

    Returns:
      A list of buffers (bytes or memoryviews) to be written one after the other.

    Raises:
      TraceError: an array has a dtype that the format does not know (object, string, complex).
    """
    header: Dict[str, Any] = {}
    buffers: List[Buffer] = []
    offset = 0
    for name in tensors:
        dtype, array = _as_stored(name, tensors[name])
        end = offset + array.nbytes
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [offset, end]}
        buffers.append(array.reshape(-1).view(np.uint8).data if array.nbytes else b"")
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 8)
    return [struct.pack("<Q", len(text)), text, *buffers]


def write_tensors(path: Path, tensors: Mapping[str, Any]) -> None:
    """Writes named arrays to `path`, which appears whole or not at all.

    Args:
      path: the file to make; its folder exists.
      tensors: dict of name to array (bool, integer or float of any shape), or to `BFloat16`.

    Raises:
      TraceError: an array has a dtype that the format does not know (object, string, complex).
    """
    _write_whole(path, encode(tensors))


def write_json(path: Path, value: Any) -> None:
    """Writes `value` as JSON to `path`, which appears whole or not at all."""
    text = json.dumps(value, indent=1, sort_keys=True, allow_nan=False)
    _write_whole(path, [text.encode("utf-8"), b"\n"])


def _as_stored(name: str, value: Any) -> Tuple[str, "np.ndarray[Any, Any]"]:
    if isinstance(value, BFloat16):
        return "BF16", np.ascontiguousarray(value.words).reshape(value.words.shape)
    array = np.asarray(value)
    if array.dtype not in _NAME_OF:
        raise TraceError(
            f"trace: expected {name} as a bool, integer or float array, "
            f"got dtype {array.dtype}. Convert it before recording."
        )
    little = array.dtype.newbyteorder("<")
    return _NAME_OF[array.dtype], np.ascontiguousarray(array, dtype=little).reshape(array.shape)


def _write_whole(path: Path, buffers: List[Buffer]) -> None:
    path = str(path)
    partial = f"{path}.{uuid.uuid4().hex}.part"
    try:
        with open(partial, "wb") as file:
            for buffer in buffers:
                file.write(buffer)
        os.replace(partial, path)
    except BaseException:
        if os.path.exists(partial):
            os.remove(partial)
        raise
