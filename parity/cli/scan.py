"""Read legacy source, run nothing: where its towers are, what will go wrong under DDP, how much work it is."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from parity.cli.output import claim_report_files, progress, reports_on_standard_output
from parity.exit_codes import ExitCode

if TYPE_CHECKING:
    from parity.scan.result import Scan, Severity

LEVEL_WORDS = ("error", "warning", "note", "never")
REPORTS_OF_A_SCAN = {
    "json": "write everything for machines, and for --baseline",
    "sarif": "write the findings as SARIF 2.1.0, for GitHub's code scanning",
    "markdown": "write the scan as Markdown",
    "html": "write the inventory as a page that can be filtered, without a network",
    "junit": "write the findings as a JUnit test report, a test case per rule",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this verb's arguments."""
    parser.add_argument(
        "paths", nargs="+", type=Path, metavar="PATH", help="files and folders of Python source, notebooks too"
    )
    for name, help_ in REPORTS_OF_A_SCAN.items():
        parser.add_argument(f"--{name}", type=Path, metavar="FILE", help=f"{help_} (-: standard output)")
    parser.add_argument(
        "--annotations", action="store_true", help="print the findings as commands that mark lines in a GitHub workflow"
    )
    parser.add_argument(
        "--fail-on",
        choices=LEVEL_WORDS,
        default="warning",
        metavar="LEVEL",
        help=f"exit 1 where something is found of this level or above: {', '.join(LEVEL_WORDS)} (default: warning)",
    )
    parser.add_argument(
        "--baseline",
        type=Path,
        metavar="FILE",
        help="leave out what an earlier scan's --json file has",
    )
    amount = parser.add_mutually_exclusive_group()
    amount.add_argument("--quiet", action="store_true", help="print the summary only, and no progress")
    amount.add_argument("--verbose", action="store_true", help="also print what notes mean, and what a port takes")
    parser.epilog = (
        "Exit code 2 where a file could not be read whole. A comment `# parity: ignore[TP101]` on a line, or alone on the "
        "line before it, leaves a finding out."
    )


def run(arguments: argparse.Namespace) -> int:
    """Scans, prints and writes; returns the exit code."""
    from parity.scan.scan import scan
    from parity.scan.suppress import read_baseline

    claim_report_files(arguments)
    # Before anything is written: the file of the baseline may be written anew.
    known = read_baseline(arguments.baseline) if arguments.baseline else frozenset[str]()
    with progress(arguments.quiet or arguments.annotations) as tick:
        result = scan(arguments.paths, tick, known)
    fails = fails_from(arguments.fail_on)
    _write(result, arguments, fails)
    if result.unread:
        return ExitCode.INCOMPARABLE
    failed = fails is not None and any(each.severity >= fails for each in result.findings)
    return ExitCode.DIFFERENT if failed else ExitCode.SAME


def fails_from(word: str) -> "Severity | None":
    """Returns the level from which findings fail, None where none do."""
    from parity.scan.result import Severity

    return None if word == "never" else Severity[word.upper()]


def _write(result: "Scan", arguments: argparse.Namespace, fails: "Severity | None") -> None:
    from parity.scan import output

    if arguments.annotations:
        for line in output.annotations(result):
            print(line)
    elif not reports_on_standard_output(arguments):
        output.print_scan(result, arguments.quiet, arguments.verbose)
    writers = {
        "json": output.write_scan_json,
        "sarif": output.write_sarif,
        "markdown": output.write_scan_markdown,
        "html": output.write_scan_html,
    }
    for name, write in writers.items():
        if getattr(arguments, name):
            write(result, getattr(arguments, name))
    if arguments.junit:
        output.write_scan_junit(result, arguments.junit, fails)
