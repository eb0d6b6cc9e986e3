"""Which files are read: those that are named, and the Python files and notebooks below folders that are."""

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

SUFFIXES = (".py", ".pyw", ".ipynb")
# Nobody's own training code; a folder that is named itself is read whatever it is called.
LEFT_OUT = frozenset(["__pycache__", "node_modules", "site-packages", "venv", "env", "build", "dist"])


def source_files(paths: Sequence[Path]) -> Iterator[Path]:
    """Yields the files that are read, in the order of their names, each once however many links lead to it.

    Links to folders are not followed, so that no circle of them ends in nothing. A path that is no folder is yielded
    whatever it is: that it cannot be read is said where it is read.
    """
    seen: set[tuple[int, int]] = set()
    for path in paths:
        for file in _below(path) if path.is_dir() else [path]:
            try:
                status = file.stat()
            except OSError:
                yield file
                continue
            # What is no file below a folder is no source: a pipe would be waited for.
            if file is not path and not stat.S_ISREG(status.st_mode):
                continue
            if (status.st_dev, status.st_ino) not in seen:
                seen.add((status.st_dev, status.st_ino))
                yield file


def _below(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in LEFT_OUT and not name.startswith("."))
        yield from (Path(place, name) for name in sorted(names) if name.endswith(SUFFIXES))
