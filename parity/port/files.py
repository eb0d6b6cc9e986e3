"""Leaves the files of a port in a folder, and never over what somebody edited."""

import difflib
import hashlib
import itertools
import json
from collections.abc import Mapping
from pathlib import Path

from parity.port.errors import PortError
from parity.report.atomic import appearing
from parity.trace import TraceError, read_json
from parity.trace.bounded import size_of

MANIFEST = "port.json"
MOST_BYTES_OF_A_PORT = (
    10_000_000  # of a file of a port, and of the list of them: what is read of a folder that is named
)
MANIFEST_FORMAT = "tower-parity-port"


def write_files(folder: Path, files: dict[str, str]) -> dict[Path, str]:
    """Writes files; one that was edited since it was written stays, and the new text goes beside it.

    Args:
      folder: made if missing.
      files: text by name.

    Returns:
      By path of each file that was written, the difference to the edited one that it stands beside, "" where there is none.
    """
    known = _known(folder)
    written: dict[Path, str] = {}
    # All are looked at before one is written: what is written is listed, or it would be taken for an edited one.
    places = []
    for name, text in files.items():
        path = folder / name
        edited = _edited(path, known.get(name), text)
        places.append((path, path if edited is None else _free_name(path, known, text), edited, text))
    for path, target, edited, text in places:
        # Whole or not at all: a port that is half written would be taken for an edited one.
        with appearing(target) as file:
            file.write(text.encode())
        known[target.name] = _digest(text)
        lines = (edited or "").splitlines(True), text.splitlines(True)
        written[target] = "" if edited is None else "".join(difflib.unified_diff(*lines, str(path), str(target)))
    with appearing(folder / MANIFEST) as file:
        file.write((json.dumps({"format": MANIFEST_FORMAT, "files": known}, indent=1) + "\n").encode())
    return written


def _free_name(path: Path, known: Mapping[str, str], text: str) -> Path:
    """A name for what cannot take a file's own: of one that was written there before, and edited too, the next."""
    for number in itertools.count(1):
        target = path.with_name(f"{path.stem}.new{number if number > 1 else ''}{path.suffix}")
        if _edited(target, known.get(target.name), text) is None:
            return target
    raise AssertionError


def _edited(path: Path, digest: str | None, text: str) -> str | None:
    """The text of a file that is not as it was written, None where there is none such."""
    if not _is_there(path):
        return None
    # Whatever stands there, in any encoding: it is not overwritten for not being readable.
    found = path.read_text(encoding="utf-8", errors="replace")
    return None if found == text or _digest(found) == digest else found


def _is_there(path: Path) -> bool:
    """Whether there is a file; what has no end, as a pipe, is none that a port could stand beside.

    Raises:
      PortError: there is something else, or a file that is no source.
    """
    try:
        size_of(str(path), MOST_BYTES_OF_A_PORT)
    except FileNotFoundError:
        return False
    except TraceError:
        raise PortError(
            f"port: expected a file of at most {MOST_BYTES_OF_A_PORT:,} bytes at {path}, or none, got a larger one, a pipe, "
            "a device or a folder. Name another --out."
        ) from None
    return True


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _known(folder: Path) -> dict[str, str]:
    path = folder / MANIFEST
    if not _is_there(path):
        return {}
    try:
        found = read_json(str(path))
    except (OSError, ValueError):
        found = None
    if (
        not isinstance(found, dict)
        or found.get("format") != MANIFEST_FORMAT
        or not isinstance(found.get("files"), dict)
    ):
        # Somebody's own file would be lost under the list of what was written.
        raise PortError(f"port: expected {path} to list what was written there, got another file. Name another --out.")
    return {str(name): str(digest) for name, digest in found["files"].items()}
