"""What a reader is given: a folder of files, links and pipes in memory, which is laid on a disk, or is one file alone."""

import base64
import json
import os
import shutil
from pathlib import Path
from typing import Any, NamedTuple

ALONE = "input"  # name of the only file of an input that no folder is needed for


class Link(NamedTuple):
    """A symbolic link."""

    target: str


class Sparse(NamedTuple):
    """A file that says it is larger than what it holds."""

    begin: bytes
    size: int


class Pipe(NamedTuple):
    """A FIFO, which nobody writes to."""


class Folder(NamedTuple):
    """A folder in the place of a file."""


Entry = bytes | Link | Sparse | Pipe | Folder
Files = dict[str, Entry]
KINDS: dict[str, Any] = {kind.__name__: kind for kind in (Link, Sparse, Pipe, Folder)}


def read_folder(folder: Path) -> Files:
    """Returns the files below a folder, by their path in it."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def as_json(files: Files) -> str:
    """Returns files as a text that `from_json` reads."""
    return json.dumps({name: _described(entry) for name, entry in files.items()}, indent=1)


def from_json(text: str) -> Files:
    """Returns what `as_json` was given."""
    return {name: _entry(*described) for name, described in json.loads(text).items()}


def _described(entry: Entry) -> list[Any]:
    fields = ["bytes", entry] if isinstance(entry, bytes) else [type(entry).__name__, *entry]
    return [base64.b64encode(each).decode() if isinstance(each, bytes) else each for each in fields]


def _entry(kind: str, *fields: Any) -> Entry:
    if kind == "bytes":
        return base64.b64decode(fields[0])
    if kind == "Sparse":
        return Sparse(base64.b64decode(fields[0]), fields[1])
    entry: Entry = KINDS[kind](*fields)
    return entry


class Place:
    """A folder in which inputs are laid one after the other; what is in it already, and the same, stays.

    Args:
      folder: made here; nobody else writes to it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._laid: Files = {}
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)

    def lay(self, files: Files) -> Path:
        """Makes the folder hold these files and no other; returns it."""
        for name in self._laid.keys() - files.keys():
            _remove(self.folder / name)
        for name, entry in files.items():
            # By identity: a mutation makes another object, and comparing the bytes of every file would cost more.
            if self._laid.get(name) is not entry or not os.path.lexists(self.folder / name):
                _remove(self.folder / name)
                _write(self.folder / name, entry)
        self._laid = dict(files)
        return self.folder

    def clear(self) -> None:
        """Removes everything, also what readers have left."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        self._laid = {}


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif os.path.lexists(path):
        path.unlink()


def _write(path: Path, entry: Entry) -> None:
    try:
        _make(path, entry)
    except (FileNotFoundError, NotADirectoryError):
        # A file where this one has its folder goes: two entries of an input may not fit beside each other.
        for parent in reversed(path.parents):
            if os.path.lexists(parent) and not parent.is_dir():
                parent.unlink()
        path.parent.mkdir(parents=True, exist_ok=True)
        _make(path, entry)


def _make(path: Path, entry: Entry) -> None:
    if isinstance(entry, Link):
        path.symlink_to(entry.target)
    elif isinstance(entry, Pipe):
        os.mkfifo(path)
    elif isinstance(entry, Folder):
        path.mkdir(exist_ok=True)
    else:
        with open(path, "wb") as file:
            file.write(entry if isinstance(entry, bytes) else entry.begin)
            if isinstance(entry, Sparse):
                file.truncate(entry.size)
