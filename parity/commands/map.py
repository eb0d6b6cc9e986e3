"""Check that the variables of two traces join; print the mapping, or what is missing; carry weights back through it."""

import argparse
from pathlib import Path
from typing import Any

SURE_ENOUGH = 0.8


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
    """Prints the mapping as a table and as TOML, and carries weights back if asked to; returns 0.

    Where the variables join, and the values of the two traces speak against a pair, it says so and returns 1.

    Raises:
      MappingError: the variables do not join; what may be meant has been printed.
    """
    from rich.console import Console

    from parity.case import load_mapping
    from parity.commands.errors import CommandError
    from parity.mapping import MappingError, build_mapping, propose, variables_of
    from parity.report.tables import print_trimmed, show_mapping
    from parity.trace import Trace

    if arguments.weights and not arguments.write:
        raise CommandError("--weights: expected --write DIR too, got none. Say where to leave what it becomes.")
    entries = load_mapping(arguments.map)[0] if arguments.map else {}
    reference, candidate = Trace(arguments.reference, whole=False), Trace(arguments.candidate, whole=False)
    try:
        mapping = build_mapping(variables_of(reference.variables), variables_of(candidate.variables), entries)
    except MappingError:
        _propose(reference, candidate)
        raise
    if arguments.write:
        _write(reference, candidate, mapping, arguments)
        return 0
    console = Console(highlight=False)
    pairs = [(pair.reference, " + ".join(pair.candidate), str(pair.transform), pair.why) for pair in mapping.pairs]
    print_trimmed(console, show_mapping(pairs))
    console.print()
    console.print(mapping.toml(), markup=False, end="", soft_wrap=True)
    return _contradictions(console, mapping, propose(_values(reference), _values(candidate)))


def _contradictions(console: Any, mapping: Any, proposals: Any) -> int:
    in_force = {pair.reference: (pair.candidate, str(pair.transform)) for pair in mapping.pairs}
    against = [
        each
        for each in proposals
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
    return 1 if against else 0


def _propose(reference: Any, candidate: Any) -> None:
    from rich.console import Console

    from parity.mapping import propose, proposed_toml
    from parity.report.tables import print_trimmed, show_proposals

    proposals = propose(_values(reference), _values(candidate))
    console = Console(highlight=False)
    print_trimmed(console, show_proposals(proposals))
    console.print()
    console.print(proposed_toml(proposals), markup=False, end="", soft_wrap=True)


def _values(trace: Any) -> Any:
    from parity.mapping import Values, variables_of

    variables = [v for v in variables_of(trace.variables) if v.name.split(".")[-1] != "num_batches_tracked"]
    init = trace.init()
    first = trace.step(trace.step_numbers[0]) if trace.step_numbers else None
    held = {"weight": "var", "statistic": "stat"}

    def read(file: Any, name: str) -> Any:
        return {v.name: file.read(text) for v in variables if (text := name.format(held[v.kind], v.name)) in file}

    return Values(variables, read(init, "{0}/{1}"), {} if first is None else read(first, "grad/{1}"))


def _write(reference: Any, candidate: Any, mapping: Any, arguments: argparse.Namespace) -> None:
    from parity.run.translate import translate, write_translated

    translated = translate(reference, candidate, mapping, arguments.weights, arguments.step)
    write_translated(arguments.write, reference, translated.state)
    print(f"{arguments.write}: {len(translated.state)} tensors in the names of {reference.directory}")
    if translated.missing:
        print(f"the candidate has none for: {', '.join(translated.missing)}")
