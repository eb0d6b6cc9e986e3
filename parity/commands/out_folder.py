"""Makes the folder of --out ready: what an earlier run left there must not be taken for this one's."""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from parity.commands.errors import CommandError

OF_A_RUN = frozenset(["feeds", "logs", "start", "states", "tf", "torch", "torch-rounded", "planted"])
WITHOUT = "without-"  # a run with a declared difference taken back
OF_A_REPRODUCTION = frozenset(
    ["with_tensorflow.py", "with_torch.py", "counters.npz"]
    + [f"{what}_{side}.npz" for what in ("batch", "state", "gradient") for side in ("tf", "torch")]
)


@contextlib.contextmanager
def claimed_folder(out: Path | None) -> Iterator[Path | None]:
    """Gives a run the folder of --out for itself, made if missing and emptied of what an earlier run left.

    Raises:
      CommandError: it is no folder, cannot be made, holds anything that no run leaves, or another run writes to it.
    """
    if out is None:
        yield None
        return
    with _alone_in(out):
        _empty(
            "--out", out, lambda entry: entry.is_dir() and (entry.name in OF_A_RUN or entry.name.startswith(WITHOUT))
        )
        yield out


def claim_reproduction(folder: Path) -> Path:
    """Returns the folder of --reproduce, made if missing and emptied of what an earlier run left.

    Raises:
      CommandError: it is no folder, cannot be made, or holds anything that no reproduction does.
    """
    _empty("--reproduce", folder, lambda entry: entry.is_file() and entry.name in OF_A_REPRODUCTION)
    return folder


@contextlib.contextmanager
def _alone_in(out: Path) -> Iterator[None]:
    _entries("--out", out)
    held = os.open(out, os.O_RDONLY)
    try:
        _lock(held, out)
        yield
    finally:
        os.close(held)


def _lock(held: int, out: Path) -> None:
    import fcntl  # not everywhere; runs need Linux or macOS, reading their traces does not

    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise CommandError(
            f"--out: expected {out} for this run alone, got another run that writes to it. "
            "Name another folder, or wait until that has ended."
        ) from None


def _entries(option: str, folder: Path) -> list[Path]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return sorted(folder.iterdir())
    except OSError as error:
        raise CommandError(f"{option}: expected a folder at {folder}, got: {error.strerror}. Name another.") from None


def _empty(option: str, folder: Path, is_ours: Callable[[Path], bool]) -> None:
    found = _entries(option, folder)
    foreign = [entry.name for entry in found if not is_ours(entry)]
    if foreign:
        raise CommandError(
            f"{option}: expected {folder} to be empty or the folder of an earlier run, got {foreign[0]!r} in it. "
            "Name another folder."
        )
    for entry in found:
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def claim_file(option: str, path: Path) -> Path:
    """Returns `path`, its folder made and what an earlier run left removed, so that nothing old is read as new.

    Args:
      option: for the message, e.g. "--json".
      path: the file to be written when all is done; of --json also ``<path without suffix>.checks.npz`` beside it.

    Raises:
      CommandError: it is a folder, or cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        if option == "--json":
            path.with_suffix(".checks.npz").unlink(missing_ok=True)
        path.touch()
        path.unlink()
    except OSError as error:
        reason = "a folder" if path.is_dir() else error.strerror
        raise CommandError(
            f"{option}: expected a file that can be written at {path}, got: {reason}. Name another."
        ) from None
    return path
