"""Check that the variables of two traces join; print the mapping, or what is missing."""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this verb's arguments."""
    parser.add_argument("reference", type=Path, help="the TensorFlow side's trace")
    parser.add_argument("candidate", type=Path, help="the torch side's trace")
    parser.add_argument("--map", type=Path, metavar="FILE", help="a case.toml, or a file with its [mapping] tables")


def run(arguments: argparse.Namespace) -> int:
    """Prints the mapping as a table and as TOML; returns 0."""
    from rich.console import Console

    from parity.case import load_mapping
    from parity.mapping import build_mapping, variables_of
    from parity.report.tables import print_trimmed, show_mapping
    from parity.trace import Trace

    entries = load_mapping(arguments.map)[0] if arguments.map else {}
    reference, candidate = Trace(arguments.reference, whole=False), Trace(arguments.candidate, whole=False)
    mapping = build_mapping(variables_of(reference.variables), variables_of(candidate.variables), entries)
    console = Console(highlight=False)
    pairs = [(pair.reference, " + ".join(pair.candidate), str(pair.transform), pair.why) for pair in mapping.pairs]
    print_trimmed(console, show_mapping(pairs))
    console.print()
    console.print(mapping.toml(), markup=False, end="", soft_wrap=True)
    return 0
