"""The header of a safetensors file: which tensors it holds, of which dtype and shape, and where their bytes lie.

The format is eight bytes (the header's length, little endian), a JSON header and the raw buffers in order, so that a
legacy interpreter needs nothing installed to write it.

Source: the format as published at https://github.com/huggingface/safetensors (README, "Format").
"""

import json
import struct
from typing import Any, Callable, List, NoReturn, Tuple, Union

import numpy as np

from parity.trace.errors import TraceError

Buffer = Union[bytes, memoryview]
Entry = Tuple[str, str, Tuple[int, ...], int, int]

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


def read_header(prefix: Buffer, read: Callable[[int], Buffer], size: int, source: str) -> Tuple[List[Entry], int]:
    """Reads and checks a header: every length in it is held against the file's.

    Args:
      prefix: the first eight bytes, or fewer where there are no more.
      read: returns so many bytes that follow them.
      size: of the whole file, in bytes.
      source: names the file in errors.

    Returns:
      For each tensor in order its name, dtype, shape, and where its bytes begin and end; and where the first begin.

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
        header = json.loads(bytes(read(length)).decode("utf-8"))
    except ValueError as error:
        refuse(f"a header that is not JSON ({error})")
    if not isinstance(header, dict):
        refuse("a header that is not an object")
    entries: List[Entry] = []
    position = 0
    for name, entry in sorted(header.items(), key=_begin_of):
        if name == "__metadata__":
            continue
        if not _is_entry(entry):
            refuse(f"no dtype, shape and offsets for {name!r}")
        begin, end = entry["data_offsets"]
        count = 1
        for extent in entry["shape"]:
            count *= extent
        if begin != position or end - begin != count * _SIZE_OF[entry["dtype"]]:
            refuse(f"offsets {begin}..{end} for {name!r}, which do not fit its shape or its neighbours")
        position = end
        entries.append((name, entry["dtype"], tuple(entry["shape"]), begin, end))
    if 8 + length + position != size:
        refuse(f"{size} bytes where its header speaks of {8 + length + position}")
    return entries, 8 + length


def _begin_of(item: Tuple[str, Any]) -> Tuple[int, ...]:
    try:
        return tuple(item[1]["data_offsets"])
    except (KeyError, TypeError):
        return ()


def _is_entry(entry: Any) -> bool:
    if not isinstance(entry, dict) or entry.get("dtype") not in NUMPY_OF:
        return False
    shape, offsets = entry.get("shape"), entry.get("data_offsets")
    if not isinstance(shape, list) or not isinstance(offsets, list) or len(offsets) != 2:
        return False
    return all(type(extent) is int and extent >= 0 for extent in shape + offsets)
