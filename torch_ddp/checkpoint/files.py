"""The files of checkpoints: each is named after its own content, so that one cut short does not answer to its name."""

import contextlib
import hashlib
import io
import os
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

from torch_ddp.errors import CheckpointError

NAME = re.compile(r"step-(?P<step>\d{10})-(?P<digest>[0-9a-f]{32})\.pt")
SUFFIX_WHILE_WRITING = ".unfinished"
# 128 bits: what is damaged by chance has the same digest with a probability of 3e-39.
DIGEST_BYTES = 16
PIECE_BYTES = 1 << 20  # of a file, in memory at a time
# What torch's archives end with: the record of a zip file's end, 22 bytes, of which it leaves the comment out.
END_OF_ARCHIVE, REST_OF_ARCHIVE = b"PK\x05\x06", 18
LONGEST_REASON = 200  # characters of what torch says of a file that it cannot read: it may name what the file asks for


class WholeFile(NamedTuple):
    """A checkpoint that was whole when it was looked at.

    Fields:
      path: its file.
      step: number of updates made.
    """

    path: Path
    step: int


class Whole(NamedTuple):
    """A checkpoint that was found whole.

    Fields:
      path: its file.
      step: number of updates made.
      data: its bytes, which have the digest that the name states.
    """

    path: Path
    step: int
    data: bytes


def write_whole(folder: Path, step: int, state: dict[str, Any], keep: int = 2, replace: bool = False) -> Path:
    """Writes a checkpoint that is there whole or not at all, and removes old ones.

    The file is written under another name, flushed to the disk, and renamed. A process that is killed meanwhile leaves
    the older checkpoints as they are.

    Args:
      folder: where checkpoints lie; made where need be. Only one process may write there.
      step: number of updates made, at least 0.
      state: tensors, numbers, strings, and containers of them.
      keep: number of checkpoints to leave, at least 1, the newest.
      replace: whether to leave this one alone, also where there is one of a later step.

    Returns:
      The file.

    Raises:
      CheckpointError: the state holds something that cannot be loaded without running code of the file's choice, or the
        folder has a whole checkpoint of a later step; or the file cannot be written, for want of room for one.
    """
    if keep < 1:
        raise CheckpointError(f"checkpoint: expected to keep at least one, got keep={keep}. Keep the newest.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CheckpointError(
            f"checkpoint: expected a folder at {folder}, got: {error.strerror}. Save in another folder."
        ) from error
    if not replace:
        _remove_damaged_later(folder, step)
    unfinished = folder / f"step-{step:010d}{SUFFIX_WHILE_WRITING}"
    try:
        with writing_to(unfinished), unfinished.open("wb") as file:
            torch.save(state, file)
            file.flush()
            # Before the rename, or the name could survive a power failure and the content not.
            os.fsync(file.fileno())
        # After writing, for it is the file that must load without running code; under a name that nobody resumes from.
        _refuse_code(unfinished, state)
        path = folder / name_of(step, digest_of(unfinished))
        unfinished.rename(path)
    finally:
        # What is there of one that was given up, as by Ctrl-C, takes room that others need.
        with contextlib.suppress(OSError):
            unfinished.unlink()
    _flush_folder(folder)
    # Old ones go only now, when the new one has its name: at every moment one whole checkpoint is there.
    others = [other for other in frames_of(folder) if other != path]
    same = [other for other in others if _step(other) == step]
    older = [other for other in others if _step(other) < step]
    outdated = others if replace else [*same, *older[keep - 1 :]]
    for old in [*outdated, *folder.glob(f"*{SUFFIX_WHILE_WRITING}")]:
        old.unlink()
    return path


@contextlib.contextmanager
def writing_to(unfinished: Path) -> Iterator[None]:
    """Says of a write that fails within the block which file it was for, why it failed, and after how many bytes.

    Raises:
      CheckpointError: it did.
    """
    try:
        yield
    except (OSError, RuntimeError) as error:
        # torch's writer, which wants to end its file after a write failed, hides why in an error of its own.
        cause = error if isinstance(error, OSError) else error.__context__
        if not isinstance(cause, OSError) and "inline_container" not in str(error) and "Writer" not in str(error):
            raise
        reason = cause.strerror if isinstance(cause, OSError) else "a write that failed"
        written = unfinished.stat().st_size if unfinished.exists() else 0
        raise CheckpointError(
            f"checkpoint: expected to write {unfinished}, got {reason} after {written} bytes. "
            "The older checkpoints are as they were. Make room, or save in another folder."
        ) from error


def newest_whole(folder: Path) -> Whole | None:
    """Returns the newest checkpoint whose content has the digest that its name states, in memory, or None.

    Warns of every newer one that is damaged; it is never loaded.
    """
    newest = newest_file(folder)
    return Whole(newest.path, newest.step, newest.path.read_bytes()) if newest else None


def newest_file(folder: Path, also: Callable[[Path], bool] = lambda path: True) -> WholeFile | None:
    """Returns where the newest checkpoint lies whose content has the digest that its name states, or None.

    Warns of every newer one that is damaged. Files are read through piece by piece, and none is held in memory.

    Args:
      folder: where checkpoints lie.
      also: what else must hold of a file that has its digest.
    """
    for path in frames_of(folder):
        if _is_whole(path) and also(path):
            return WholeFile(path, _step(path))
        warnings.warn(
            f"checkpoint: expected the whole of {path}, got a damaged file of {path.stat().st_size} bytes. "
            "An older one is used; delete this one.",
            stacklevel=2,
        )
    return None


def read_whole(data: bytes) -> dict[str, Any]:
    """Returns what was saved, all tensors on the CPU. No code in the file is run.

    Args:
      data: content of a checkpoint's file.

    Raises:
      CheckpointError: it is no checkpoint, or one that holds more than tensors, numbers, strings and containers.
    """
    return _loaded(io.BytesIO(data), mapped=False)


def map_file(path: Path) -> dict[str, Any]:
    """Returns what was saved, its tensors as views of the file, which the system reads where they are looked at.

    They live as long as any of them does, and are to be copied: whoever wrote into the file would change them. Processes
    that map the same file share its memory.

    Args:
      path: a checkpoint's file.

    Raises:
      CheckpointError: as of `read_whole`.
    """
    return _loaded(path, mapped=True)


def _loaded(source: io.BytesIO | Path, mapped: bool) -> dict[str, Any]:
    try:
        state = torch.load(source, map_location="cpu", weights_only=True, mmap=mapped)
    # Whatever torch's reader says of bytes that nobody wrote: of a broken archive or pickle it raises all kinds of errors.
    except Exception as error:
        text = str(error).strip().splitlines() or [""]
        raise CheckpointError(
            f"checkpoint: expected a file of torch_ddp.checkpoint, got {type(error).__name__}: "
            f"{text[0][:LONGEST_REASON].rstrip('.')}. Use another."
        ) from error
    if not isinstance(state, dict):
        raise CheckpointError(
            f"checkpoint: expected a file of torch_ddp.checkpoint, got a {type(state).__name__}. Use another."
        )
    return state


def name_of(step: int, digest: str) -> str:
    """Returns the name of the file of a checkpoint.

    Args:
      step: number of updates made.
      digest: of its content, 32 hexadecimal digits.
    """
    return f"step-{step:010d}-{digest}.pt"


def is_step(value: Any) -> bool:
    """Tells whether a value is a number of updates, as the ten digits of a file's name can say it."""
    return type(value) is int and 0 <= value < 10**10


def _refuse_code(path: Path, state: dict[str, Any]) -> None:
    unsafe = torch.serialization.get_unsafe_globals_in_checkpoint(path)
    if not unsafe:
        return
    culprits = ", ".join(_unsafe_parts(state)) or "the whole"
    raise CheckpointError(
        f"checkpoint: expected tensors, numbers, strings and containers of them, got {', '.join(sorted(unsafe))} "
        f"in {culprits}. Turn it into one of those in state_dict, e.g. with float() or torch.from_numpy()."
    )


def _unsafe_parts(state: Any, name: str = "") -> Iterator[str]:
    if isinstance(state, dict | list | tuple):
        for key, value in state.items() if isinstance(state, dict) else enumerate(state):
            yield from _unsafe_parts(value, f"{name}[{key!r}]")
    elif not isinstance(state, torch.Tensor) and type(state) not in (int, float, bool, str, type(None)):
        yield name


def _remove_damaged_later(folder: Path, step: int) -> None:
    for path in frames_of(folder):
        if _step(path) <= step:
            return
        if _is_whole(path):
            raise CheckpointError(
                f"checkpoint: expected none later than step {step} in {folder}, got {path.name}. "
                "Resume from it, or save in another folder."
            )
        path.unlink()


def _is_whole(path: Path) -> bool:
    return _ends_as_archive(path) and path.stem.endswith(digest_of(path))


def _ends_as_archive(path: Path) -> bool:
    """Tells whether a file ends as torch's archives do: one cut off, or with holes behind it, is not read."""
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - len(END_OF_ARCHIVE) - REST_OF_ARCHIVE, 0))
        return file.read(len(END_OF_ARCHIVE)) == END_OF_ARCHIVE


def _step(path: Path) -> int:
    # The ten digits of NAME.
    return int(path.name[5:15])


def frames_of(folder: Path) -> list[Path]:
    """Returns the files of checkpoints in a folder by their names, the newest first."""
    # Two of one step: the earlier was damaged, or its training was started over; the later one counts. A pipe or a device of
    # that name would be waited for.
    found = [path for path in folder.glob("step-*.pt") if NAME.fullmatch(path.name) and path.is_file()]
    return sorted(found, key=lambda path: (_step(path), path.stat().st_mtime_ns), reverse=True)


def digest_of(path: Path) -> str:
    """Returns the digest of a file's content, 32 hexadecimal digits; in memory there is a piece of it at a time."""
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            digest.update(piece)
    return digest.hexdigest()


def _flush_folder(folder: Path) -> None:
    # Without it a rename may be lost with the power. Not every system lets a folder be opened.
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
