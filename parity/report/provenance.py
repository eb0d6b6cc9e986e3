"""Where a report comes from: which version, command, host and commit, when, and the digest of the case."""

import hashlib
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from parity import __version__
from parity.case import Case

NAMED_FUNCTION = re.compile(r"[\w.]+:\w+")  # as a case names one
GIT_SECONDS = 5.0


def provenance(folder: Path | None = None, files: Iterable[Path] = ()) -> dict[str, Any]:
    """Returns what a report says of itself, as JSON values.

    Args:
      folder: whose commit it is; by default the working directory.
      files: of the case, for its digest; none: no digest.

    Returns:
      `tool`, `version`, `command`, `time` (UTC, ISO 8601), `host`, `system`, `python`; `commit` (of the folder's git
      repository, None where there is none), `modified` (whether anything of it is not committed; None where not known);
      `digest` (SHA-256 over the case's files, None where there is no case).
    """
    commit, modified = _commit(folder or Path.cwd())
    return {
        "tool": "tower-parity",
        "version": __version__,
        "command": shlex.join(["parity", *sys.argv[1:]]),
        "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "host": platform.node(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "commit": commit,
        "modified": modified,
        "digest": digest(files),
    }


def files_of(case: Case, file: Path) -> list[Path]:
    """Returns the files that a case consists of: its own, and the modules whose functions it names.

    Args:
      case: as it was loaded.
      file: as it was named: the file, or the folder that holds `case.toml`.
    """
    found = [file / "case.toml" if file.is_dir() else file]
    for module in sorted(
        {spec.partition(":")[0] for spec in _strings(case.model_dump()) if NAMED_FUNCTION.fullmatch(spec)}
    ):
        places = [folder.joinpath(*module.split(".")) for folder in case.folders]
        candidates = [path for place in places for path in (place / "__init__.py", place.with_suffix(".py"))]
        found += [path for path in candidates if path.is_file()][:1]
    return [path for path in found if path.is_file()]


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _strings(part)


def digest(files: Iterable[Path]) -> str | None:
    """Returns the SHA-256 over files, as it is wherever they lie; None where there are none."""
    found, whole = sorted({path.resolve() for path in files}), hashlib.sha256()
    for path in found:
        # Names and lengths, so that no two sets of files give the same bytes.
        data = path.read_bytes()
        whole.update(f"{path.name} {len(data)}\n".encode("utf-8", "replace") + data)
    return whole.hexdigest() if found else None


def rows(known: dict[str, Any]) -> list[tuple[str, str]]:
    """Returns the same as terms and texts for people; what is not known is left out."""
    if not known:
        return []
    commit = (
        f"{known['commit'][:12]}{' and what is not committed' if known['modified'] else ''}" if known["commit"] else ""
    )
    found = [
        ("made by", f"{known['tool']} {known['version']}, Python {known['python']}"),
        ("command", known["command"]),
        ("time", known["time"]),
        ("host", f"{known['host']}, {known['system']}"),
        ("commit", commit),
        ("digest of the case", known["digest"] or ""),
    ]
    return [(term, text) for term, text in found if text]


def _commit(folder: Path) -> tuple[str | None, bool | None]:
    head = _git(folder, "rev-parse", "HEAD")
    if not head:
        return None, None
    status = _git(folder, "status", "--porcelain", "--untracked-files=no", "--", ".")
    return head.strip(), None if status is None else bool(status.strip())


def _git(folder: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
            errors="replace",
            timeout=GIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout if done.returncode == 0 else None
