"""What GitHub shows of a result at the user's lines: commands that a workflow's log turns into annotations."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


def annotations(result: Mapping[str, Any], case: Path, folders: Iterable[Path]) -> list[str]:
    """Returns workflow commands that annotate a result at the user's lines; none where it is the same.

    Args:
      result: what a JSON report says.
      case: the case's file: annotated where no line is known.
      folders: what the files of lines are relative to.

    Source: https://docs.github.com/actions/reference/workflow-commands-for-github-actions
    """
    verdict, folders = result["verdict"], list(folders)
    if verdict == "same":
        return []
    first, error = result.get("first_difference"), result.get("error")
    if first is None:
        notes = [str(error["message"])] if error else [level["reason"] for level in result["levels"].values()]
        return [_command(case, 1, f"parity: {verdict}", "\n".join(dict.fromkeys(notes)))]
    causes = result.get("causes") or [{"title": "no cause is named", "fix": "See the report."}]
    message = f"step {first['step']}, {first['key']}: {causes[0]['title']}.\nFix: {causes[0]['fix']}"
    # The port's line first: it is the one to change. The reference's is the one to read.
    lines = [line for line in (first["lines"]["candidate"], first["lines"]["reference"]) if line]
    places = [(found, int(line["line"])) for line in lines if (found := _found(line["file"], folders))]
    return [_command(file, line, f"parity: {verdict}", message) for file, line in places or [(case, 1)]]


def _found(file: str, folders: Iterable[Path]) -> Path | None:
    return next((folder / file for folder in folders if (folder / file).is_file()), None)


def _command(file: Path, line: int, title: str, message: str) -> str:
    root = Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd()).resolve()
    path = file.resolve()
    shown = path.relative_to(root) if path.is_relative_to(root) else path
    return f"::error file={in_property(str(shown))},line={line},title={in_property(title)}::{in_message(message)}"


def in_message(text: str) -> str:
    """Returns text as the message of a command, in one line."""
    # One line, whatever a name of a trace holds: a line that begins with "::" is a command.
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def in_property(text: str) -> str:
    """Returns text as a property of a command."""
    return in_message(text).replace(":", "%3A").replace(",", "%2C")
