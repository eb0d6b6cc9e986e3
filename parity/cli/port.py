"""Write the PyTorch port of a recorded script, and prove it."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from parity.cli.output import alone_in, claim_report_files, progress, reports_on_standard_output, seconds
from parity.exit_codes import ExitCode

if TYPE_CHECKING:
    from parity.judge.result import Result
    from parity.port.source.program import Missing


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this verb's arguments."""
    parser.add_argument("trace", type=Path, help="a trace as `parity record` leaves it")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", default=Path("port"), help="folder of the port (default: port)"
    )
    parser.add_argument(
        "--no-prove", dest="prove", action="store_false", help="write only: the port says that it is UNPROVEN"
    )
    parser.add_argument(
        "--plain",
        action="store_true",
        help="write plain torch where it has what is nearly the same, and say what differs",
    )
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=300.0,
        metavar="S",
        help="seconds without a heartbeat after which the port is ended (default: 300)",
    )
    parser.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="write verdict, files and what is left to write for machines (-: standard output)",
    )
    parser.add_argument("--quiet", action="store_true", help="print the verdict only")


def run(arguments: argparse.Namespace) -> int:
    """Writes the port, proves it and prints what was done; returns the exit code."""
    from parity.port.as_json import left_to_write, port_as_json, result_of
    from parity.port.prove import prove, write_port
    from parity.port.source.program import port_of
    from parity.report import write_json

    # Before the proof, which takes a while: a file that cannot be written is said now.
    claim_report_files(arguments)
    port = port_of(arguments.trace, arguments.plain)
    # For this one alone until it is proven: another would prove what this one writes.
    with alone_in(arguments.out):
        # Before it is proven: should that be stopped, the port is there and says that it is unproven.
        write_port(port, arguments.out, None, arguments.trace)
        proof = None
        if arguments.prove and not port.missing:
            with progress(arguments.quiet) as tick:
                proof = prove(port, arguments.trace, arguments.timeout, tick)
        written = write_port(port, arguments.out, proof, arguments.trace)
    if not reports_on_standard_output(arguments):
        _print_files(written, port.plainly)
        if proof is not None:
            _report(proof, arguments)
    missing = left_to_write(port)
    _print_missing(missing, proof is not None)
    if arguments.json:
        write_json(result_of(port, proof), arguments.json, port=port_as_json(port, arguments.trace, written, proof))
    return (proof.exit_code if proof else 0) or (ExitCode.UNFINISHED if missing else ExitCode.SAME)


def _print_files(written: "Mapping[Path, str]", plainly: "Sequence[str]") -> None:
    for path, difference in written.items():
        print(f"wrote {path}")
        if difference:
            print(f"the file beside it was edited and stays as it is; the difference:\n{difference}")
    for sentence in plainly:
        print(sentence)


def _print_missing(missing: "Sequence[Missing]", proven: bool) -> None:
    from parity.port.as_json import count_by_kind

    for each in missing:
        where = f"{each.where}: " if each.where else ""
        print(f"{where}{each.what} {each.why}. Write it by hand.", file=sys.stderr)
    if missing:
        counts = ", ".join(f"{count} {kind}" for kind, count in count_by_kind(missing).items())
        rest = "" if proven else "; nothing was proven"
        print(f"{len(missing)} parts are left to write by hand ({counts}){rest}", file=sys.stderr)


def _report(proof: "Result", arguments: argparse.Namespace) -> None:
    from parity.report import report

    report(proof, str(arguments.trace), arguments.quiet, False)
