"""Writes the files that a user names: whole or not at all where that can be, and never over a device or a link."""

import contextlib
import io
import os
import stat
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

STANDARD_OUTPUT = "-"  # as the name of a file


@contextlib.contextmanager
def appearing(path: Path) -> Iterator[BinaryIO]:
    """Opens a file that takes its place, over an older one, when the block ends well; else nothing changes.

    A link stays, and what it leads to is replaced. What is no regular file, such as a device or a pipe, is written to.

    Args:
      path: the file to make; so is its folder. "-" is standard output.
    """
    if is_stream(path):
        # At once and at the end: a block may want to seek, and nothing is written where it fails.
        held = io.BytesIO()
        yield held
        _send(path, held.getvalue())
        return
    target = path.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = _partial(target)
    try:
        with partial.open("xb") as file:
            yield file
        if target.exists():
            partial.chmod(stat.S_IMODE(target.stat().st_mode))
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def forget(path: Path) -> None:
    """Removes a file that a user named, where it can be removed: no device, no pipe."""
    with contextlib.suppress(OSError):
        if not is_stream(path):
            path.resolve().unlink(missing_ok=True)


def is_stream(path: Path) -> bool:
    """Tells whether a path is "-", standard output by another name, a device or a pipe: nothing that can be replaced."""
    if str(path) == STANDARD_OUTPUT:
        return True
    try:
        # Through links, of which /dev/stdout is one.
        found = path.stat()
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)) or _is_standard_output(found)


def try_writing(path: Path) -> None:
    """Finds out whether a file can be written, its folder made; neither it nor anything else is changed.

    Raises:
      OSError: it cannot.
    """
    if str(path) == STANDARD_OUTPUT:
        return
    if path.is_dir():
        raise IsADirectoryError(None, "a folder", str(path))
    if path.exists() and not os.access(path, os.W_OK):
        raise PermissionError(None, "no permission to write it", str(path))
    if not is_stream(path):
        target = path.resolve()
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = _partial(target)
        partial.touch(exist_ok=False)
        partial.unlink()


def _partial(target: Path) -> Path:
    # In the same folder, for a rename is atomic within one file system only.
    return target.with_name(f".{uuid.uuid4().hex}.part")


def _is_standard_output(found: os.stat_result) -> bool:
    try:
        return os.path.samestat(found, os.fstat(1))
    except OSError:
        return False


def _send(path: Path, whole: bytes) -> None:
    if str(path) != STANDARD_OUTPUT:
        with path.open("ab") as device:
            device.write(whole)
        return
    data: BinaryIO = getattr(sys.stdout, "data", None) or sys.stdout.buffer
    sys.stdout.flush()
    data.write(whole)
    data.flush()
