"""Which files are read: those that are named, and the Python files and notebooks below folders that are."""

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

SUFFIXES = (".py", ".pyw", ".ipynb")
# What says how scripts are started, and what their options are.
TEXTS: tuple[str, ...] = (".sh", ".bash", ".bat", ".cmd", ".ps1", ".slurm", ".sbatch", ".pbs", ".mk", ".env")
TEXTS += (".md", ".rst", ".txt", ".ipynb", ".py")
TEXTS += (".yml", ".yaml", ".json", ".cfg", ".ini", ".gin", ".conf", ".config", ".toml")
NAMES_OF_TEXTS = ("Makefile", "makefile", "Dockerfile", "README", "Procfile")
LARGEST_TEXT = 256 * 1024  # bytes: what is larger is data
ALL_TEXTS = 64 * 1024 * 1024  # bytes
MOSTLY_DATA = (".txt", ".json")  # are read last
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


def texts_in(paths: Sequence[Path]) -> Iterator[tuple[Path, str]]:
    """Yields the files below folders that may say how source is started, each with its text."""
    files = (file for path in paths if path.is_dir() for file in _below(path, TEXTS, NAMES_OF_TEXTS))
    left = ALL_TEXTS
    for file in sorted(files, key=lambda each: each.suffix in MOSTLY_DATA):
        try:
            status = file.stat()
            if stat.S_ISREG(status.st_mode) and status.st_size <= min(LARGEST_TEXT, left):
                left -= status.st_size
                yield file, file.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue


def _below(folder: Path, suffixes: tuple[str, ...] = SUFFIXES, whole: tuple[str, ...] = ()) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in LEFT_OUT and not name.startswith("."))
        yield from (Path(place, name) for name in sorted(names) if name.endswith(suffixes) or name in whole)
