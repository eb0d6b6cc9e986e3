"""Reads and writes named tensors in the safetensors format with numpy alone (Python 3.7 and up)."""

import json
import mmap
import os
import struct
import sys
import uuid
from collections import OrderedDict
from typing import Any, Callable, Dict, List, Mapping, NoReturn, Optional, Tuple, Union

import numpy as np

from parity.trace.arrays import Array
from parity.trace.bounded import MOST_BYTES_OF_TENSORS, parse_json, size_of
from parity.trace.checksum import CHECKSUM_KEY, UNSET, Buffer, Following, Part, check_file, with_checksum
from parity.trace.description import MOST_AXES
from parity.trace.errors import TraceError
from parity.trace.keys import Quantity, TensorKey, parse_key, quantity_of

# The layout of a file, byte by byte; a legacy interpreter needs nothing installed to write it:
#
#   0 .. 8       length n of the header, uint64, little endian
#   8 .. 8 + n   JSON, filled up with blanks: name to dtype, shape and data_offsets [begin, end) behind byte 8 + n
#   8 + n ..     the raw values, little endian, in C order, one tensor behind the other without a gap
#
# Source: the format as published at https://github.com/huggingface/safetensors (README, "Format").

Entry = Tuple[str, Tuple[int, ...], int, int]

# What the format's own library refuses to read; a trace of 100,000 tensors has a header of some 10 MB.
MAX_HEADER_BYTES = 100_000_000
METADATA = "__metadata__"

NUMPY_OF = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",  # numpy has no bfloat16: its words, the upper halves of float32's
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

    # In this order: each check makes the next one safe. Nothing is allocated by a length that the file does not have.
    if len(prefix) < 8:
        refuse(f"{size} bytes")
    (length,) = struct.unpack("<Q", prefix)
    if length > min(MAX_HEADER_BYTES, size - 8):
        refuse(f"a header of {length} bytes in a file of {size}")
    try:
        header = parse_json(bytes(read(length)), object_pairs_hook=_Entries())
    except ValueError as error:
        refuse(f"a header that is not JSON ({error})")
    if not isinstance(header, dict):
        refuse("a header that is not an object")
    header.pop(METADATA, None)  # texts of whoever wrote the file; of no tensor
    for name, entry in header.items():
        if not isinstance(entry, tuple):
            refuse(f"no dtype, shape and offsets for {name!r}")
    # Of the names each is kept once: the files of both sides have the same ones.
    entries: Dict[str, Entry] = {sys.intern(name): entry for name, entry in sorted(header.items(), key=_begin_of)}
    # Invariant: bytes 0 .. position behind the header belong to exactly one tensor each. So no tensor reaches into
    # another, and in the end none is missing and no byte is anybody's: a file cut short or grown shows here.
    position = 0
    sizes: Dict[Tuple[str, Tuple[int, ...]], int] = {}
    for name, (dtype, shape, begin, end) in entries.items():
        room = sizes.get((dtype, shape))
        if room is None:
            room = sizes[dtype, shape] = _bytes_of(dtype, shape)
        if room < 0:
            refuse(f"a shape for {name!r} that no array can have")
        if begin != position or end - begin != room:
            refuse(f"offsets {begin}..{end} for {name!r}, which do not fit its shape or its neighbours")
        position = end
    if 8 + length + position != size:
        refuse(f"{size} bytes where its header speaks of {8 + length + position}")
    return entries, 8 + length


def _bytes_of(dtype: str, shape: Tuple[int, ...]) -> int:
    """Returns how many bytes an array takes, -1 where none can have its shape."""
    if len(shape) > MOST_AXES:  # before their product is computed, of numbers that may be anything
        return -1
    count = capacity = 1
    for extent in shape:
        count, capacity = count * extent, capacity * max(extent, 1)
    # Nothing in the file bounds the axes of a tensor without elements; numpy counts their product without the zeros.
    return count * _SIZE_OF[dtype] if capacity * _SIZE_OF[dtype] <= sys.maxsize else -1


def _begin_of(item: Tuple[str, Entry]) -> Tuple[int, int]:
    return item[1][2:]


class _Entries(object):
    """Makes a tuple of each entry as it is read: of 100,000 tensors the dicts alone would take 60 MB."""

    def __init__(self) -> None:
        # Of 100,000 tensors most have one of a few dtypes and shapes: each is kept once.
        self._known: Dict[Any, Any] = {}

    def __call__(self, pairs: List[Tuple[str, Any]]) -> Any:
        if len(pairs) != 3:
            return dict(pairs)
        found = dict(pairs)
        dtype, shape, offsets = found.get("dtype"), found.get("shape"), found.get("data_offsets")
        if not isinstance(dtype, str) or dtype not in NUMPY_OF:
            return found
        if not isinstance(shape, list) or not isinstance(offsets, list) or len(offsets) != 2:
            return found
        for extent in shape + offsets:
            if type(extent) is not int or extent < 0:  # not isinstance: true is an int to Python, and no extent
                return found
        extents = tuple(shape)
        known = self._known
        return known.setdefault(dtype, dtype), known.setdefault(extents, extents), offsets[0], offsets[1]


Path = Union[str, "os.PathLike[str]"]
_NAME_OF = {np.dtype(numpy_name): name for name, numpy_name in NUMPY_OF.items() if name != "BF16"}


class BFloat16(object):
    """Marks raw 16-bit words as bfloat16, which numpy has no dtype for.

    Args:
      words: uint16 array of any shape, the upper halves of the float32 words.
    """

    def __init__(self, words: Any) -> None:
        self.words = np.asarray(words, dtype=np.uint16)


def encode(tensors: Mapping[str, Any], metadata: Optional[Mapping[str, str]] = None) -> List[Buffer]:
    """Encodes named arrays as the bytes of a safetensors file.

    Args:
      tensors: dict of name to array (bool, integer or float of any shape), or to `BFloat16`.
      metadata: texts of no tensor, the first entry of the header.

    Returns:
      A list of buffers (bytes or memoryviews) to be written one after the other.

    Raises:
      TraceError: an array has a dtype that the format does not know (object, string, complex).
    """
    header: Dict[str, Any] = {METADATA: dict(metadata)} if metadata else {}
    buffers: List[Buffer] = []
    offset = 0
    for name in tensors:
        dtype, array = _as_stored(name, tensors[name])
        end = offset + array.nbytes
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [offset, end]}
        # The array's own memory, no copy: a step may be as large as what the process has left.
        buffers.append(array.ravel().view(np.uint8).data)
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 8)  # so that the values begin at a multiple of 8, aligned for every dtype
    return [struct.pack("<Q", len(text)), text, *buffers]


def write_tensors(path: Path, tensors: Mapping[str, Any]) -> None:
    """Writes named arrays to `path`, which appears whole or not at all, with its checksum.

    Args:
      path: the file to make; its folder exists.
      tensors: dict of name to array (bool, integer or float of any shape), or to `BFloat16`.

    Raises:
      TraceError: an array has a dtype that the format does not know (object, string, complex).
    """
    prefix, header, *values = encode(tensors, {CHECKSUM_KEY: UNSET})
    _write_whole(path, [bytes(prefix) + bytes(header), *values])


def write_json(path: Path, value: Any) -> None:
    """Writes `value` as JSON to `path`, which appears whole or not at all; an object with its checksum, for `read_json`."""
    value = dict(value, **{CHECKSUM_KEY: UNSET}) if isinstance(value, dict) else value
    text = json.dumps(value, indent=1, sort_keys=True, allow_nan=False)
    _write_whole(path, [text.encode("utf-8"), b"\n"])


def _as_stored(name: str, value: Any) -> Tuple[str, Array]:
    if isinstance(value, BFloat16):
        # ascontiguousarray makes one axis of none; the reshape takes it back.
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
    # In the same folder, for a rename is atomic within one file system only; unique, for two writers may meet here.
    partial = f"{path}.{uuid.uuid4().hex}.part"
    try:
        with open(partial, "wb") as file:
            for buffer in with_checksum(buffers):
                file.write(buffer)
        os.replace(partial, path)
    except BaseException:  # a KeyboardInterrupt too leaves no half of a large file
        if os.path.exists(partial):
            os.remove(partial)
        raise


# Bytes from which a tensor is mapped by itself, so that its memory goes with it and not with the whole file. Smaller
# ones share one map: a map each would be a system call and a page at least, 4 kB, for a bias of 40 bytes.
LEAST_BYTES_ALONE = 1 << 20
# Tensors whose place a `Headers` keeps: 100,000 of them take 25 MB (tracemalloc, names of 35 characters), most of which an
# open file has anyway. One step of so many and the state before it, which are both read several times.
MOST_KEPT = 1 << 18

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


def decode(data: Buffer, source: str = "bytes") -> Dict[str, Array]:
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


class Headers(object):
    """Keeps what the headers of files say that are opened again and again: files appear whole and stay as they are.

    Args:
      most: tensors of all files together; of the files that were opened longest ago nothing is kept then.
    """

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._most = most
        self._tensors = 0
        self._kept: "OrderedDict[Tuple[Any, ...], Tuple[Dict[str, Entry], int]]" = OrderedDict()

    def read(self, path: str) -> Tuple[Dict[str, Entry], int]:
        """Returns what `read_header` does of a file, which is read once as long as it is the same."""
        found = os.stat(path)
        # A file that is written anew appears by rename, so it is another inode.
        key = path, found.st_ino, found.st_size, found.st_mtime_ns
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        header = _header_of(path)
        self._kept[key] = header
        self._tensors += len(header[0])
        while self._tensors > self._most:
            self._tensors -= len(self._kept.popitem(last=False)[1][0])
        return header


class TensorFile(object):
    """Reads a safetensors file lazily: the header now, a tensor's bytes when it is asked for.

    Args:
      path: an existing safetensors file. Nothing in it is executed, and every length in it is checked.
      headers: keeps its header for the next time.
      following: checks it while it is read; by default it is checked first.

    Raises:
      TraceError: the file is missing, cut short, or not a safetensors file.
      DamagedError: it has a checksum, and is not what was written.
    """

    _following: Optional[Following] = None  # of what is read from memory or made again nothing is checked

    def __init__(
        self,
        path: "Union[str, os.PathLike[str]]",
        headers: Optional[Headers] = None,
        following: Optional[Following] = None,
    ) -> None:
        self.path = str(path)
        self._following = following
        try:
            # Before anything is read of it, the header too: its lengths and names may be what is damaged.
            size_of(self.path, MOST_BYTES_OF_TENSORS)
            if following is None:
                check_file(self.path)
            self._entries, self._start = headers.read(self.path) if headers else _header_of(self.path)
        except OSError as error:
            raise TraceError(
                f"trace: expected the file {self.path}, got {error.strerror}. Record the trace again."
            ) from error
        self._map: Optional[Array] = None

    def names(self, *quantities: Quantity) -> List[str]:
        """Returns the tensors' names in the order of writing: all of them, or those of some quantities in any section."""
        if not quantities:
            return list(self._entries)
        return [name for name in self._entries if quantity_of(name) in quantities]

    def keys(self, *quantities: Quantity) -> List[TensorKey]:
        """Returns the tensors' keys in the order of writing: all of them, or those of some quantities in any section."""
        return [parse_key(name) for name in self.names(*quantities)]

    def __contains__(self, name: object) -> bool:
        return (name if isinstance(name, str) else str(name)) in self._entries

    def _entry(self, name: Union[str, TensorKey]) -> Entry:
        entry = self._entries.get(str(name))
        if entry is None:  # other files of the trace, or what it says of itself, have led whoever asks to expect it
            raise TraceError(f"trace: expected {str(name)[:80]!r} in {self.path}, got no such tensor. Record it again.")
        return entry

    def shape(self, name: Union[str, TensorKey]) -> Tuple[int, ...]:
        """Returns a tensor's shape as a tuple."""
        return self._entry(name)[1]

    def dtype(self, name: Union[str, TensorKey]) -> str:
        """Returns a tensor's logical dtype: "float64", "float32", "bfloat16", "int64", "bool", ..."""
        return _LOGICAL_OF[self._entry(name)[0]]

    def read(self, name: Union[str, TensorKey]) -> Array:
        """Returns one tensor as a read-only array over the mapped file; bfloat16 comes as float32."""
        dtype, shape, begin, end = self._entry(name)
        # begin and end count from the end of the header; `_start`, 8 + n, is where that is in the file.
        if end - begin >= LEAST_BYTES_ALONE:
            flat = _mapped(self.path, self._start + begin, end - begin)
            if self._following is not None:
                self._following.take(flat, self._start + begin)
            return _array(flat, dtype, shape)
        if self._map is None:
            # A plain view: every slice of a memmap would carry the file's name and mode along.
            self._map = np.asarray(np.memmap(self.path, dtype=np.uint8, mode="r"))
        return _array(self._map[self._start + begin : self._start + end], dtype, shape)

    def part_of(self, array: Array) -> Optional[Part]:
        """Returns what checks an array while it is read, in the order of its memory.

        Args:
          array: as `read` has returned it last, or a view of it.

        Returns:
          What wants to hear how many of its bytes were read; None where nothing does: the array is no tensor of this file as
          it lies there, or the file was checked before.
        """
        return self._following.part_of(array) if self._following is not None else None


def _mapped(path: str, begin: int, size: int) -> Array:
    """Returns bytes of a file as a read-only view, (size,) uint8; `numpy.memmap` takes several times as long for it."""
    before = begin % mmap.ALLOCATIONGRANULARITY
    file = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    try:
        mapped = mmap.mmap(file, before + size, access=mmap.ACCESS_READ, offset=begin - before)
    finally:
        os.close(file)
    return np.frombuffer(mapped, np.uint8, offset=before)


def _header_of(path: str) -> Tuple[Dict[str, Entry], int]:
    size = size_of(path, MOST_BYTES_OF_TENSORS)
    with open(path, "rb") as file:
        return read_header(file.read(8), file.read, size, path)


def _array(flat: Array, dtype: str, shape: Tuple[int, ...]) -> Array:
    # flat: (bytes,) uint8. `begin` may be no multiple of the item's size in others' files: numpy reads that too.
    array = flat.view(NUMPY_OF[dtype]).reshape(shape)
    if dtype == "BF16":  # the lower half of a float32 that a bfloat16 is widened to is zero, so nothing is rounded
        array = (array.astype(np.uint32) << 16).view(np.float32)
    return array
