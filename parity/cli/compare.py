"""Judge two traces, however they came about."""

import argparse
from pathlib import Path

from parity.cli.output import (
    add_amount,
    add_report_files,
    add_strict,
    claim_report_files,
    progress,
    shows_tensors,
    write_report_files,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this verb's arguments."""
    parser.add_argument("reference", type=Path, help="a trace, e.g. of TensorFlow towers")
    parser.add_argument("candidate", type=Path, help="a trace, e.g. of the port")
    parser.add_argument("--map", type=Path, metavar="FILE", help="a case.toml, or a file with its [mapping] tables")
    add_strict(parser)
    add_report_files(parser)
    add_amount(parser)


def run(arguments: argparse.Namespace) -> int:
    """Compares the traces and prints the report; returns the exit code."""
    from parity.experiment.compare import compare_traces
    from parity.experiment.replay.program import compare_kept, is_like
    from parity.report import report

    claim_report_files(arguments)
    with progress(arguments.quiet) as tick:
        in_detail = shows_tensors(arguments)
        # Recorded like the reference it is judged as a replay is, in lockstep and by two levels.
        judge = compare_kept if is_like(arguments.reference, arguments.candidate) else compare_traces
        result = judge(arguments.reference, arguments.candidate, arguments.map, in_detail, tick)
    title = f"{arguments.reference} and {arguments.candidate}"
    write_report_files(arguments, result, title)
    report(result, title, arguments.quiet, arguments.verbose)
    return result.strict_exit_code if arguments.strict else result.exit_code
