"""Write the PyTorch port of a recorded script, and prove it."""

import argparse
import sys
from pathlib import Path

from parity.cli.output import progress, seconds

INCOMPLETE = 3  # exit code: beside those of a verdict


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
    parser.add_argument("--quiet", action="store_true", help="print the verdict only")
    parser.epilog = (
        "Exit codes: 0 written and the same, 1 different, 2 could not, 3 written with parts left to write by hand."
    )


def run(arguments: argparse.Namespace) -> int:
    """Writes the port, proves it and prints what was done; returns the exit code."""
    from parity.port.prove import left_of_program, prove, write_port
    from parity.port.source.program import port_of

    port = port_of(arguments.trace, arguments.plain)
    # Before it is proven: should that be stopped, the port is there and says that it is unproven.
    write_port(port, arguments.out, None, arguments.trace)
    proof = None
    if arguments.prove and not port.missing:
        with progress(arguments.quiet) as tick:
            proof = prove(port, arguments.trace, arguments.timeout, tick)
    for path, difference in write_port(port, arguments.out, proof, arguments.trace).items():
        print(f"wrote {path}")
        if difference:
            print(f"the file beside it was edited and stays as it is; the difference:\n{difference}")
    for sentence in port.plainly:
        print(sentence)
    for each in port.missing:
        where = f"{each.where}: " if each.where else ""
        print(f"{where}{each.what} {each.why}. Write it by hand.", file=sys.stderr)
    if port.missing:
        print(f"{len(port.missing)} parts are left to write by hand; nothing was proven", file=sys.stderr)
        return INCOMPLETE
    left = left_of_program(port)
    for what, why in left:
        print(f"{what} {why}. Write it by hand.", file=sys.stderr)
    if proof is not None:
        _report(proof, arguments)
    return (proof.exit_code if proof else 0) or (INCOMPLETE if left else 0)


def _report(proof: object, arguments: argparse.Namespace) -> None:
    from parity.judge.result import Result
    from parity.report import report

    assert isinstance(proof, Result)
    report(proof, str(arguments.trace), arguments.quiet, False)
