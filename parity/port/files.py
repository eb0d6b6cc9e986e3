"""Leaves the files of a port in a folder, and never over what somebody edited."""

import difflib
import hashlib
import json
from pathlib import Path

from parity.report.atomic import appearing

MANIFEST = "port.json"
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
    for name, text in files.items():
        path = folder / name
        edited = _edited(path, known.get(name), text)
        target = path.with_name(f"{path.stem}.new{path.suffix}") if edited is not None else path
        with appearing(target) as file:
            file.write(text.encode())
        if edited is None:
            known[name] = _digest(text)
            written[target] = ""
        else:
            written[target] = "".join(
                difflib.unified_diff(edited.splitlines(True), text.splitlines(True), str(path), str(target))
            )
    with appearing(folder / MANIFEST) as file:
        file.write((json.dumps({"format": MANIFEST_FORMAT, "files": known}, indent=1) + "\n").encode())
    return written


def _edited(path: Path, digest: str | None, text: str) -> str | None:
    """The text of a file that is not as it was written, None where there is none such."""
    if not path.exists():
        return None
    found = path.read_text(encoding="utf-8", errors="replace")
    return None if found == text or _digest(found) == digest else found


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _known(folder: Path) -> dict[str, str]:
    try:
        found = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if (
        not isinstance(found, dict)
        or found.get("format") != MANIFEST_FORMAT
        or not isinstance(found.get("files"), dict)
    ):
        return {}
    return {str(name): str(digest) for name, digest in found["files"].items()}
