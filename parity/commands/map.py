"""Check that the variables of two traces join; print the mapping, or what is missing; carry weights back through it."""

import argparse
from pathlib import Path
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this verb's arguments."""
    parser.add_argument("reference", type=Path, help="the TensorFlow side's trace")
    parser.add_argument("candidate", type=Path, help="the torch side's trace")
    parser.add_argument("--map", type=Path, metavar="FILE", help="a case.toml, or a file with its [mapping] tables")
    parser.add_argument(
        "--write",
        type=Path,
        metavar="DIR",
        help="leave a trace of the candidate's final state in the reference's names and layouts, "
        "for `python -m tf_towers.checkpoint write`",
    )
    parser.add_argument(
        "--step", type=int, metavar="N", help="with --write: the state after step N (default: the last)"
    )
    parser.add_argument(
        "--weights",
        type=Path,
        metavar="FILE",
        help="with --write: take the state from this safetensors file, a state_dict of the port, in place of the trace",
    )


def run(arguments: argparse.Namespace) -> int:
    """Prints the mapping as a table and as TOML, and carries weights back if asked to; returns 0."""
    from rich.console import Console

    from parity.case import load_mapping
    from parity.commands.errors import CommandError
    from parity.mapping import build_mapping, variables_of
    from parity.report.tables import print_trimmed, show_mapping
    from parity.trace import Trace

    if arguments.weights and not arguments.write:
        raise CommandError("--weights: expected --write DIR too, got none. Say where to leave what it becomes.")
    entries = load_mapping(arguments.map)[0] if arguments.map else {}
    reference, candidate = Trace(arguments.reference, whole=False), Trace(arguments.candidate, whole=False)
    mapping = build_mapping(variables_of(reference.variables), variables_of(candidate.variables), entries)
    if arguments.write:
        _write(reference, candidate, mapping, arguments)
        return 0
    console = Console(highlight=False)
    pairs = [(pair.reference, " + ".join(pair.candidate), str(pair.transform), pair.why) for pair in mapping.pairs]
    print_trimmed(console, show_mapping(pairs))
    console.print()
    console.print(mapping.toml(), markup=False, end="", soft_wrap=True)
    return 0


def _write(reference: Any, candidate: Any, mapping: Any, arguments: argparse.Namespace) -> None:
    from parity.run.translate import translate, write_translated

    translated = translate(reference, candidate, mapping, arguments.weights, arguments.step)
    write_translated(arguments.write, reference, translated.state)
    print(f"{arguments.write}: {len(translated.state)} tensors in the names of {reference.directory}")
    if translated.missing:
        print(f"the candidate has none for: {', '.join(translated.missing)}")
