"""Feed a recorded trace to a PyTorch port under DistributedDataParallel, then compare."""

import argparse
from pathlib import Path

from parity.commands.progress import add_amount


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this verb's arguments."""
    parser.add_argument("trace", type=Path, help="a trace as `parity record` leaves it")
    parser.add_argument("--torch", required=True, metavar="MODULE:MODEL", help="class or function that makes the model")
    parser.add_argument("--loss", required=True, metavar="MODULE:FUNCTION", help="loss(model, **inputs), a scalar")
    parser.add_argument(
        "--optimizer",
        metavar="MODULE:FUNCTION",
        help="function of the model that makes the port's own optimizer (default: the twin of the recorded one)",
    )
    parser.add_argument("--map", type=Path, metavar="FILE", help="a case.toml, or a file with its [mapping] tables")
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep the traces and the log here")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the result for machines, and every check to FILE's .checks.npz"
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=300.0,
        metavar="S",
        help="seconds without a sign of life after which the port is ended (default: 300)",
    )
    add_amount(parser)


def run(arguments: argparse.Namespace) -> int:
    """Replays the trace and prints the report; returns the exit code."""
    import tempfile

    from parity.commands.out_folder import claim_file
    from parity.report import report, write_json
    from parity.run.replay import Port, here, replay

    if arguments.json:
        claim_file("--json", arguments.json)
    port = Port(arguments.torch, arguments.loss, arguments.optimizer, here(), arguments.timeout)
    with tempfile.TemporaryDirectory(prefix="parity-replay-") as folder:
        out = arguments.out or Path(folder)
        out.mkdir(parents=True, exist_ok=True)
        result = replay(arguments.trace, port, arguments.map, out)
    if arguments.json:
        write_json(result, arguments.json)
    report(result, str(arguments.trace), arguments.quiet, arguments.verbose)
    return result.exit_code
