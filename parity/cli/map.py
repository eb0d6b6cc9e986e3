"""Check that the variables of a case or of two traces match; print the mapping, or what is open; carry weights back."""

import argparse
import os
from pathlib import Path
from typing import Any

from parity.exit_codes import ExitCode

SURE_ENOUGH = 0.8  # confidence of a proposal that contradicts a pair in force


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this verb's arguments."""
    parser.add_argument(
        "reference", type=Path, metavar="REFERENCE|CASE", help="the TensorFlow side's trace, or a case.toml"
    )
    parser.add_argument("candidate", type=Path, nargs="?", help="the torch side's trace; none with a case")
    parser.add_argument("--map", type=Path, metavar="FILE", help="a case.toml, or a file with its [mapping] tables")
    parser.add_argument("--tf-python", metavar="PATH", help="with a case: the interpreter that has TensorFlow")
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
    """Prints the mapping of a case, or of two traces, as a table and as TOML; returns the exit code.

    Raises:
      MappingError: the variables do not join.
      CommandError: two traces were expected, or an option that goes with another one.
    """
    from parity.cli.errors import CommandError

    for option in ("weights", "step"):
        if getattr(arguments, option) is not None and not arguments.write:
            raise CommandError(f"--{option}: expected --write DIR too, got none. Say where to leave what it becomes.")
    if arguments.write:
        _refuse_to_write_into(arguments)
    # A trace is a folder too: with a second one it is taken for that before a case is looked for in it.
    case = arguments.reference / "case.toml" if arguments.reference.is_dir() else arguments.reference
    if arguments.candidate is not None:
        return _of_traces(arguments)
    if not case.is_file():
        raise CommandError(
            f"map: expected a case.toml or two traces, got {arguments.reference} alone. Name the other trace."
        )
    if arguments.write or arguments.map:
        raise CommandError(
            "map: expected two traces with --write and --map, got a case. Its [mapping] is used as it is."
        )
    return _of_case(case, arguments.tf_python)


def _refuse_to_write_into(arguments: argparse.Namespace) -> None:
    """Refuses a folder for --write that holds what is read: a trace is written over an older one."""
    from parity.cli.errors import CommandError

    into = arguments.write.resolve()
    for path in (arguments.reference, arguments.candidate, arguments.weights):
        read = path.resolve() if path is not None else None
        if read is not None and (read == into or into in read.parents or read in into.parents):
            raise CommandError(
                f"--write: expected a folder of its own, got {into}, with {path} in it or around it. Name another."
            )


def _of_case(path: Path, tf_python: str | None) -> int:
    from parity.case import load_case
    from parity.console import open_console
    from parity.experiment import open_sides
    from parity.experiment.prepare import map_case
    from parity.report.view import print_trimmed, show_mapping

    case = load_case(path)
    python = tf_python or os.environ.get("PARITY_TF_PYTHON") or case.tf.python
    with open_sides(python) as sides:
        mapping, notes = map_case(case, sides)
    console = open_console()
    print_trimmed(console, show_mapping(mapping.texts()))
    console.print()
    for note in notes:
        console.print(note, markup=False, soft_wrap=True)
    console.print("\n" + mapping.toml(), markup=False, end="", soft_wrap=True)
    return 0


def _of_traces(arguments: argparse.Namespace) -> int:
    """Prints the mapping as a table and as TOML, and carries weights back if asked to; returns 0.

    Where the variables join, and the values of the two traces speak against a pair, it says so and returns 1.

    Raises:
      MappingError: the variables do not join; what may be meant has been printed.
    """
    from parity.case import load_mapping
    from parity.console import open_console
    from parity.experiment.mapping.of_traces import mapping_of_traces, values_of
    from parity.mapping import MappingError, propose
    from parity.report.view import print_trimmed, show_mapping
    from parity.trace import Trace

    entries = load_mapping(arguments.map)[0] if arguments.map else {}
    reference, candidate = Trace(arguments.reference, whole=False), Trace(arguments.candidate, whole=False)
    known = values_of(reference), values_of(candidate)
    try:
        mapping = mapping_of_traces(reference, candidate, entries, known)
    except MappingError:
        # What may be meant goes to standard output, ready for a file, before the error says what is open.
        _print_proposals(propose(*known))
        raise
    if arguments.write:
        _write(reference, candidate, mapping, arguments)
        return 0
    console = open_console()
    print_trimmed(console, show_mapping(mapping.texts()))
    console.print()
    console.print(mapping.toml(), markup=False, end="", soft_wrap=True)
    return _contradictions(console, mapping, propose(*known))


def _contradictions(console: Any, mapping: Any, proposals: Any) -> int:
    in_force = {pair.reference: (pair.candidate, str(pair.transform)) for pair in mapping.pairs}
    against = [
        each
        for each in proposals
        # One kind of evidence, such as a shape that only one variable has, contradicts nothing.
        if len(each.scores) > 1
        and each.confidence >= SURE_ENOUGH
        and in_force[each.reference] != (each.candidate, each.transform)
    ]
    for each in against:
        told = ", ".join(f"{what} {score:.2f}" for what, score in each.scores.items())
        names, transform = in_force[each.reference]
        text = f"{each.reference}: mapped to {' + '.join(names)} by {transform}, but"
        text += f" {' + '.join(each.candidate)} by {each.transform} agrees with it ({told})"
        console.print(f"the values speak against it: {text}", markup=False, soft_wrap=True)
    # As a difference: the variables join, and what they hold says that they were joined wrongly.
    return ExitCode.DIFFERENT if against else ExitCode.SAME


def _print_proposals(proposals: Any) -> None:
    from parity.console import open_console
    from parity.mapping import proposed_toml
    from parity.report.view import print_trimmed, show_proposals

    console = open_console()
    print_trimmed(console, show_proposals(proposals))
    console.print()
    console.print(proposed_toml(proposals), markup=False, end="", soft_wrap=True)


def _write(reference: Any, candidate: Any, mapping: Any, arguments: argparse.Namespace) -> None:
    from parity.experiment.translate import translate, write_translated

    translated = translate(reference, candidate, mapping, arguments.weights, arguments.step)
    write_translated(arguments.write, reference, translated.state)
    print(f"{arguments.write}: {len(translated.state)} tensors in the names of {reference.directory}")
    if translated.missing:
        print(f"the candidate has none for: {', '.join(translated.missing)}")
