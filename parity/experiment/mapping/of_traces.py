"""Joins the variables of two traces, by names, shapes, order, and by the numbers in them."""

from collections.abc import Mapping as Map

from parity.experiment.sides.densify import DenseFile
from parity.mapping import Mapping, MappingEntry, Values, build_mapping, numbers_when_asked, variables_of
from parity.trace import TensorFile, Trace, parse_key
from parity.trace.arrays import Array

QUANTITY_OF_KIND = {"weight": "var", "statistic": "stat"}


def mapping_of_traces(
    reference: Trace, candidate: Trace, entries: Map[str, MappingEntry], known: tuple[Values, Values] | None = None
) -> Mapping:
    """Returns the mapping of the variables of two traces; numbers decide, and verify, what names and shapes leave open.

    Args:
      reference: one side's.
      candidate: the other's.
      entries: what is written by hand.
      known: the `values_of` both, where they have been read.

    Raises:
      MappingError: a variable is left over, or a guess is not verified by the values of the traces.
    """
    described = variables_of(reference.variables), variables_of(candidate.variables)
    numbers = numbers_when_asked(lambda: known or (values_of(reference), values_of(candidate)))
    return build_mapping(*described, entries, numbers)


def values_of(trace: Trace) -> Values:
    """Returns what a trace knows of its variables: the values they start from, and the gradients of its first step."""
    variables = [v for v in variables_of(trace.variables) if v.name.split(".")[-1] != "num_batches_tracked"]
    init = trace.init()
    started = {v.name: init.read(text) for v in variables if (text := f"{QUANTITY_OF_KIND[v.kind]}/{v.name}") in init}
    if not trace.step_numbers:
        return Values(variables, started, {})
    first = DenseFile(trace.step(trace.step_numbers[0]), trace)
    return Values(variables, started, _gradients(first))


def _gradients(file: TensorFile) -> dict[str, Array]:
    return {parse_key(text).name: file.read(text) for text in file.names("grad")}
