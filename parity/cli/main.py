"""The command line: its verbs, and what every one of them has in common; its exit codes are `parity.exit_codes`."""

import argparse
import contextlib
import difflib
import io
import mmap
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any, NamedTuple

from parity import __version__
from parity.cli import bless, compare, completion, doctor, explain, map, port, record, replay, run, scan, show, teach
from parity.exit_codes import TABLE, ExitCode, lacks_memory


class Command(NamedTuple):
    """One verb.

    Fields:
      name: as typed.
      help: one line.
      add_arguments: function of a parser.
      run: function of the parsed arguments; returns the exit code.
    """

    name: str
    help: str
    add_arguments: Any
    run: Any


def _command(module: ModuleType) -> Command:
    # A verb is called as its module is, and its help is that module's first line: neither is written twice.
    name = module.__name__.rpartition(".")[2]
    return Command(name, (module.__doc__ or "").splitlines()[0], module.add_arguments, module.run)


COMMANDS = [
    _command(module)
    for module in (run, scan, record, replay, port, compare, map, show, bless, explain, teach, doctor, completion)
]
RESERVED_BYTES = 64 << 20  # what it takes to write all reports, their imports included
GIVE_VERDICTS = frozenset(["run", "replay", "compare"])  # they say "verdict: incomparable" where they fail


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code.

    Args:
      arguments: the words after the program's name; by default the process's own.
    """
    _open_closed_streams()
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except Exception as error:
        if lacks_memory(error):  # not even enough to import what says so
            with contextlib.suppress(OSError):
                os.write(2, b"parity: expected memory to go on with, got none. Free some and run again.\n")
            return ExitCode.INCOMPARABLE
        # What failed was to say what failed: left to Python it would end with 1, which says "different".
        with contextlib.suppress(OSError):
            traceback.print_exception(error)
        return ExitCode.INTERNAL_ERROR
    finally:
        _flush_streams()


def _run(arguments: Sequence[str] | None) -> int:
    words, command = _split_command(list(sys.argv[1:] if arguments is None else arguments))
    parsed = build_parser().parse_args(words)
    if command is not None:
        parsed.command = command
    from parity.cli.output import reports_on_standard_output
    from parity.console import escaped_streams

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # as stderr does: a name in an old locale ends no report
    # Addresses and no memory, for no page of it is touched: without them nothing could say that there is no more to be had.
    reserve = mmap.mmap(-1, RESERVED_BYTES)
    with escaped_streams(data=reports_on_standard_output(parsed)), contextlib.closing(reserve):
        try:
            with _ended_as_interrupted(), _reader_may_leave():
                code = int(parsed.run(parsed))
                # Within the block: what is still buffered would otherwise meet the closed pipe only at the end of Python.
                sys.stdout.flush()
                return code
        # No `Exception`, and the most usual way to end a run.
        except KeyboardInterrupt as interrupt:
            return _failed(parsed, interrupt)
        except Exception as error:
            reserve.close()
            return _failed(parsed, error)


def _split_command(words: list[str]) -> tuple[list[str], list[str] | None]:
    """Splits the command behind "--" off the words of `parity replay`: argparse would give it the options before as well."""
    if words[:1] != ["replay"] or "--" not in words:
        return words, None
    place = words.index("--")
    return words[:place], words[place + 1 :]


class _SuggestingParser(argparse.ArgumentParser):
    """A parser, of verbs and of their options, that names the choice which a misspelt one resembles."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            closest = difflib.get_close_matches(str(value), [str(choice) for choice in action.choices or ()], 1)
            if closest:
                error.message += f". Did you mean {closest[0]!r}?"
            raise


def build_parser() -> argparse.ArgumentParser:
    """Returns the parser of the whole command line."""
    parser = _SuggestingParser(
        prog="parity",
        description="Proves that a PyTorch port of TensorFlow 1 tower training is the same training, down to rounding.",
        epilog="Begin with `parity doctor`, then `parity run CASE`; `parity VERB --help` lists a verb's options. "
        f"Exit codes: {TABLE}.",
    )
    parser.add_argument("--version", action="version", version=f"tower-parity {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for command in COMMANDS:
        sub = verbs.add_parser(command.name, help=command.help, description=command.help)
        command.add_arguments(sub)
        sub.epilog = f"{sub.epilog or ''} Exit codes: {TABLE}."
        sub.set_defaults(run=command.run)
    return parser


@contextlib.contextmanager
def _ended_as_interrupted() -> Iterator[None]:
    # So that a cancelled job, or one whose terminal is closed, ends its sides and removes its folders like one stopped with
    # Ctrl-C.
    # Python sets handlers in the main thread alone; in any other this was called as a function.
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    numbers = [signal.SIGTERM, signal.SIGHUP] if hasattr(signal, "SIGHUP") else [signal.SIGTERM]
    # What is ignored stays so: that is how `nohup` has a job outlive its terminal.
    before = {number: signal.getsignal(number) for number in numbers}
    heard = [number for number in numbers if before[number] is not signal.SIG_IGN]
    for number in heard:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number in heard:
            signal.signal(number, before[number])


@contextlib.contextmanager
def _reader_may_leave() -> Iterator[None]:
    # `parity … | head -1` closes the pipe early; Python would complain about it once more at its end.
    try:
        yield
    except (BrokenPipeError, SystemExit) as left:
        # The package that prints ends the program with 1 then, which would say "different".
        if isinstance(left, SystemExit) and not isinstance(left.__context__, BrokenPipeError):
            raise
        _send_nowhere(1)
        raise BrokenPipeError from None


def _failed(parsed: argparse.Namespace, error: BaseException) -> int:
    code = _code_of(error)
    # Standard error may be closed or full: what happened is in the exit code all the same.
    with contextlib.suppress(OSError):
        if not isinstance(error, BrokenPipeError):
            _tell(parsed, error)
    return code


def _code_of(error: BaseException) -> ExitCode:
    from parity.report.failure import is_bug

    if isinstance(error, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    return ExitCode.INTERNAL_ERROR if is_bug(error) else ExitCode.INCOMPARABLE


def _tell(parsed: argparse.Namespace, error: BaseException) -> None:
    from parity.cli.mapping_table import leave_table
    from parity.cli.output import write_failure_files
    from parity.report import print_failure

    try:
        print_failure(error, _gives_verdict(parsed))
        # After the message: where the table is stands last on the screen.
        leave_table(parsed, error)
    finally:
        write_failure_files(parsed, error)


def _flush_streams() -> None:
    """Writes what is buffered, and drops what cannot be: at its own end Python would try again, and leave with 120."""
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        try:
            stream.flush()
        except (OSError, ValueError):  # ValueError: it is closed
            _send_nowhere(number)


def _send_nowhere(number: int) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, number)
    os.close(nowhere)


def _open_closed_streams() -> None:
    """Opens standard streams that the process was started without, on nothing.

    Python has None in their place, and the next file that is opened would get their number, and what children print.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
            setattr(sys, name, open(nowhere, "r" if not number else "w", encoding="utf-8", closefd=False))  # noqa: SIM115


def _gives_verdict(parsed: argparse.Namespace) -> bool:
    # What replay --init writes is a skeleton.
    return parsed.verb in GIVE_VERDICTS and not getattr(parsed, "init", None)
