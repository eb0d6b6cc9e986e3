"""Options that verbs share: levels, output folders, report files, progress, time-outs."""

import argparse
import contextlib
import importlib.util
import math
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parity.cli.errors import CommandError

if TYPE_CHECKING:
    from parity.experiment.power import Power
    from parity.judge.result import Result


# What a run leaves, and may therefore remove: anything else in a folder is somebody's, who named the wrong one.
OF_A_RUN = frozenset(["feeds", "logs", "start", "states", "tf", "torch", "torch-rounded", "planted"])
# Of a run with a declared difference taken back, and of perturbed batches, which only a run that was killed leaves.
BEGINNINGS = ("without-", "perturbed-")
OF_A_REPRODUCTION = frozenset(
    ["with_tensorflow.py", "with_torch.py", "counters.npz"]
    + [f"{what}_{side}.npz" for what in ("batch", "state", "gradient", "gradients") for side in ("tf", "torch")]
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
    with alone_in(out):
        _empty("--out", out, _is_of_a_run)
        yield out


def claim_reproduction(folder: Path) -> Path:
    """Returns the folder of --reproduce, made if missing and emptied of what an earlier run left.

    Raises:
      CommandError: it is no folder, cannot be made, or holds anything that no reproduction does.
    """
    _empty("--reproduce", folder, lambda entry: entry.is_file() and entry.name in OF_A_REPRODUCTION)
    return folder


def _is_of_a_run(entry: Path) -> bool:
    return entry.is_dir() and (entry.name in OF_A_RUN or entry.name.startswith(BEGINNINGS))


@contextlib.contextmanager
def alone_in(out: Path) -> Iterator[Path]:
    """Gives a run the folder of --out for itself, made if missing, with what is in it.

    Raises:
      CommandError: it is no folder, cannot be made, or another run writes to it.
    """
    from parity.trace import lock_folder

    _entries("--out", out)
    try:
        held = lock_folder(out)
    except BlockingIOError:
        raise CommandError(
            f"--out: expected {out} for this run alone, got another run that writes to it. "
            "Name another folder, or wait until that has ended."
        ) from None
    try:
        yield out
    finally:
        if held is not None:
            os.close(held)


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
    """Returns `path`, its folder made: that a file cannot be written is said before a run of minutes, not after it.

    An older file stays until a new one takes its place. What fails writes a report too, so that nothing old is read as new.

    Args:
      option: for the message, e.g. "--json".
      path: the file to be written when all is done; "-" is standard output.

    Raises:
      CommandError: it is a folder, or cannot be written.
    """
    from parity.report.atomic import try_writing

    try:
        try_writing(path)
    except OSError as error:
        raise CommandError(
            f"{option}: expected a file that can be written at {path}, got: {error.strerror}. Name another."
        ) from None
    return path


Progress = Callable[[str, int, int], None]


def add_amount(parser: argparse.ArgumentParser) -> None:
    """Adds --quiet and --verbose."""
    amount = parser.add_mutually_exclusive_group()
    amount.add_argument("--quiet", action="store_true", help="print the line of the verdict only, and no progress")
    amount.add_argument(
        "--verbose", action="store_true", help="also print all facts and notes, the ten worst tensors and the mapping"
    )


@contextlib.contextmanager
def progress(quiet: bool = False) -> Iterator[Progress]:
    """Gives a function that is told what is being done, how much of it is done, and of how much.

    It draws a bar for each thing that is under way, on standard error where that is a terminal, and leaves nothing behind.

    Args:
      quiet: draw nothing.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from parity.console import open_console

    # On standard error, for standard output is the report's: it may go into a file or a pipe.
    console = open_console(error=True)
    if quiet or not console.is_terminal:
        yield lambda what, done, total: None
        return
    columns = (TextColumn("{task.description:<24}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as shown:
        tasks: dict[str, Any] = {}

        def tick(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = shown.add_task(what, total=total)
            # What is done disappears, or a run of many parts would fill the screen with full bars.
            shown.update(tasks[what], completed=done, visible=done < total)

        yield tick


def claim_events(folder: Path) -> Path:
    """Returns `folder`, its parts made and the event files of an earlier run removed; other files stay.

    Raises:
      CommandError: it cannot be written, or the package tensorboard is not installed.
    """
    from parity.report.tensorboard import EVENTS, SIDES

    if importlib.util.find_spec("tensorboard") is None:
        raise CommandError(
            "--tensorboard: expected the package tensorboard, got none. "
            "Install it (pip install tensorboard), or leave the option out."
        )
    try:
        for side in SIDES:
            (folder / side).mkdir(parents=True, exist_ok=True)
            # With a suffix of our own: a folder that TensorBoard shows may hold the events of somebody's training.
            for old in (folder / side).glob(f"{EVENTS}.*.parity"):
                old.unlink()
    except OSError as error:
        raise CommandError(
            f"--tensorboard: expected a folder that can be written at {folder}, got: {error.strerror}. Name another."
        ) from None
    return folder


# By the option that names the file.
OPTIONS = {
    "json": "write the result for machines, and every check to FILE's .checks.npz",
    "html": "write the result as a page that opens in a browser, without a network",
    "junit": "write the result as a JUnit test report, a test case per level",
    "markdown": "write the result as Markdown, for a comment on a pull request",
}

OTHER_REPORTS = ("sarif",)  # of verbs that give no verdict

SHOW_TENSORS = ("html", "tensorboard")
TENSORBOARD = "write scalars and histograms as event files, for `tensorboard --logdir DIR`"


def add_strict(parser: argparse.ArgumentParser) -> None:
    """Adds the option by which what was not judged is no success."""
    parser.add_argument(
        "--strict",
        action="store_true",
        help="exit 2 where the verdict is same and something was not judged, e.g. how the port combines gradients",
    )


def add_report_files(parser: argparse.ArgumentParser) -> None:
    """Adds an option for each kind of file."""
    for name, help_ in OPTIONS.items():
        parser.add_argument(f"--{name}", type=Path, metavar="FILE", help=f"{help_} (-: standard output)")
    parser.add_argument("--tensorboard", type=Path, metavar="DIR", help=TENSORBOARD)
    parser.add_argument(
        "--since",
        type=Path,
        metavar="FILE",
        help="say what changed since the run whose --json file this is: verdict, first difference, causes, tensors, facts",
    )


def claim_report_files(arguments: argparse.Namespace) -> None:
    """Makes the files that were asked for ready, so that nothing old is read as new, and reads that of --since.

    Raises:
      CommandError: one cannot be written, two options name one file, or TensorBoard is not there to write with.
      SinceError: what --since names is no earlier run's.
    """
    if getattr(arguments, "since", None):
        from parity.report.since import read_earlier

        # Before the run, for --json may name the same file.
        arguments.earlier = read_earlier(arguments.since)
    # All are looked at before any is touched: a second option of the same name must cost no file.
    taken: dict[Path, str] = {}
    for name, path in _asked(arguments):
        other = taken.setdefault(path.resolve(), name)
        if other != name:
            raise CommandError(
                f"--{name}: expected a file of its own, got {path}, which --{other} names. Name another."
            )
    for name, path in _asked(arguments):
        claim_file(f"--{name}", path)
    if getattr(arguments, "tensorboard", None):
        claim_events(arguments.tensorboard)


def shows_tensors(arguments: argparse.Namespace) -> bool:
    """Says whether a file was asked for that shows the values of tensors, which only the traces hold."""
    return any(getattr(arguments, name, None) for name in SHOW_TENSORS)


def write_report_files(
    arguments: argparse.Namespace,
    result: "Result",
    title: str,
    power: "Power | None" = None,
    origin: "Callable[[], dict[str, Any]] | None" = None,
) -> None:
    """Writes the files that were asked for, and compares with the run of --since.

    Args:
      arguments: that ask for them.
      result: what was found; gets its provenance, and what changed since the run of --since.
      title: the case's name, or the traces'.
      power: what planted bugs showed, which stands in the JSON.
      origin: gives where the report comes from; by default the working directory's commit, without a case.
    """
    from parity.report import write_html, write_json, write_junit, write_markdown, write_tensorboard

    if _asked(arguments) or arguments.since:
        from parity.report.provenance import provenance

        result.provenance = (origin or provenance)()
    if arguments.since:
        from parity.report.since import changes_since

        result.since = changes_since(arguments.since, arguments.earlier, result)
    writers = {"html": write_html, "junit": write_junit, "markdown": write_markdown}
    for name, path in _asked(arguments):
        if name == "json":
            write_json(result, path, power=power)
        else:
            writers[name](result, path, title)
    if getattr(arguments, "tensorboard", None):
        write_tensorboard(result, arguments.tensorboard)


def write_failure_files(arguments: argparse.Namespace, error: BaseException) -> None:
    """Writes into every file that was asked for why nothing could be compared; what cannot be written is told on stderr."""
    from parity.report.atomic import forget

    if arguments.verb == "run" and arguments.annotations and len(arguments.case) == 1:
        _annotate_failure(arguments.case[0], error)

    for name, path in _asked(arguments):
        # A file that is itself the reason cannot say so.
        if str(error).startswith(f"--{name}: "):
            continue
        if name in OTHER_REPORTS:
            forget(path)
            continue
        try:
            from parity.report.failure import write_failure_to

            write_failure_to(name, error, path)
        except (OSError, MemoryError) as unwritten:
            # A report that was written before the failure, or by an earlier run, would be taken for this run's.
            forget(path)
            why = unwritten.strerror if isinstance(unwritten, OSError) else "no memory"
            print(f"parity: --{name}: expected to write {path}, got: {why}.", file=sys.stderr)


def _annotate_failure(case: Path, error: BaseException) -> None:
    from parity.cli.batch.command import annotations_of
    from parity.report.failure import described

    for line in annotations_of(case, {"verdict": "incomparable", "error": {"message": described(error).message}}):
        print(line)


def reports_on_standard_output(arguments: argparse.Namespace) -> bool:
    """Tells whether a report was asked for on standard output, which is then no place for text."""
    return any(str(path) == "-" for _, path in _asked(arguments))


def _asked(arguments: argparse.Namespace) -> list[tuple[str, Path]]:
    names = (*OPTIONS, *OTHER_REPORTS)
    found = [(name, getattr(arguments, name, None)) for name in names if hasattr(arguments, "json")]
    return [(name, path) for name, path in found if path is not None]


def seconds(text: str) -> float:
    """Returns a positive, finite number of seconds.

    Raises:
      ArgumentTypeError: it is none.
    """
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    # NaN is neither, and is refused by this too.
    if not 0 < found < math.inf:
        raise argparse.ArgumentTypeError(f"expected a positive number of seconds, got {text!r}")
    return found


LEVEL_NAMES = {"1": "function", "2": "float32", "3": "trajectory", "4": "mixed"}


_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def byte_count(text: str) -> int:
    """Returns a number of bytes written as "2GB", "500MB" or "1e9"."""
    found = re.fullmatch(r"([0-9.]+(?:e[0-9]+)?)\s*([KMGT]?)B?", text.strip(), re.IGNORECASE)
    try:
        count = int(float(found.group(1)) * _UNITS[found.group(2).upper()]) if found else 0
    except ValueError:
        count = 0
    if count <= 0:
        raise argparse.ArgumentTypeError(f"expected bytes such as 2GB or 500MB, got {text!r}")
    return count


def level_names(text: str) -> list[str]:
    """Returns the names of levels that are given by number or name, e.g. "1,2"."""
    return _named(text, LEVEL_NAMES)


def replayed_level_names(text: str) -> list[str]:
    """The same of those that a replay decides."""
    return _named(text, {number: LEVEL_NAMES[number] for number in ("1", "2")})


def _named(text: str, known: dict[str, str]) -> list[str]:
    names = []
    for part in text.split(","):
        name = known.get(part.strip(), part.strip())
        if name not in known.values():
            raise argparse.ArgumentTypeError(
                f"expected levels among {', '.join([*known, *known.values()])}, got {part!r}"
            )
        names.append(name)
    return names
