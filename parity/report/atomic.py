"""Writes files that appear whole or not at all."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


@contextlib.contextmanager
def appearing(path: Path) -> Iterator[BinaryIO]:
    """Opens a file that takes its place, over an older one, when the block ends well; else nothing changes.

    Args:
      path: the file to make; so is its folder.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # In the same folder, for a rename is one step within one file system only; with a number, for runs side by side.
    partial = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with partial.open("wb") as file:
            yield file
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
