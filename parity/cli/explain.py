"""Explain a cause: what it means, what it looks like, how it is proven, what to change."""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this verb's arguments."""
    parser.add_argument(
        "cause", nargs="?", metavar="CAUSE", help="its identifier, as reports name it (default: list all)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Prints the page of a cause, or the list of all; returns 0."""
    import difflib

    from parity.cli.errors import CommandError
    from parity.diagnose.catalogue import CAUSES
    from parity.report.cause_pages import as_text, list_as_text

    if arguments.cause is None:
        print(list_as_text())
        return 0
    if arguments.cause not in CAUSES:
        near = difflib.get_close_matches(arguments.cause, CAUSES, 3)
        meant = f"Did you mean {' or '.join(near)}? " if near else ""
        raise CommandError(
            f"explain: expected the identifier of a cause, got {arguments.cause!r}. {meant}`parity explain` lists all."
        )
    print(as_text(arguments.cause))
    return 0
