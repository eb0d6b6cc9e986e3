"""Tells a damaged file of a trace: each carries a checksum of itself, which is checked before anything is read of it."""

import contextlib
import mmap
import os
import re
import threading
import zlib
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from io import BufferedReader
from typing import Callable, Dict, List, Optional, Sequence, Tuple, Union

import numpy as np

from parity.trace.arrays import Array
from parity.trace.errors import DamagedError

Buffer = Union[bytes, memoryview]
Identity = Tuple[str, int, int, int]

# The checksum of a file: its bytes with the eight digits of the checksum as "00000000", filled up with zeros to whole
# rows of 509 words of 8 bytes, the rows combined by exclusive or, and of that one row the CRC-32.
#
# A flipped bit is one flipped bit of the row, and CRC-32 sees any error of up to 32 neighbouring bits: no single flip
# goes unseen. CRC-32 of all bytes would read 4 GB/s, where two traces are judged at 8; combining rows reads 18 (numpy
# 2.4, one core). An odd number of words, so that pages of a disk, 512 words, that changed places move within a row.
WORDS_OF_A_ROW = 509
ROW = 8 * WORDS_OF_A_ROW
ROWS_AT_ONCE = 64  # 260 kB: they stay in the cache between being copied and being combined
# Bytes of a file that are mapped and combined at once: whole rows and whole pages. Few and long steps without the
# interpreter's lock: in steps of 260 kB, whoever judges meanwhile and the thread that checks wait for each other's locks.
MAPPED_AT_ONCE = mmap.ALLOCATIONGRANULARITY * ROW  # 16 MB with pages of 4 kB

CHECKSUM_KEY = "__checksum__"  # of a JSON object; of a safetensors file in its "__metadata__"
KIND = "xor-crc32:"
UNSET_DIGITS = "00000000"
UNSET = KIND + UNSET_DIGITS
_SET = re.compile(('"%s": ?"%s([0-9a-f]{8})"' % (CHECKSUM_KEY, KIND)).encode())
# Either of them: a flip leaves the other, so that no file passes for one that was written without a checksum.
_SIGNS = (CHECKSUM_KEY.encode(), KIND.encode())
_UNREADABLE = "(unreadable)"
_BEGINNING = 128  # bytes of a file of tensors, which hold its checksum: it is the first entry of the header

LEAST_AHEAD = 1 << 20  # bytes of a file from which a thread of its own is worth its start, some 0.1 ms
MOST_PENDING = 2  # arrays that wait for another core: those of a pair that is judged, both still in the cache
MOST_CHECKED = 1 << 14  # files of which it is known whether they are whole: with their names some 5 MB


class Checksum(object):
    """Computes the checksum of a file from its bytes, in order."""

    def __init__(self) -> None:
        self._room = np.zeros(ROWS_AT_ONCE * ROW, np.uint8)
        self._view = self._room.data
        self._row = np.zeros(WORDS_OF_A_ROW, np.uint64)
        self._filled = 0

    def update(self, buffer: Buffer) -> None:
        """Takes the next bytes."""
        view = memoryview(buffer)
        while len(view):
            taken = view[: len(self._view) - self._filled]
            self._view[self._filled : self._filled + len(taken)] = taken
            self._fill(len(taken))
            view = view[len(taken) :]

    def map(self, file: BufferedReader, size: int, beginning: bytes) -> None:
        """Takes a whole file, which is mapped and not copied.

        Args:
          file: of which nothing was taken before.
          size: its bytes; at least `beginning`'s.
          beginning: taken in the place of its first bytes.
        """
        for begin in range(0, size, MAPPED_AT_ONCE):
            length = min(MAPPED_AT_ONCE, size - begin)
            with mmap.mmap(file.fileno(), length, access=mmap.ACCESS_READ, offset=begin) as mapped:
                self.combine(np.frombuffer(mapped, np.uint8), begin)
                if not begin:
                    for each in (mapped[: len(beginning)], beginning):
                        self.combine(np.frombuffer(each, np.uint8), 0)

    def combine(self, data: Array, begin: int) -> None:
        """Takes bytes of a file at any place, each of them once, in any order.

        Args:
          data: (bytes,) uint8.
          begin: the place of the first in the file.
        """
        self.add(Part(data, begin).row())

    def add(self, row: Array) -> None:
        """Takes bytes of a file at any place as the row that a `Part` of it is combined to."""
        self._row ^= row

    def digits(self) -> str:
        """Returns the checksum of all bytes taken; no more may follow."""
        self._combine_padded()
        return f"{zlib.crc32(self._row.tobytes()) & 0xFFFFFFFF:08x}"

    def _fill(self, count: int) -> None:
        # Invariant: there is room for at least one more byte.
        self._filled += count
        if self._filled == len(self._view):
            self._combine()

    def _combine_padded(self) -> None:
        self._room[self._filled : self._filled + -self._filled % ROW] = 0
        self._combine()

    def _combine(self) -> None:
        rows = -(-self._filled // ROW)
        self._row ^= np.bitwise_xor.reduce(self._room[: rows * ROW].view(np.uint64).reshape(-1, WORDS_OF_A_ROW), axis=0)
        self._filled = 0


class Part(object):
    """Combines bytes of a file to a row, at once or while somebody else reads them, from the cache then.

    Args:
      data: (bytes,) uint8.
      begin: the place of the first in the file.
    """

    def __init__(self, data: Array, begin: int) -> None:
        self._data, self._place, self._head = data, begin % ROW, -begin % ROW
        rows = max(len(data) - self._head, 0) // ROW
        self._tail = self._head + rows * ROW
        # (rows, WORDS_OF_A_ROW) uint64, a view: what lies between two ends of rows of the file.
        self._rows = data[self._head : self._tail].view(np.uint64).reshape(rows, WORDS_OF_A_ROW)
        self._row, self._room = np.zeros((2, WORDS_OF_A_ROW), np.uint64)
        self._combined = 0

    def is_of(self, array: Array) -> bool:
        """Returns whether an array is these bytes, in this order."""
        begins = (each.__array_interface__["data"][0] for each in (array, self._data))
        return array.nbytes == len(self._data) and array.flags.c_contiguous and len(set(begins)) == 1

    def read_to(self, count: int) -> None:
        """Combines the rows that end within the first `count` bytes, those left out that were combined before."""
        end = min(max(count - self._head, 0) // ROW, len(self._rows))
        if end > self._combined:
            np.bitwise_xor.reduce(self._rows[self._combined : end], axis=0, out=self._room)
            self._row ^= self._room
            self._combined = end

    def row(self) -> Array:
        """Returns the row, (WORDS_OF_A_ROW,) uint64, that all bytes are combined to; called once."""
        self.read_to(len(self._data))
        ends, head, tail = self._row.view(np.uint8), self._data[: self._head], self._data[self._tail :]
        ends[self._place : self._place + len(head)] ^= head
        ends[: len(tail)] ^= tail
        return self._row


def with_checksum(buffers: Sequence[Buffer]) -> List[Buffer]:
    """Returns the buffers of a file with their checksum where the first says `UNSET`; as they are where it does not."""
    first, rest = bytes(buffers[0]), buffers[1:]
    found = _SET.search(first)
    if found is None or found.group(1) != UNSET_DIGITS.encode():
        return list(buffers)
    checksum = Checksum()
    for buffer in buffers:
        checksum.update(buffer)
    begin, end = found.span(1)
    return [first[:begin], checksum.digits().encode(), first[end:], *rest]


def check_bytes(data: bytes, path: str) -> None:
    """Refuses the bytes of a file that are not what was written; those without a checksum are not checked.

    Raises:
      DamagedError: they are not.
    """
    expected, blank = _parted(data)
    if expected:
        checksum = Checksum()
        checksum.update(blank)
        fault = _fault(path, expected, checksum.digits())
        if fault:
            raise DamagedError(f"{fault} Where it was edited on purpose, take the key {CHECKSUM_KEY!r} out of it.")


# By the identity of a file whether it is whole: "", or what is wrong with it. A file that is written anew appears by
# rename, so it is another one.
_FAULTS: "OrderedDict[Identity, str]" = OrderedDict()
_AHEAD: "OrderedDict[Identity, threading.Thread]" = OrderedDict()


def check_file(path: str) -> None:
    """Refuses a file of tensors that is not what was written; it is read in full, once in a process.

    Args:
      path: a regular file. One without a checksum is not checked.

    Raises:
      DamagedError: it is not.
      OSError: it cannot be read.
    """
    identity = _identity(path)
    # A process that was forked has the thread's name and not the thread: it finds no answer below, and reads by itself.
    thread = _AHEAD.pop(identity, None)
    if thread is not None:
        thread.join()
    if identity not in _FAULTS:
        _look(path, identity)
    fault = _FAULTS[identity]
    if fault:
        raise DamagedError(fault)


def check_ahead(path: str) -> None:
    """Begins to check a large file that will probably be asked for next, in a thread; what it finds `check_file` says."""
    try:
        identity = _identity(path)
    except OSError:
        return
    if identity[2] >= LEAST_AHEAD and identity not in _FAULTS and identity not in _AHEAD:
        for done in [each for each, thread in list(_AHEAD.items()) if not thread.is_alive()]:
            _AHEAD.pop(done, None)
        # Reading and combining release the interpreter's lock, so that this takes a core that is idle, if there is one.
        # One file after another, for whoever judges needs a core too; by waiting for the thread before, and by no lock,
        # which a process that is forked meanwhile would find taken for ever.
        arguments = path, identity, list(_AHEAD.values())[-1:]
        _AHEAD[identity] = threading.Thread(target=_look_quietly, args=arguments, daemon=True)
        _AHEAD[identity].start()


class Following(object):
    """Checks a file of tensors while it is read, so that its bytes come from memory once for both.

    What is read meanwhile is not known to be what was written: nothing of it counts before `settle` has come back.

    Args:
      path: a regular file.

    Raises:
      OSError: it cannot be read.
    """

    def __init__(self, path: str) -> None:
        self.path, self._identity = path, _identity(path)
        with open(path, "rb") as file:
            self._expected, self._blank = _parted(file.read(_BEGINNING))
        self._checksum = Checksum()
        self._taken: Dict[int, int] = {}
        self._part: Optional[Part] = None
        self._row: Optional[Callable[[], Array]] = None
        self._settled = not self._expected
        if self._settled:
            _keep(self._identity, "")

    def take(self, data: Array, begin: int) -> None:
        """Has bytes checked that somebody reads until the next are taken; no byte twice.

        Args:
          data: (bytes,) uint8, mapped from the file: all of a tensor.
          begin: the place of the first in the file; behind the checksum.
        """
        if not self._settled and begin not in self._taken:
            self._end_part()
            self._taken[begin] = begin + len(data)
            self._part = Part(data, begin)
            self._row = _SECOND_CORE.row_of(self._part)

    def part_of(self, array: Array) -> Optional[Part]:
        """Returns the bytes that were taken last, to be combined while they are read.

        None where another core combines them, or an array is not these bytes.
        """
        return self._part if self._part is not None and not self._row and self._part.is_of(array) else None

    def _end_part(self) -> None:
        if self._part is not None:
            self._checksum.add(self._row() if self._row else self._part.row())
        self._part = self._row = None

    def settle(self) -> None:
        """Checks what was not taken, and refuses a file that is not what was written.

        Raises:
          DamagedError: it is not.
          OSError: it cannot be read.
        """
        if not self._settled:
            self._end_part()
            self._settled = True
            self._combine_rest()
            # One that does not agree is read once more by itself: of a file that another one took the place of meanwhile,
            # neither was read in full.
            if self._checksum.digits() == self._expected and _identity(self.path) == self._identity:
                _keep(self._identity, "")
        check_file(self.path)

    def _combine_rest(self) -> None:
        with open(self.path, "rb") as file:
            # Of a small file the beginning that was looked at holds tensors too.
            position = min([len(self._blank), *self._taken])
            self._checksum.combine(np.frombuffer(self._blank[:position], np.uint8), 0)
            for begin, end in sorted(self._taken.items()) + [(self._identity[2], self._identity[2])]:
                for place in range(position, begin, MAPPED_AT_ONCE):
                    file.seek(place)
                    rest = file.read(min(MAPPED_AT_ONCE, begin - place))
                    self._checksum.combine(np.frombuffer(rest, np.uint8), place)
                position = max(position, end)


class _SecondCore(object):
    """Combines parts of files beside whoever judges them, as long as it keeps up: a thread, on a core that is idle."""

    def __init__(self) -> None:
        self._process = 0
        self._pool: Optional[ThreadPoolExecutor] = None
        self._pending: "List[Future[Array]]" = []

    def row_of(self, part: Part) -> Optional[Callable[[], Array]]:
        """Begins to combine a part; returns what gives its row, or None where this is busy."""
        process = os.getpid()
        if self._process != process:  # a process that was forked has the pool's name and not its thread
            self._process, self._pending = process, []
            self._pool = ThreadPoolExecutor(1) if _cores() > 1 else None
        self._pending = [each for each in self._pending if not each.done()]
        if self._pool is None or len(self._pending) >= MOST_PENDING:
            return None
        row = self._pool.submit(part.row)
        self._pending.append(row)
        # What the thread has not begun when it is wanted is not waited for: others may have its core.
        return lambda: part.row() if process != os.getpid() or row.cancel() else row.result()


_SECOND_CORE = _SecondCore()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _identity(path: str) -> Identity:
    found = os.stat(path)
    return path, found.st_ino, found.st_size, found.st_mtime_ns


def _look(path: str, identity: Identity) -> None:
    with open(path, "rb") as file:
        expected, blank = _parted(file.read(_BEGINNING))
        checksum = Checksum()
        if expected:
            checksum.map(file, os.fstat(file.fileno()).st_size, blank)
    _keep(identity, _fault(path, expected, checksum.digits()) if expected else "")


def _keep(identity: Identity, fault: str) -> None:
    while len(_FAULTS) >= MOST_CHECKED:
        _FAULTS.popitem(last=False)
    _FAULTS[identity] = fault


def is_checked(path: str) -> bool:
    """Returns whether it is known of a file, or is being found out, that it is what was written."""
    identity = _identity(path)
    return identity in _FAULTS or identity in _AHEAD


def _look_quietly(path: str, identity: Identity, before: Sequence[threading.Thread]) -> None:
    for thread in before:
        thread.join()
    with contextlib.suppress(OSError):  # who asks for the file meets it too
        _look(path, identity)


def _parted(data: bytes) -> Tuple[str, bytes]:
    """Returns the checksum that a file's beginning holds, "" where it has none, and that beginning as it was summed."""
    found = _SET.search(data)
    if found is None:
        return (_UNREADABLE if any(sign in data for sign in _SIGNS) else ""), data
    begin, end = found.span(1)
    return found.group(1).decode(), data[:begin] + UNSET_DIGITS.encode() + data[end:]


def _fault(path: str, expected: str, got: str) -> str:
    if expected == got:
        return ""
    return (
        f"trace: this file is damaged: expected the checksum {expected} of {path}, got {got}. "
        "It is not what was written; record it again."
    )
