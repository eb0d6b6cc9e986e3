"""Says which variables could not be joined, and what to write so that they can."""

import itertools
from collections.abc import Iterator, Sequence

from parity.mapping.fits import becomes, fits
from parity.mapping.mapping import line
from parity.mapping.variable import Variable

CONSIDERED = 4


def describe_problems(problems: Sequence[str], reference: Sequence[Variable], candidate: Sequence[Variable]) -> str:
    """Returns the text of the error for wrong entries and for variables left over on either side."""
    count = len(problems) + len(reference) + len(candidate)
    do = "does" if count == 1 else "do"
    parts = [
        "mapping: expected every variable of each side to have its counterpart on the other, "
        f"got {count} that {do} not. Write the lines that are meant into [mapping], or mend the model."
    ]
    if problems:
        parts += ["wrong in [mapping]:", *(f"  {problem}" for problem in problems)]
    if reference:
        parts += ["left over of the reference:"]
        parts += [text for variable in reference for text in _considered(variable, candidate)]
    if candidate:
        parts += ["left over of the candidate:"]
        parts += [f"  {variable}" + _partners(variable, reference) for variable in candidate]
    return "\n".join(parts)


def _considered(variable: Variable, candidate: Sequence[Variable]) -> list[str]:
    lines = list(_lines(variable, candidate))
    shown = [f"    {text}" for text in lines[:CONSIDERED]]
    if len(lines) > CONSIDERED:
        shown.append(f"    and {len(lines) - CONSIDERED} lines more that fit by shape")
    if not lines:
        shown = [
            f'    nothing left over fits; "{variable.name}" = {{ to = "...", transform = "..." }} names it by hand'
        ]
    return [f"  {variable}", *shown]


def _lines(variable: Variable, candidate: Sequence[Variable]) -> Iterator[str]:
    for other in candidate:
        for text in fits(variable, other):
            yield line(variable.name, [other.name], text)
    for text, first, second in (
        ("lstm_gates", "weight_ih", "weight_hh"),
        ("lstm_bias(1.0)", "bias_ih", "bias_hh"),
    ):
        for one, other in itertools.product(candidate, repeat=2):
            # The two halves of one layer: layer2 of weight_ih_layer2 belongs to weight_hh_layer2.
            if (
                first in one.name
                and one.name.replace(first, second) == other.name
                and becomes(text, variable, one, other)
            ):
                yield line(variable.name, [one.name, other.name], text)


def _partners(variable: Variable, reference: Sequence[Variable]) -> str:
    names = [other.name for other in reference if fits(other, variable)]
    return f", which may be {' or '.join(names[:CONSIDERED])}" if names else ", which nothing left over fits"
