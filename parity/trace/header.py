"""The header of a safetensors file: which tensors it holds, of which dtype and shape, and where their bytes lie.

The format is eight bytes (the header's length, little endian), a JSON header and the raw buffers in order, so that a
legacy interpreter needs nothing installed to write it.

Source: the format as published at https://github.com/huggingface/safetensors (README, "Format").
"""

import json
import struct
from typing import Any, Callable, Dict, NoReturn, Tuple, Union

import numpy as np

from parity.trace.errors import TraceError

Buffer = Union[bytes, memoryview]
Entry = Tuple[str, Tuple[int, ...], int, int]

MAX_HEADER_BYTES = 100_000_000

NUMPY_OF = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "u1",
    "BOOL": "?",
}
_SIZE_OF = {name: np.dtype(numpy_name).itemsize for name, numpy_name in NUMPY_OF.items()}


def read_header(prefix: Buffer, read: Callable[[int], Buffer], size: int, source: str) -> Tuple[Dict[str, Entry], int]:
    """Reads and checks a header: every length in it is held against the file's.

    Args:
      prefix: the first eight bytes, or fewer where there are no more.
      read: returns so many bytes that follow them.
      size: of the whole file, in bytes.
      source: names the file in errors.

    Returns:
      dict of each tensor's name, in order, to its dtype, shape, and where its bytes begin and end behind the header; and
      where the header ends.

    Raises:
      TraceError: it is not the header of a whole safetensors file of that size.
    """

    def refuse(why: str) -> NoReturn:
        raise TraceError(
            f"trace: expected {source} to be a whole safetensors file, "
            f"got {why}. It may have been cut short; record it again."
        )

    if len(prefix) < 8:
        refuse(f"{size} bytes")
    (length,) = struct.unpack("<Q", prefix)
    if length > min(MAX_HEADER_BYTES, size - 8):
        refuse(f"a header of {length} bytes in a file of {size}")
    try:
        header = json.loads(bytes(read(length)).decode("utf-8"), object_hook=_Entries())
    except (ValueError, RecursionError) as error:
        refuse(f"a header that is not JSON ({error})")
    if not isinstance(header, dict):
        refuse("a header that is not an object")
    header.pop("__metadata__", None)
    for name, entry in header.items():
        if not isinstance(entry, tuple):
            refuse(f"no dtype, shape and offsets for {name!r}")
    entries: Dict[str, Entry] = dict(sorted(header.items(), key=_begin_of))
    position = 0
    for name, (dtype, shape, begin, end) in entries.items():
        count = 1
        for extent in shape:
            count *= extent
        if begin != position or end - begin != count * _SIZE_OF[dtype]:
            refuse(f"offsets {begin}..{end} for {name!r}, which do not fit its shape or its neighbours")
        position = end
    if 8 + length + position != size:
        refuse(f"{size} bytes where its header speaks of {8 + length + position}")
    return entries, 8 + length


def _begin_of(item: Tuple[str, Entry]) -> Tuple[int, int]:
    return item[1][2:]


class _Entries(object):
    """Makes a tuple of each entry as it is read: of 100,000 tensors the dicts alone would take 60 MB."""

    def __init__(self) -> None:
        self._known: Dict[Any, Any] = {}

    def __call__(self, found: Dict[str, Any]) -> Any:
        dtype, shape, offsets = found.get("dtype"), found.get("shape"), found.get("data_offsets")
        if not isinstance(dtype, str) or dtype not in NUMPY_OF:
            return found
        if not isinstance(shape, list) or not isinstance(offsets, list) or len(offsets) != 2:
            return found
        for extent in shape + offsets:
            if type(extent) is not int or extent < 0:
                return found
        extents = tuple(shape)
        return self._once(dtype), self._once(extents), offsets[0], offsets[1]

    def _once(self, value: Any) -> Any:
        return self._known.setdefault(value, value)
