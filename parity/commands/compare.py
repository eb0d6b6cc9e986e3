"""Judge two traces, however they came about."""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this verb's arguments."""
    parser.add_argument("reference", type=Path, help="a trace, e.g. of TensorFlow towers")
    parser.add_argument("candidate", type=Path, help="a trace, e.g. of the port")
    parser.add_argument("--map", type=Path, metavar="FILE", help="a case.toml, or a file with its [mapping] tables")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result for machines")


def run(arguments: argparse.Namespace) -> int:
    """Compares the traces and prints the report; returns the exit code."""
    from rich.console import Console

    from parity.report import print_facts, print_result, write_json
    from parity.run.compare import compare_traces

    result = compare_traces(arguments.reference, arguments.candidate, arguments.map)
    console = Console(highlight=False, soft_wrap=True)
    print_result(result, f"{arguments.reference} and {arguments.candidate}", console)
    if result.verdict != "same":
        console.print()
        print_facts(result, console)
    if arguments.json:
        write_json(result, arguments.json)
    return result.exit_code
