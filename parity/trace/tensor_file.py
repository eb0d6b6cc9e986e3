"""Reads named tensors from the safetensors format with numpy alone (Python 3.7 and up)."""

import os
from typing import Any, Dict, List, Optional, Tuple, Union

import numpy as np

from parity.trace.errors import TraceError
from parity.trace.header import NUMPY_OF, Buffer, read_header

# Bytes from which a tensor is mapped by itself, so that its memory goes with it and not with the whole file.
ALONE = 1 << 20

_LOGICAL_OF = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "BOOL": "bool",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U64": "uint64",
    "U32": "uint32",
    "U16": "uint16",
    "U8": "uint8",
}


def decode(data: Buffer, source: str = "bytes") -> Dict[str, "np.ndarray[Any, Any]"]:
    """Decodes the bytes of a safetensors file into a dict of name to array (copies nothing).

    Raises:
      TraceError: the bytes are not a whole, valid safetensors file.
    """
    view = memoryview(data)
    entries, start = read_header(view[:8], lambda length: view[8 : 8 + length], len(view), source)
    flat = np.frombuffer(view, dtype=np.uint8)
    return {
        name: _array(flat[start + begin : start + end], dtype, shape)
        for name, (dtype, shape, begin, end) in entries.items()
    }


class TensorFile(object):
    """Reads a safetensors file lazily: the header now, a tensor's bytes when it is asked for.

    Args:
      path: an existing safetensors file. Nothing in it is executed, and every length in it is checked.

    Raises:
      TraceError: the file is missing, cut short, or not a safetensors file.
    """

    def __init__(self, path: "Union[str, os.PathLike[str]]") -> None:
        self.path = str(path)
        try:
            size = os.path.getsize(self.path)
            with open(self.path, "rb") as file:
                self._entries, self._start = read_header(file.read(8), file.read, size, self.path)
        except OSError as error:
            raise TraceError(
                f"trace: expected the file {self.path}, got {error.strerror}. Record the trace again."
            ) from error
        self._map: "Optional[np.ndarray[Any, Any]]" = None

    def names(self) -> List[str]:
        """Returns the tensors' names in the order of writing."""
        return list(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def shape(self, name: str) -> Tuple[int, ...]:
        """Returns a tensor's shape as a tuple."""
        return self._entries[name][1]

    def dtype(self, name: str) -> str:
        """Returns a tensor's logical dtype: "float64", "float32", "bfloat16", "int64", "bool", ..."""
        return _LOGICAL_OF[self._entries[name][0]]

    def read(self, name: str) -> "np.ndarray[Any, Any]":
        """Returns one tensor as a read-only array over the mapped file; bfloat16 comes as float32."""
        dtype, shape, begin, end = self._entries[name]
        if end - begin >= ALONE:
            alone = np.memmap(self.path, dtype=np.uint8, mode="r", offset=self._start + begin, shape=(end - begin,))
            return _array(np.asarray(alone), dtype, shape)
        if self._map is None:
            # A plain view: every slice of a memmap would carry the file's name and mode along.
            self._map = np.asarray(np.memmap(self.path, dtype=np.uint8, mode="r"))
        return _array(self._map[self._start + begin : self._start + end], dtype, shape)


def _array(flat: "np.ndarray[Any, Any]", dtype: str, shape: Tuple[int, ...]) -> "np.ndarray[Any, Any]":
    array = flat.view(NUMPY_OF[dtype]).reshape(shape) if flat.size else np.zeros(shape, NUMPY_OF[dtype])
    if dtype == "BF16":
        array = (array.astype(np.uint32) << 16).view(np.float32)
    return array
