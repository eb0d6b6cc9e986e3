"""Makes the folder of --out ready: what an earlier run left there must not be taken for this one's."""

import shutil
from pathlib import Path

from parity.commands.errors import CommandError

OF_A_RUN = frozenset(["feeds", "logs", "start", "states", "tf", "torch"])


def claim_folder(out: Path) -> Path:
    """Returns `out`, made if missing and emptied of what an earlier run left.

    Raises:
      CommandError: it is no folder, cannot be made, or holds anything that no run leaves.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        found = sorted(entry.name for entry in out.iterdir())
    except OSError as error:
        raise CommandError(f"--out: expected a folder at {out}, got: {error.strerror}. Name another.") from None
    foreign = [name for name in found if name not in OF_A_RUN or not (out / name).is_dir()]
    if foreign:
        raise CommandError(
            f"--out: expected {out} to be empty or the folder of an earlier run, got {foreign[0]!r} in it. "
            "Name another folder."
        )
    for name in found:
        shutil.rmtree(out / name)
    return out


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
