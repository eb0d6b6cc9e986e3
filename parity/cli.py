"""The command line; exit codes as `diff`: 0 same, 1 different, 2 could not compare."""

import argparse
import sys
from collections.abc import Sequence

from parity import __version__
from parity.commands import COMMANDS


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code.

    Args:
      arguments: the words after the program's name; by default the process's own.
    """
    parser = argparse.ArgumentParser(
        prog="parity",
        description="Proves that a PyTorch port of TensorFlow 1 tower training is the same training, down to rounding.",
        epilog="Exit codes: 0 same, 1 different, 2 could not compare.",
    )
    parser.add_argument("--version", action="version", version=f"tower-parity {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for command in COMMANDS:
        sub = verbs.add_parser(command.name, help=command.help, description=command.help)
        command.add_arguments(sub)
        sub.set_defaults(run=command.run)
    parsed = parser.parse_args(arguments)
    try:
        return int(parsed.run(parsed))
    except KeyboardInterrupt:
        print("parity: stopped", file=sys.stderr)
        return 2
    except ValueError as error:
        # The errors that users can mend are ValueErrors of ours; one of another origin is a bug and shows as such.
        if not type(error).__module__.startswith("parity"):
            raise
        _print_error(error)
        return 2


def _print_error(error: ValueError) -> None:
    traceback = getattr(error, "traceback", "")
    if traceback:
        print(traceback.rstrip(), file=sys.stderr)
        print(file=sys.stderr)
    print(f"parity: {error}", file=sys.stderr)
    print("verdict: incomparable", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
