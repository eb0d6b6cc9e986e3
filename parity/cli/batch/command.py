"""`parity run` of several cases."""

import argparse
import time
from pathlib import Path

from parity.cli.batch.outcome import Outcome, label_of, worst_code
from parity.cli.batch.processes import run_cases
from parity.cli.batch.reports import line_of, summary_of, write_reports
from parity.cli.errors import CommandError
from parity.report.github import annotations

# Options of one case, as each gets them; of those that name a place each gets one of its own.
VALUES = ("steps", "towers", "precision", "opt_level", "half_dtype", "tf_python", "budget", "timeout")
FLAGS = ("prove", "strict", "quick")
FOLDERS = ("out", "reproduce", "tensorboard")
REPORTS_OF_ALL = ("json", "junit", "markdown")


def run_several(arguments: argparse.Namespace) -> int:
    """Runs several cases, each in a process of its own; returns the exit code that weighs most."""
    from parity.cli.output import claim_file

    cases = list(arguments.case)
    labels = [label_of(case) for case in cases]
    twice = next((label for place, label in enumerate(labels) if label in labels[:place]), None)
    if twice is not None:
        raise CommandError(f"run: expected each case once, got {twice!r} twice. Leave one out.")
    if arguments.since:
        raise CommandError(f"--since: expected one case, got {len(cases)}. Run them one at a time, or leave it out.")
    if str(arguments.html) == "-":
        raise CommandError("--html: expected a file, got standard output for the pages of several cases. Name a file.")
    files = {name: claim_file(f"--{name}", path) for name in REPORTS_OF_ALL if (path := getattr(arguments, name))}
    width, begun = max(map(len, labels)), time.monotonic()

    def tell(outcome: Outcome) -> None:
        if not arguments.quiet:
            print(line_of(outcome, width), flush=True)

    words = [(label, words_of(arguments, case, label)) for case, label in zip(cases, labels, strict=True)]
    outcomes = run_cases(words, min(arguments.jobs, len(cases)), arguments.fail_fast, tell)
    for outcome in outcomes:
        if outcome.code is None:
            tell(outcome)
    seconds = time.monotonic() - begun
    print(summary_of(outcomes, seconds))
    write_reports(outcomes, files, seconds)
    if arguments.annotations:
        for case, outcome in zip(cases, outcomes, strict=True):
            for line in annotations_of(case, outcome.result) if outcome.result else ():
                print(line)
    return worst_code(outcomes)


def words_of(arguments: argparse.Namespace, case: Path, label: str) -> list[str]:
    """Returns the words by which `parity` runs one of several cases."""
    words = ["run", str(case), "--quiet", "--levels", ",".join(arguments.levels)]
    for name in VALUES:
        value = getattr(arguments, name)
        words += [] if value is None else [f"--{name.replace('_', '-')}", str(value)]
    words += [f"--{name}" for name in FLAGS if getattr(arguments, name)]
    for name in FOLDERS:
        folder = getattr(arguments, name)
        words += [] if folder is None else [f"--{name}", str(folder / label)]
    if arguments.html:
        words += ["--html", str(arguments.html.with_name(f"{arguments.html.stem}-{label}{arguments.html.suffix}"))]
    if arguments.golden:
        # Of each case its own: a relative folder is one in the folder of the case.
        words += ["--golden", str((case if case.is_dir() else case.parent) / arguments.golden)]
    return words


def annotations_of(case: Path, result: dict[str, object]) -> list[str]:
    """Returns the annotations of a case at the user's lines.

    Args:
      case: as it was named: a file, or the folder that holds one.
      result: its JSON report.
    """
    file = case / "case.toml" if case.is_dir() else case
    return annotations(result, file, (file.parent, file.parent.parent))
