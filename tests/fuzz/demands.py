"""What is demanded of whoever reads an input: a value or a refusal, in time, in bounds, and nothing done on the way."""

import contextlib
import io
import os
import resource
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from parity.exit_codes import lacks_memory
from parity.report.failure import described, is_bug
from parity.trace.escape import printable
from parity.worker.protocol import is_refusal

ROOT, HERE = Path(__file__).parents[2], str(Path(__file__).parent)
MOST_SECONDS = 10.0
MOST_BYTES = 1 << 30  # that one input may have a process allocate
MOST_LINES, LONGEST_LINE = 40, 2_001  # of a refusal
FORGED = "verdict: same"  # a line that no text of an input may become
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# Of what changes files: how many paths it is given, and at which places the folders that these are relative to.
CHANGES = {
    "os.remove": (1, (1,)),
    "os.rmdir": (1, (1,)),
    "os.mkdir": (1, (2,)),
    "os.rename": (2, (2, 3)),
    "os.truncate": (1, ()),
    "os.chmod": (1, (2,)),
    "os.chown": (1, (3,)),
    "os.utime": (1, (3,)),
}
STARTS = frozenset(
    [
        "os.system",
        "os.exec",
        "os.posix_spawn",
        "os.spawn",
        "os.fork",
        "subprocess.Popen",
        "pty.spawn",
        "webbrowser.open",
    ]
)
REACHES = frozenset(["socket.connect", "socket.bind", "urllib.Request", "pickle.find_class"])


class Outcome(NamedTuple):
    """What became of one input.

    Fields:
      kind: "accepted", "refused" or "finding".
      what: of a finding, in one line by which it is known again; of a refusal the class of its error.
      detail: of a finding: traceback, or what was done.
    """

    kind: str
    what: str = ""
    detail: str = ""


class BrokenDemand(Exception):
    """A reader, or whoever calls it, has seen something that must not be."""


class Guard:
    """Notes what this process does to files outside of a folder, what it starts, and which code of the folder it runs.

    There is one in a process, for its hook cannot be taken back.

    Args:
      folder: below it everything may be written, and nothing run.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = os.path.realpath(folder) + os.sep
        self._armed = False
        self.done: list[str] = []
        sys.dont_write_bytecode = True  # what is imported on the way is no file that a reader writes
        sys.addaudithook(self._hear)

    @contextlib.contextmanager
    def armed(self) -> Iterator[None]:
        """Notes what is done in a block."""
        self.done.clear()
        self._armed = True
        try:
            yield
        finally:
            self._armed = False

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._armed:
            return
        if event == "open":
            path, mode, flags = arguments
            writes = bool(flags & WRITING) if isinstance(flags, int) else any(each in (mode or "") for each in "wax+")
            if writes and isinstance(path, str | bytes | os.PathLike):
                self._look(event, path)
        elif event in CHANGES:
            count, folders = CHANGES[event]
            within = [arguments[place] if place < len(arguments) else -1 for place in folders] or [-1]
            for path, folder in zip(arguments[:count], within, strict=True):
                self._look(event, path, folder)
        elif event == "os.symlink":
            self._look(event, arguments[1])
        elif event in STARTS or event in REACHES:
            self.done.append(f"{event} {arguments!r}"[:300])
        elif event == "exec" and str(getattr(arguments[0], "co_filename", "")).startswith(self._folder):
            self.done.append(f"runs {arguments[0].co_filename}")

    def _look(self, event: str, path: Any, folder: int = -1) -> None:
        if isinstance(path, int):
            return  # a descriptor that was opened, and looked at then
        # The hook hears itself: `realpath` opens nothing, so that it does not go on for ever.
        text = os.path.join(os.readlink(f"/proc/self/fd/{folder}") if folder >= 0 else "", os.fsdecode(path))
        # What is opened is written through a link; what is removed or renamed is the link.
        folder_of, name = os.path.split(text.rstrip("/"))
        whole = os.path.realpath(text) if event == "open" else os.path.join(os.path.realpath(folder_of), name)
        if not (whole + os.sep).startswith(self._folder) and text != os.devnull:
            self.done.append(f"{event} {text}"[:300])


def limit_memory(most: int = MOST_BYTES) -> None:
    """Has this process fail to allocate more than so many bytes beyond what it has."""
    with open("/proc/self/statm", encoding="ascii") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + most, hard))


def look(guard: Guard, read: Callable[[], Any]) -> Outcome:
    """Calls a reader, and returns what it did."""
    error: BaseException | None = None
    with warnings.catch_warnings(), guard.armed():
        warnings.simplefilter("ignore")
        try:
            read()
        except KeyboardInterrupt:
            raise
        # A script that ends the process, an assertion, a recursion without end: nothing is let through.
        except BaseException as raised:
            error = raised
    if guard.done:
        return Outcome("finding", f"does: {guard.done[0].split()[0]}", "\n".join(guard.done[:20]))
    if error is None:
        return Outcome("accepted")
    if isinstance(error, BrokenDemand):
        return Outcome("finding", str(error).partition("\n")[0][:200], str(error))
    if is_bug(error) or (lacks_memory(error) and not is_refusal(error)):
        return Outcome("finding", f"{type(error).__name__} at {_place(error)}", _traceback(error))
    if fault := fault_of_refusal(described(error).message):
        return Outcome("finding", f"{fault} at {_place(error)}", described(error).message[:2000])
    return Outcome("refused", type(error).__name__)


def fault_of_refusal(message: str) -> str:
    """Returns what is wrong with the message of a refusal, "" where it is as it should be."""
    shown = printable(message)
    if shown.count("\n") >= MOST_LINES:
        return f"a message of more than {MOST_LINES} lines"
    # Escaped a character may become ten.
    if max(map(len, message.split("\n"))) > LONGEST_LINE:
        return f"a line of more than {LONGEST_LINE} characters"
    return "a line of a message that is not its own" if f"\n{FORGED}" in shown else ""


def require_text(shown: str) -> None:
    """Refuses what was printed where it has a character that is not printed, or a line that nobody meant.

    Raises:
      BrokenDemand: it has.
    """
    for each in shown:
        if not (each.isprintable() or each in "\n\t"):
            raise BrokenDemand(f"prints the character {each!a}\n{shown[:2000]!r}")


def _traceback(error: BaseException) -> str:
    try:
        text = "".join(traceback.format_exception(error))
    except MemoryError:
        text = "no room for a traceback"
    return text if len(text) < 6000 else text[:1500] + "\n…\n" + text[-4000:]


def _place(error: BaseException) -> str:
    """The innermost frame of the packages, by which findings of one fault are known as one."""
    found = "?"
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if not code.co_filename.startswith(HERE) and code.co_filename.startswith(str(ROOT)):
            found = f"{Path(code.co_filename).relative_to(ROOT)}:{trace.tb_lineno} {code.co_name}"
        trace = trace.tb_next
    return found


@contextlib.contextmanager
def captured() -> Iterator[io.StringIO]:
    """Gives what is printed in a block, on both streams, as a terminal would get it."""
    from parity.console import escaped_streams

    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown), escaped_streams():
        yield shown


def temporary_files_in(folder: Path) -> None:
    """Has this process make temporary files below a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    tempfile.tempdir = str(folder)
