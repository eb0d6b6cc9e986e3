"""Shows why nothing could be compared: what the side printed, the user's traceback, and one sentence."""

import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from parity.console import open_console
from parity.exit_codes import lacks_memory
from parity.judge.result import Level, Result
from parity.report.html.page import write_html
from parity.report.json_file import write_json
from parity.report.junit import write_junit_failure
from parity.report.markdown import write_markdown
from parity.report.view import LEVELS_IN_ORDER
from parity.worker.failures import TITLES
from parity.worker.protocol import is_refusal

MOST_LINES_OF_MESSAGE = 40
LONGEST_LINE = 2000  # characters: with a long path in it, a sentence is whole


class Failure(NamedTuple):
    """Why nothing could be compared.

    Fields:
      message: who, expected, got, what to do.
      side: "tf", "torch" or "data" where one of them failed, else "".
      traceback: of the user's code, or of ours where the bug is ours; else "".
      printed: what the side printed last, or "".
    """

    message: str
    side: str = ""
    traceback: str = ""
    printed: str = ""


def bounded(message: str) -> str:
    """Returns a message in at most `MOST_LINES_OF_MESSAGE` lines, long ones cut, and none of them like a line of a report.

    What is wrong may be as long as the file that it is in. The lines behind the first are indented: a name of a trace that
    holds an end of line cannot write "verdict: same" at the beginning of one.
    """
    first, *rest = message.splitlines() or [""]
    if len(rest) >= MOST_LINES_OF_MESSAGE:
        left = len(rest) - MOST_LINES_OF_MESSAGE + 2
        rest = [*rest[: MOST_LINES_OF_MESSAGE - 2], f"  … and {left:,} more lines"]
    lines = [first, *(line if line.startswith(" ") else f"  {line}" for line in rest)]
    return "\n".join(line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}…" for line in lines)


def described(error: BaseException, verdict: bool = True) -> Failure:
    """Returns what to say about an exception that ended a command, of one that gives verdicts or of another."""
    if isinstance(error, KeyboardInterrupt):
        when = "before there was a verdict" if verdict else "before it was done"
        return Failure(f"stopped {when}; every process of the run has been ended. Run it again.")
    if is_refusal(error):
        parts = {name: getattr(error, name, "") for name in ("side", "traceback", "printed")}
        return Failure(bounded(str(error)), **parts)
    # A full disk or a folder that may not be written is the machine's, and no bug here.
    if isinstance(error, OSError):
        where = f" {error.filename}" if error.filename else " a file"
        return Failure(
            bounded(f"expected to read or write{where}, got: {error.strerror or error}. Fix that and run again.")
        )
    if lacks_memory(error):
        got = bounded(str(error)) if isinstance(error, MemoryError) else ""
        return Failure(f"expected memory to go on with, got {got or 'none'}. Free some and run again.")
    whole = "".join(traceback.format_exception(error))
    got = f"expected to finish, got {type(error).__name__}: {error}. This is a bug here: report it."
    return Failure(bounded(got), "", whole)


def is_bug(error: BaseException) -> bool:
    """Whether an exception is neither a refusal, nor the machine's, nor an interrupt: its traceback is to be reported."""
    return not (is_refusal(error) or isinstance(error, (OSError, KeyboardInterrupt)) or lacks_memory(error))


def print_failure(error: BaseException, verdict: bool = True) -> None:
    """Prints on stderr what ended a command, the sentence to act on last.

    Args:
      error: what ended it.
      verdict: whether the command would have given one; then it is `incomparable`, and said so.
    """
    from rich.markup import escape
    from rich.text import Text

    failure = described(error, verdict)
    console = open_console(error=True, soft_wrap=True)
    file = _keep_traceback(failure.traceback) if is_bug(error) else ""
    if failure.printed:
        console.print(Text(f"The {TITLES.get(failure.side, failure.side)} last printed:", "bold"))
        console.print(Text("\n".join("  " + line for line in failure.printed.splitlines())))
        console.print()
    if failure.traceback:
        console.print(Text(failure.traceback.rstrip()))
        console.print()
    console.print(f"[bold]parity[/]: {escape(failure.message)}")
    if file:
        console.print(f"parity: its traceback is in {escape(file)}")
    if verdict:
        console.print("verdict: [bold yellow]incomparable[/]")


def _keep_traceback(text: str) -> str:
    """Writes the traceback of a bug; returns the file's name, "" where it could not be written."""
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="parity-error-", suffix=".txt", encoding="utf-8", errors="backslashreplace", delete=False
        ) as file:
            file.write(text)
        return file.name
    except OSError:
        return ""


def write_failure(error: BaseException, path: Path) -> None:
    """Writes the same for machines: verdict `incomparable`, no level run, and the key `error`."""
    failure = described(error)
    found: dict[str, Any] = {"message": failure.message, "side": failure.side or None, "traceback": failure.traceback}
    write_json(nothing_compared(), path, found)


def write_junit_of_failure(error: BaseException, path: Path) -> None:
    """Writes the same as a test report in which every level is an error."""
    failure = described(error)
    write_junit_failure(failure.message, failure.traceback, path)


def write_failure_to(kind: str, error: BaseException, path: Path) -> None:
    """Writes the same as a report of one kind.

    Args:
      kind: "json", "junit", "html" or "markdown".
      error: what ended the command.
      path: the file to make.
    """
    if kind in ("json", "junit"):
        (write_failure if kind == "json" else write_junit_of_failure)(error, path)
    else:
        result = nothing_compared([described(error).message])
        (write_html if kind == "html" else write_markdown)(result, path, "nothing could be compared")


def nothing_compared(notes: Sequence[str] = (), why: str = "nothing could be compared") -> Result:
    """Returns the result of a comparison that was not made.

    Args:
      notes: on it.
      why: the reason that each level gives.
    """
    # The keys of a file with a verdict, so that what reads these files needs no second form.
    levels = {name: Level(name, "not_run", why) for name in LEVELS_IN_ORDER}
    return Result(levels, {}, {}, notes=list(notes))
