"""The files that a result can be written to, by the options that name them."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from parity.commands.errors import CommandError
from parity.commands.events_folder import claim_events
from parity.commands.out_folder import claim_file

if TYPE_CHECKING:
    from parity.experiment.power import Power
    from parity.judge.result import Result

OPTIONS = {
    "json": "write the result for machines, and every check to FILE's .checks.npz",
    "html": "write the result as a page that opens in a browser, without a network",
    "junit": "write the result as a JUnit test report, a test case per level",
    "markdown": "write the result as Markdown, for a comment on a pull request",
}

SHOW_TENSORS = ("html", "tensorboard")
TENSORBOARD = "write scalars and histograms as event files, for `tensorboard --logdir DIR`"


def add_strict(parser: argparse.ArgumentParser) -> None:
    """Adds the option by which what was not judged is no success."""
    parser.add_argument(
        "--strict",
        action="store_true",
        help="exit 2 where the verdict is same and something was not judged, e.g. how the port combines gradients",
    )


def add_report_files(parser: argparse.ArgumentParser) -> None:
    """Adds an option for each kind of file."""
    for name, help_ in OPTIONS.items():
        parser.add_argument(f"--{name}", type=Path, metavar="FILE", help=help_)
    parser.add_argument("--tensorboard", type=Path, metavar="DIR", help=TENSORBOARD)


def claim_report_files(arguments: argparse.Namespace) -> None:
    """Makes the files that were asked for ready, so that nothing old is read as new.

    Raises:
      CommandError: one cannot be written, two options name one file, or TensorBoard is not there to write with.
    """
    taken: dict[Path, str] = {}
    for name, path in _asked(arguments):
        other = taken.setdefault(path.resolve(), name)
        if other != name:
            raise CommandError(
                f"--{name}: expected a file of its own, got {path}, which --{other} names. Name another."
            )
    for name, path in _asked(arguments):
        claim_file(f"--{name}", path)
    if getattr(arguments, "tensorboard", None):
        claim_events(arguments.tensorboard)


def shows_tensors(arguments: argparse.Namespace) -> bool:
    """Says whether a file was asked for that shows the values of tensors, which only the traces hold."""
    return any(getattr(arguments, name, None) for name in SHOW_TENSORS)


def write_report_files(
    arguments: argparse.Namespace, result: "Result", title: str, power: "Power | None" = None
) -> None:
    """Writes the files that were asked for; what planted bugs showed stands in the JSON."""
    from parity.report import write_html, write_json, write_junit, write_markdown, write_tensorboard

    writers = {"html": write_html, "junit": write_junit, "markdown": write_markdown}
    for name, path in _asked(arguments):
        if name == "json":
            write_json(result, path, power=power)
        else:
            writers[name](result, path, title)
    if getattr(arguments, "tensorboard", None):
        write_tensorboard(result, arguments.tensorboard)


def write_failure_files(arguments: argparse.Namespace, error: BaseException) -> None:
    """Writes for machines why nothing could be compared; a file that cannot be written is told on stderr."""
    from parity.report import write_failure, write_junit_of_failure

    for name, path in _asked(arguments):
        if name not in ("json", "junit") or str(error).startswith(f"--{name}: "):
            continue
        try:
            (write_failure if name == "json" else write_junit_of_failure)(error, path)
        except OSError as unwritten:
            print(f"parity: --{name}: expected to write {path}, got: {unwritten.strerror}.", file=sys.stderr)


def _asked(arguments: argparse.Namespace) -> list[tuple[str, Path]]:
    found = [(name, getattr(arguments, name, None)) for name in OPTIONS]
    return [(name, path) for name, path in found if path is not None]
