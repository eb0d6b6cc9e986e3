"""Reads files of a trace within bounds that are checked first: what kind of file, how large, how deep, how many digits."""

import json
import os
import stat
from typing import Any, List, NoReturn, Union

from parity.trace.checksum import CHECKSUM_KEY, check_bytes, check_file
from parity.trace.errors import TraceError

# A graph of 20,000 ops takes some 20 MB. Python's objects take up to ten times the text.
MOST_BYTES_OF_JSON = 200_000_000
# Of a graph some 20: attributes of functions of a library. Whatever walks through what was read may do so by recursion.
MOST_DEPTH = 100
# Of an integer: 2**64 has 20. Python's conversion takes the square of their number.
MOST_DIGITS = 40
_DIGITS = bytes(ord("0") if byte in b"0123456789" else 0 for byte in range(256))
# Of a file of tensors: a step of the largest models that towers trained. A sparse file may say that it is any size.
MOST_BYTES_OF_TENSORS = 1 << 36


def size_of(path: str, most: int) -> int:
    """Returns the size of a file in bytes.

    Args:
      path: the file.
      most: bytes that it may have.

    Raises:
      OSError: there is none.
      TraceError: it is a device, a pipe or a folder, which may have no end, or larger.
    """
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode):
        raise TraceError(f"trace: expected a regular file at {path}, got a pipe, a device or a folder. Name a trace.")
    if found.st_size > most:
        raise TraceError(
            f"trace: expected at most {most:,} bytes in {path}, got {found.st_size:,}. Name a trace of this tool."
        )
    return found.st_size


def check_folder(directory: Union[str, "os.PathLike[str]"]) -> None:
    """Refuses a folder that is copied or read as a whole: with a file, however deep, that is not what was written.

    Raises:
      DamagedError: a file of a trace is not; which, is said.
      OSError: one cannot be read.
      TraceError: there is a pipe, a device, a link to a folder (which may lead back), or a file that is too large.
    """
    for folder, folders, names in os.walk(str(directory)):
        for name in sorted(names) + [each for each in folders if os.path.islink(os.path.join(folder, each))]:
            path = os.path.join(folder, name)
            size = size_of(path, MOST_BYTES_OF_JSON if name.endswith(".json") else MOST_BYTES_OF_TENSORS)
            if name.endswith(".safetensors"):
                check_file(path)
            elif name.endswith(".json"):
                with open(path, "rb") as file:
                    check_bytes(file.read(size + 1), path)


def read_json(path: str, most: int = MOST_BYTES_OF_JSON) -> Any:
    """Returns what a JSON file holds, without its checksum.

    Raises:
      DamagedError: it is not what was written.
      OSError: there is none.
      TraceError: it is no regular file, or larger than `most` bytes.
      ValueError: it is no JSON, deeper than 100 levels, or has an integer of more than 40 digits.
    """
    size = size_of(path, most)
    with open(path, "rb") as file:
        text = file.read(size + 1)
    check_bytes(text, path)
    found = parse_json(text)
    if isinstance(found, dict):
        found.pop(CHECKSUM_KEY, None)
    return found


def parse_json(text: Union[bytes, bytearray], **options: Any) -> Any:
    """Returns what a text of JSON holds; `options` are those of `json.loads`.

    Raises:
      ValueError: it is no JSON, deeper than 100 levels, or has an integer of more than 40 digits.
    """
    # A function of ours for each integer takes as long as the rest of a header of 100,000 tensors: it is called where a
    # run of so many digits is anywhere in the text, in a string too.
    integer = _integer if MOST_DIGITS * b"0" + b"0" in text.translate(_DIGITS) else int
    try:
        found = json.loads(text.decode("utf-8"), parse_int=integer, parse_constant=_no_number, **options)
    except RecursionError:
        _too_deep()
    require_depth(found)
    return found


def require_depth(value: Any, most: int = MOST_DEPTH) -> None:
    """Refuses nested lists and dicts of more levels.

    Raises:
      ValueError: there are.
    """
    level: List[Any] = [value]
    for _ in range(most + 1):
        # By levels, without recursion. What is no list and no dict holds nothing.
        level = [
            each
            for holder in level
            for each in (holder.values() if isinstance(holder, dict) else holder if isinstance(holder, list) else ())
        ]
        if not level:
            return
    _too_deep()


def _too_deep() -> NoReturn:
    raise ValueError(f"more than {MOST_DEPTH} levels of lists and objects in each other")


def _integer(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise ValueError(f"an integer of {len(text):,} digits, of at most {MOST_DIGITS}")
    return int(text)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text}, which is no number of JSON")
