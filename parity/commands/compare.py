"""Judge two traces, however they came about."""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this verb's arguments."""
    parser.add_argument("reference", type=Path, help="a trace, e.g. of TensorFlow towers")
    parser.add_argument("candidate", type=Path, help="a trace, e.g. of the port")
    parser.add_argument("--map", type=Path, metavar="FILE", help="a case.toml, or a file with its [mapping] tables")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the result for machines, and every check to FILE's .checks.npz"
    )
    amount = parser.add_mutually_exclusive_group()
    amount.add_argument("--quiet", action="store_true", help="print the line of the verdict only")
    amount.add_argument(
        "--verbose", action="store_true", help="also print all facts and notes, the ten worst tensors and the mapping"
    )


def run(arguments: argparse.Namespace) -> int:
    """Compares the traces and prints the report; returns the exit code."""
    from parity.commands.out_folder import claim_file
    from parity.report import report, write_json
    from parity.run.compare import compare_traces

    if arguments.json:
        claim_file("--json", arguments.json)
    result = compare_traces(arguments.reference, arguments.candidate, arguments.map)
    if arguments.json:
        write_json(result, arguments.json)
    report(result, f"{arguments.reference} and {arguments.candidate}", arguments.quiet, arguments.verbose)
    return result.exit_code
