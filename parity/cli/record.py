"""Run an unmodified TensorFlow script or PyTorch training program under instrumentation and leave a trace."""

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from parity.exit_codes import ExitCode

END_SECONDS = 10.0  # seconds in which a script may write its checkpoint and the trace, before it is killed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this verb's arguments."""
    parser.usage = (
        "parity record [--steps N] [--skip N] [--gpus N] [--out DIR] [--[no-]shadow] [--tf-python PATH] [--like TRACE] "
        "[--timeout SECONDS] "
        "(-- SCRIPT ARGS… | -m MODULE ARGS… | -- torchrun|python|accelerate ARGS…)"
    )
    parser.add_argument("--steps", type=int, metavar="N", help="end after N recorded training steps, with exit code 0")
    parser.add_argument("--skip", type=int, metavar="N", default=0, help="let N training steps go by first")
    parser.add_argument(
        "--gpus",
        type=int,
        metavar="N",
        default=0,
        help="have a script that counts GPUs find N of them; its towers run on the CPU",
    )
    parser.add_argument("--out", metavar="DIR", help="folder of the trace (default: SCRIPT.trace)")
    parser.add_argument(
        "--shadow",
        action="store_true",
        default=None,
        help="launch a PyTorch program anew, in float64 on its own recording, which level 1 of `parity replay` needs; for a "
        "TensorFlow script that is the default",
    )
    parser.add_argument(
        "--no-shadow",
        dest="shadow",
        action="store_false",
        default=None,
        help="do not compute the steps once more in float64, which level 1 of `parity replay` needs",
    )
    parser.add_argument(
        "--tf-python",
        metavar="PATH",
        help="interpreter that the script runs in, e.g. of a Python 3.7 environment (default: $PARITY_TF_PYTHON, this)",
    )
    parser.add_argument(
        "--like",
        type=Path,
        metavar="TRACE",
        help="train a PyTorch program on what a trace recorded: its state before each step, its batches, its draws",
    )
    parser.add_argument("--map", type=Path, metavar="FILE", help="of --like: a file with [mapping] tables")
    parser.add_argument(
        "--timeout",
        type=float,
        metavar="SECONDS",
        help="without a training step after which a PyTorch program counts as hanging (default: 1800)",
    )
    parser.add_argument(
        "-m", dest="module", nargs=argparse.REMAINDER, metavar="MODULE", help="run a module, as python -m"
    )
    parser.add_argument("script", nargs=argparse.REMAINDER, metavar="SCRIPT", help="the script and its own arguments")
    parser.epilog = (
        "The script's output and exit code are its own; what was found is printed on stderr and kept in the trace. Where it "
        "ended with 0 and not all was recorded, or it could not be run, the exit code is ours."
    )


def run(arguments: argparse.Namespace) -> int:
    """Runs the script in its interpreter; returns its exit code, or 0 once --steps are recorded."""
    from parity.cli.errors import CommandError
    from parity.trace import Ownership
    from parity.worker.protocol import FOLDER_VARIABLE
    from parity.worker.reaper import temporary_folder

    program = _program(arguments)
    if program:
        record = _record_like if arguments.like else _record_program
        # From here on and not from the first file: a program may train for hours before its trace is put together.
        out = Path(arguments.out or _stem_of_program(program))
        with Ownership(out):
            return record(arguments, program, out)
    if arguments.like:
        print(
            "parity: record: expected a PyTorch program behind --like, e.g. `-- torchrun --nproc_per_node 2 train.py`, "
            "got a script of TensorFlow. Record it without --like.",
            file=sys.stderr,
        )
        return ExitCode.INCOMPARABLE
    try:
        command = _command(arguments)
    except CommandError as error:
        print(f"parity: {error}", file=sys.stderr)
        return ExitCode.INCOMPARABLE
    log = Path(f"{os.path.abspath(_out(arguments))}.log")
    # From here to the end, and for the recorder in the other process: of two that are started at once into one folder the
    # second is refused before it has touched anything.
    with Ownership(_out(arguments)) as ownership, temporary_folder("parity-record-") as folder:
        # Of an earlier recording: the file is made again only if there is a message to keep.
        log.unlink(missing_ok=True)
        return _record_script(command, log, {**os.environ, **ownership.handed_on(), FOLDER_VARIABLE: folder})


def _record_script(command: list[str], log: Path, environment: dict[str, str]) -> int:
    from parity.cli.framework_log import FrameworkLog

    # Standard output is the script's own; only stderr is read, for TensorFlow's messages are taken out of it.
    process = subprocess.Popen(command, stderr=subprocess.PIPE, env=environment)
    assert process.stderr is not None  # for it is a pipe
    messages = FrameworkLog(process.stderr, log)
    try:
        code = process.wait()
    except BaseException:
        # Ctrl-C reaches the script as well, being of the same terminal; a cancelled job ends the command alone.
        _end(process)
        raise
    finally:
        messages.close()
        process.stderr.close()
    if messages.lines:
        print(f"record: {messages.lines} lines of TensorFlow's own messages are in {log}", file=sys.stderr)
    # A script that a signal ended returns minus its number: 128 + number is what a shell would say.
    return 128 - code if code < 0 else code


def _program(arguments: argparse.Namespace) -> list[str]:
    """Returns the command of a PyTorch program, [] where a script of TensorFlow is named: its first word is the script."""
    words = arguments.script[1:] if arguments.script[:1] == ["--"] else list(arguments.script)
    if arguments.module or not words or words[0].endswith(".py"):
        return []
    return words if shutil.which(words[0]) else []


def _record_program(arguments: argparse.Namespace, command: list[str], out: Path) -> int:
    from parity.cli.errors import CommandError
    from parity.record.record import HANGS_SECONDS, record_program

    if arguments.skip < 0 or (arguments.steps is not None and arguments.steps < 1):
        raise CommandError(
            f"record: expected --steps from 1 and --skip from 0, got {arguments.steps} and {arguments.skip}."
        )
    if arguments.timeout is not None and not arguments.timeout > 0:
        raise CommandError(f"record: expected --timeout above 0, got {arguments.timeout:g}.")
    code = record_program(command, str(out), arguments.steps, arguments.skip, arguments.timeout or HANGS_SECONDS)
    if arguments.shadow and not code:
        _leave_shadow(out, command)
    return code


def _leave_shadow(out: Path, command: list[str]) -> None:
    from parity.cli.output import progress
    from parity.experiment.replay.own_shadow import make_shadow

    with progress(False) as tick:
        make_shadow(out, command, tick)
    print("record: shadow: in float64 beside the trace", file=sys.stderr)


def _record_like(arguments: argparse.Namespace, command: list[str], out: Path) -> int:
    from parity.cli.errors import CommandError
    from parity.cli.output import progress
    from parity.experiment.replay.program import record_like

    if arguments.steps is not None or arguments.skip:
        raise CommandError("record: expected the steps of --like, got --steps or --skip as well. Leave them out.")
    with progress(False) as tick:
        trace = record_like(arguments.like, command, arguments.map, out, tick)
    print(f"record: {len(trace.step_numbers)} steps of {trace.facts['ranks']} ranks in {out}", file=sys.stderr)
    print(f"record: judge them by `parity compare {arguments.like} {out}`", file=sys.stderr)
    return 0


def _stem_of_program(command: list[str]) -> str:
    """Returns the folder of a program's trace: by its script, its module, or its first word."""
    scripts = [word for word in command[1:] if word.endswith(".py")]
    named = scripts or [command[place + 1] for place, word in enumerate(command[:-1]) if word == "-m"] or command
    return f"{os.path.splitext(os.path.basename(named[0]))[0]}.trace"


def _out(arguments: argparse.Namespace) -> str:
    """Returns the trace's folder, as the recorder itself names it."""
    words = arguments.module or [word for word in arguments.script if word != "--"]
    stem = words[0] if arguments.module else os.path.splitext(os.path.basename(words[0]))[0]
    return arguments.out or f"{stem}.trace"


def _command(arguments: argparse.Namespace) -> list[str]:
    from parity.cli.errors import CommandError
    from parity.worker.interpreters import probe

    python = arguments.tf_python or os.environ.get("PARITY_TF_PYTHON") or sys.executable
    words = _words(arguments)
    described = probe(python)
    if described is None:
        raise CommandError(
            f"--tf-python: expected a Python interpreter, got {python}, which does not run. Name another."
        )
    if "tensorflow" not in described:
        raise CommandError(
            f"record: expected TensorFlow in {python}, got none. Install it there, or name another with --tf-python; "
            "a PyTorch program is recorded as it is launched: `parity record -- python SCRIPT`."
        )
    return [python, *words]


def _words(arguments: argparse.Namespace) -> list[str]:
    from parity.cli.errors import CommandError
    from parity.worker import bootstrap

    script = arguments.script[1:] if arguments.script[:1] == ["--"] else arguments.script
    # "--" between the recorder's options and the script's own, which may be called alike.
    what = ["-m", *arguments.module] if arguments.module else ["--", *script]
    if len(what) < 2 or (arguments.module and script):
        raise CommandError("record: expected a script or -m MODULE, got neither or both. Write `-- SCRIPT ARGS…` last.")
    if not arguments.module and not os.path.isfile(script[0]):
        raise CommandError(f"record: expected a script at {script[0]}, got no such file. Write its path.")
    if arguments.skip < 0 or (arguments.steps is not None and arguments.steps < 1):
        raise CommandError(
            f"record: expected --steps from 1 and --skip from 0, got {arguments.steps} and {arguments.skip}."
        )
    if arguments.gpus < 0:
        raise CommandError(f"record: expected --gpus from 1, got {arguments.gpus}.")
    # By the file, not by -m: the other interpreter need not have these packages installed.
    words = [str(bootstrap.__file__), "tf_towers.record", "--skip", str(arguments.skip), "--gpus", str(arguments.gpus)]
    words += ["--steps", str(arguments.steps)] if arguments.steps is not None else []
    words += ["--out", arguments.out] if arguments.out else []
    words += ["--no-shadow"] if arguments.shadow is False else []
    return words + what


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Ends the script as it would be ended from the terminal, and then for good."""
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(END_SECONDS)
    if process.poll() is None:
        process.kill()
        process.wait()
