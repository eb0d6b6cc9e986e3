"""Feed a recorded trace to a PyTorch port under DistributedDataParallel, or to a training program as it is; compare."""

import argparse
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from parity.cli.output import (
    add_amount,
    add_report_files,
    add_strict,
    alone_in,
    claim_report_files,
    progress,
    replayed_level_names,
    seconds,
    shows_tensors,
    write_report_files,
)

if TYPE_CHECKING:
    from parity.experiment.spec import Progress
    from parity.judge.result import Result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this verb's arguments."""
    parser.usage = (
        "parity replay TRACE (--torch MODULE:MODEL --loss MODULE:FUNCTION | --init DIR | -- COMMAND ARGS…) [options]"
    )
    parser.epilog = (
        "COMMAND is a PyTorch training program as it would be typed, e.g. `-- torchrun --nproc_per_node 2 train.py`: "
        "nothing of it is edited; it is launched for every run, and gets the recorded state, batches and draws."
    )
    parser.set_defaults(command=[])
    parser.add_argument("trace", type=Path, help="a trace as `parity record` leaves it")
    parser.add_argument("--torch", metavar="MODULE:MODEL", help="class or function that makes the model")
    parser.add_argument(
        "--loss",
        action="append",
        default=[],
        metavar="[OPTIMIZER=]MODULE:FUNCTION",
        help="loss(model, **inputs), a scalar; once for every optimizer of a script that has several",
    )
    parser.add_argument(
        "--optimizer",
        action="append",
        default=[],
        metavar="[OPTIMIZER=]MODULE:FUNCTION",
        help="function of the model that makes the port's own optimizer (default: the twin of the recorded one)",
    )
    parser.add_argument(
        "--step",
        action="append",
        default=[],
        metavar="[OPTIMIZER=]MODULE:FUNCTION",
        help="step(model, optimizer, scheduler, **inputs), a whole update as the port makes it",
    )
    parser.add_argument(
        "--init", type=Path, metavar="DIR", help="run nothing: write the skeleton of a port into DIR, to be filled in"
    )
    parser.add_argument("--map", type=Path, metavar="FILE", help="a case.toml, or a file with its [mapping] tables")
    parser.add_argument(
        "--levels",
        type=replayed_level_names,
        default=["function", "float32"],
        metavar="1,2",
        help="levels to decide, by number or name: 1 function, which needs the trace's float64 shadow, 2 float32 "
        "(default: 1,2)",
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep the traces and the log here")
    add_strict(parser)
    add_report_files(parser)
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=300.0,
        metavar="S",
        help="seconds without a heartbeat after which the port is ended (default: 300)",
    )
    add_amount(parser)


def run(arguments: argparse.Namespace) -> int:
    """Replays the trace and prints the report; returns the exit code."""
    if arguments.init:
        return _init(arguments)
    return _judged(arguments, _program if arguments.command else _port)


def _init(arguments: argparse.Namespace) -> int:
    from parity.experiment.replay.skeleton import write_skeleton

    for file in write_skeleton(arguments.trace, arguments.init):
        print(f"wrote {file}")
    return 0


def _judged(arguments: argparse.Namespace, replayed: "Callable[..., Result]") -> int:
    from parity.report import report
    from parity.worker.reaper import temporary_folder

    # Before the run, which takes minutes: a file that cannot be written is said now.
    claim_report_files(arguments)
    with contextlib.ExitStack() as stack:
        # For this run alone as a whole: of the traces in it each is locked too, but only while it is written.
        out = arguments.out and stack.enter_context(alone_in(arguments.out))
        out = out or Path(stack.enter_context(temporary_folder("parity-replay-")))
        with progress(arguments.quiet) as tick:
            result = replayed(arguments, out, tick)
    write_report_files(arguments, result, str(arguments.trace))
    report(result, str(arguments.trace), arguments.quiet, arguments.verbose)
    return result.strict_exit_code if arguments.strict else result.exit_code


def _port(arguments: argparse.Namespace, out: Path, tick: "Progress") -> "Result":
    from parity.cli.errors import CommandError
    from parity.experiment.replay.session import Port, here, replay

    if not arguments.torch or not arguments.loss:
        raise CommandError(
            "replay: expected --torch and --loss, or --init, or `-- COMMAND`, got neither. Name the port, write its "
            "skeleton with --init, or end with `-- torchrun … train.py`."
        )
    losses, optimizers = by_section("--loss", arguments.loss), by_section("--optimizer", arguments.optimizer)
    port = Port(arguments.torch, losses, optimizers, here(), arguments.timeout, by_section("--step", arguments.step))
    return replay(arguments.trace, port, arguments.map, out, tick, shows_tensors(arguments), arguments.levels)


def _program(arguments: argparse.Namespace, out: Path, tick: "Progress") -> "Result":
    from parity.cli.errors import CommandError
    from parity.experiment.replay.program import replay_program

    named = [name for name in ("torch", "loss", "optimizer", "step") if getattr(arguments, name)]
    if named:
        raise CommandError(
            f"replay: expected a port or a program behind --, got both: --{named[0]} and {arguments.command[0]}. "
            "Leave one out."
        )
    in_detail = shows_tensors(arguments)
    return replay_program(
        arguments.trace, arguments.command, arguments.map, out, tick, in_detail, arguments.levels, arguments.timeout
    )


def by_section(option: str, given: list[str]) -> dict[str, str]:
    """Takes ``OPTIMIZER=MODULE:FUNCTION`` apart: dict of optimizer, "" where none is named, to the rest.

    Raises:
      CommandError: one is named twice, or is no "MODULE:FUNCTION".
    """
    from parity.cli.errors import CommandError

    found: dict[str, str] = {}
    for text in given:
        # The last "=": names of optimizers may hold one, modules and functions cannot.
        name, _, spec = text.rpartition("=")
        if name in found or not all(spec.partition(":")):
            raise CommandError(
                f"{option}: expected [OPTIMIZER=]MODULE:FUNCTION, once for each, got {text}. "
                f"Write e.g. {option} port:loss."
            )
        found[name] = spec
    return found
