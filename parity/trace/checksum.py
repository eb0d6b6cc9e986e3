"""Tells a damaged file of a trace: each carries a checksum of itself, which is checked before anything is read of it."""

import contextlib
import mmap
import os
import re
import threading
import zlib
from collections import OrderedDict
from io import BufferedReader
from queue import SimpleQueue
from typing import Dict, List, Optional, Sequence, Tuple, Union

import numpy as np

from parity.trace.arrays import Array
from parity.trace.errors import DamagedError

Buffer = Union[bytes, bytearray, memoryview]
Identity = Tuple[str, int, int, int]

# The checksum of a file: the CRC-32 of its first `ROW` bytes, with the eight digits of the checksum as "00000000", and of
# the sum of each further row, of 64-bit words modulo 2^64, the last row filled up with zeros.
#
# A flipped bit changes one sum by a power of 2, which flips neighbouring bits of it, at most 64: those are no multiple of
# the polynomial of CRC-32, whose order is 2^32 - 1, so that no single flip goes unseen. CRC-32 of all bytes would read
# 4 GB/s, where two traces are judged at 8; sums of rows read 70 (numpy 2.4, one core), the exclusive or of all rows 40.
# Longer rows are summed no faster; of shorter ones, two pages of a disk that changed places would show more often.
WORDS_OF_A_ROW = 4096
ROW = 8 * WORDS_OF_A_ROW
HELD_AT_ONCE = 8 * ROW  # bytes of small buffers that are summed at once
# Bytes of a file that are mapped and summed at once: whole rows and whole pages. Few and long steps without the
# interpreter's lock: in steps of 260 kB, whoever judges meanwhile and the thread that checks wait for each other's locks.
MAPPED_AT_ONCE = 512 * ROW  # 16 MB; a page of any system divides it

CHECKSUM_KEY = "__checksum__"  # of a JSON object; of a safetensors file in its "__metadata__"
KIND = "sum-crc32:"
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
    """Computes the checksum of a file from its bytes.

    Args:
      size: of the file in bytes, where it is known: there is room for all of its rows then.
    """

    def __init__(self, size: int = 0) -> None:
        self._first = bytearray()  # the first row
        self._sums = np.zeros(-(-size // ROW), np.uint64)  # of all rows; the first one's does not count
        self._rows = 0
        self._held = bytearray()  # taken by `update`, behind those rows

    def update(self, buffer: Buffer) -> None:
        """Takes the next bytes."""
        view = memoryview(buffer)
        filled = -len(self._held) % ROW if len(view) >= ROW else len(view)
        self._held += view[:filled]
        if len(view) > filled or len(self._held) >= HELD_AT_ONCE:
            self._take_held(len(self._held) // ROW * ROW)
        if len(view) > filled:
            whole = (len(view) - filled) // ROW * ROW
            self.combine(view[filled : filled + whole], self._rows)
            self._held += view[filled + whole :]

    def map(self, file: BufferedReader, size: int, beginning: bytes) -> None:
        """Takes a whole file, which is mapped and not copied.

        Args:
          file: of which nothing was taken before.
          size: its bytes; at least `beginning`'s.
          beginning: taken in the place of its first bytes, at most `ROW`.
        """
        for begin in range(0, size, MAPPED_AT_ONCE):
            length = min(MAPPED_AT_ONCE, size - begin)
            with mmap.mmap(file.fileno(), length, access=mmap.ACCESS_READ, offset=begin) as mapped:
                self.combine(mapped, begin // ROW)
        self.begin_with(beginning)

    def begin_with(self, beginning: bytes) -> None:
        """Takes other bytes, at most `ROW`, in the place of the first ones, which were taken."""
        self._first[: len(beginning)] = beginning

    def combine(self, data: "Union[Buffer, mmap.mmap]", row: int) -> None:
        """Takes rows of a file, in any order, each of them once.

        Args:
          data: whole rows; at the end of the file the last may be shorter.
          row: the place of the first, counted in rows.
        """
        bytes_of = np.frombuffer(data, np.uint8) if len(data) else np.empty(0, np.uint8)
        whole = len(bytes_of) // ROW
        if not row:
            self._first[:] = bytes_of[:ROW].tobytes()
        np.add.reduce(_in_rows(bytes_of[: whole * ROW]), axis=1, out=self.sums_of(row, whole))
        rest = bytes_of[whole * ROW :]
        if len(rest):
            padded = np.zeros(ROW, np.uint8)
            padded[: len(rest)] = rest
            np.add.reduce(_in_rows(padded), axis=1, out=self.sums_of(row + whole, 1))

    def sums_of(self, row: int, count: int) -> Array:
        """Returns the room, (count,) uint64, for the sums of rows of the file, from a row on."""
        self._rows = max(self._rows, row + count)
        if self._rows > len(self._sums):
            self._sums = np.concatenate([self._sums, np.zeros(max(self._rows, 64), np.uint64)])
        return self._sums[row : row + count]

    def digits(self) -> str:
        """Returns the checksum of all bytes taken; no more may follow."""
        self._take_held(len(self._held))
        of_first = zlib.crc32(self._first)
        return f"{zlib.crc32(self._sums[1 : self._rows].astype('<u8').tobytes(), of_first) & 0xFFFFFFFF:08x}"

    def _take_held(self, count: int) -> None:
        self.combine(self._held[:count], self._rows)
        del self._held[:count]


def _in_rows(data: Array) -> Array:
    return data.view(np.uint64).reshape(-1, WORDS_OF_A_ROW)


class Part(object):
    """Whole rows of a file, summed at once or while somebody else reads them, from the cache then.

    Args:
      data: (bytes,) uint8, of which some at both ends may be no whole rows, and are left alone.
      head: number of those at its beginning.
      sums: (rows,) uint64, for the sums.
    """

    def __init__(self, data: Array, head: int, sums: Array) -> None:
        self._data, self._head, self._sums = data, head, sums
        self._rows = _in_rows(data[head : head + len(sums) * ROW])
        self._summed = 0

    def is_of(self, array: Array) -> bool:
        """Returns whether an array is these bytes, in this order."""
        begins = (each.__array_interface__["data"][0] for each in (array, self._data))
        return array.nbytes == len(self._data) and array.flags.c_contiguous and len(set(begins)) == 1

    def read_to(self, count: int) -> None:
        """Sums the rows that end within the first `count` bytes, those left out that were summed before."""
        self._sum(min(max(count - self._head, 0) // ROW, len(self._rows)))

    def read(self) -> None:
        """Sums all rows, those left out that were summed before."""
        self._sum(len(self._rows))

    def _sum(self, end: int) -> None:
        if end > self._summed:
            np.add.reduce(self._rows[self._summed : end], axis=1, out=self._sums[self._summed : end])
            self._summed = end


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
        self._checksum = Checksum(self._size)
        self._taken: Dict[int, int] = {}  # rows, by the first of them the first behind them
        self._part: Optional[Part] = None
        self._given: Optional[_Given] = None  # where another core sums that part
        self._settled = not self._expected
        if self._settled:
            _keep(self._identity, "")

    @property
    def _size(self) -> int:
        return self._identity[2]

    def take(self, data: Array, begin: int) -> None:
        """Has bytes checked that somebody reads until the next are taken; no byte twice.

        Args:
          data: (bytes,) uint8, mapped from the file: all of a tensor.
          begin: the place of the first in the file; behind the checksum.
        """
        first, end = -(-begin // ROW), (begin + len(data)) // ROW
        if not self._settled and first < end and first not in self._taken:
            self._end_part()
            self._taken[first] = end
            self._part = Part(data, first * ROW - begin, self._checksum.sums_of(first, end - first))
            self._given = _SECOND_CORE.give(self._part)

    def part_of(self, array: Array) -> Optional[Part]:
        """Returns the bytes that were taken last, to be summed while they are read.

        None where another core sums them, or an array is not these bytes.
        """
        return self._part if self._part is not None and not self._given and self._part.is_of(array) else None

    def _end_part(self) -> None:
        if self._given is not None:
            self._given.wait()
        if self._part is not None:
            self._part.read()
        self._part = self._given = None

    def settle(self) -> None:
        """Checks what was not taken, and refuses a file that is not what was written.

        Raises:
          DamagedError: it is not.
          OSError: it cannot be read.
        """
        if not self._settled:
            self._end_part()
            self._settled = True
            self._read_rest()
            # One that does not agree is read once more by itself: of a file that another one took the place of meanwhile,
            # neither was read in full.
            if self._checksum.digits() == self._expected and _identity(self.path) == self._identity:
                _keep(self._identity, "")
        check_file(self.path)

    def _read_rest(self) -> None:
        row, rows = 0, -(-self._size // ROW)
        with open(self.path, "rb", buffering=0) as file:
            for first, end in [*sorted(self._taken.items()), (rows, rows)]:
                for place in range(row, first, MAPPED_AT_ONCE // ROW):
                    file.seek(place * ROW)
                    self._checksum.combine(file.read(min(MAPPED_AT_ONCE, (first - place) * ROW)), place)
                row = max(row, end)
        self._checksum.begin_with(self._blank)


class _Given(object):
    """A part that another thread has been given to sum.

    Two locks, and no future of a pool, whose start costs a tenth of the time that a tensor is judged in.
    """

    def __init__(self, part: Part) -> None:
        self._part, self._process = part, os.getpid()
        self._begun, self._pending = threading.Lock(), threading.Lock()
        self._pending.acquire()

    def is_pending(self) -> bool:
        """Returns whether the thread has still to sum the part, or sums it."""
        return self._pending.locked()

    def sum(self) -> None:
        """Sums the part, in that thread, unless whoever waited has taken it back."""
        if self._begun.acquire(False):
            try:
                self._part.read()
            finally:
                self._pending.release()

    def wait(self) -> None:
        """Returns once the thread has summed the part; where it has not begun, at once: others may have its core."""
        if self._begun.acquire(False):
            self._pending.release()
        elif self._process == os.getpid():  # a process that was forked meanwhile has no such thread
            with self._pending:
                pass


class _SecondCore(object):
    """Sums parts of files beside whoever judges them, as long as it keeps up: a thread, on a core that is idle."""

    def __init__(self) -> None:
        self._process = 0
        self._queue: "Optional[SimpleQueue[_Given]]" = None
        self._given: List[_Given] = []

    def give(self, part: Part) -> Optional[_Given]:
        """Begins to sum a part; returns what waits for its end, or None where this is busy."""
        if self._process != os.getpid():  # a process that was forked has the queue and not the thread
            self._process, self._given = os.getpid(), []
            self._queue = _served() if _cores() > 1 else None
        self._given = [each for each in self._given if each.is_pending()]
        if self._queue is None or len(self._given) >= MOST_PENDING:
            return None
        given = _Given(part)
        self._given.append(given)
        self._queue.put(given)
        return given


def _served() -> "SimpleQueue[_Given]":
    queue: "SimpleQueue[_Given]" = SimpleQueue()

    def serve() -> None:
        while True:
            queue.get().sum()

    threading.Thread(target=serve, daemon=True).start()
    return queue


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
