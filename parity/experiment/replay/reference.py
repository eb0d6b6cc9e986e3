"""Leaves what a port can repeat of a recorded trace, of its float64 shadow, and of that shadow's free run."""

from pathlib import Path

from parity.experiment.replay.script import Part
from parity.judge.imprecise_ops import INEXACT_FACT
from parity.trace import Trace, TraceWriter, parse_key, quantity_of
from parity.trace.arrays import Array


def write_reference(part: Part, recorded: Trace, out: Path) -> Trace:
    """Leaves what a port can repeat of a recorded trace, or of its shadow."""
    exact = recorded.facts.get("precision") == "float64"
    variables = recorded.variables
    # A statistic that races is another number in every run: no port could be held to it.
    if part.racing:
        variables = {name: entry for name, entry in variables.items() if entry["kind"] != "statistic"}
    # What a shadow alone says of the ops that it is computed by.
    inexact = {INEXACT_FACT: recorded.facts[INEXACT_FACT]} if recorded.facts.get(INEXACT_FACT) else {}
    facts = {**part.facts, **inexact, "precision": recorded.facts.get("precision")}
    writer = TraceWriter(out, recorded.producer, facts, variables, ())
    start = {text: value for text, value in part.before(part.steps[0]).items() if _judged(part, text)}
    writer.init({text: _wider(text, value) for text, value in start.items()} if exact else start)
    for number in part.steps:
        writer.step(number, part.tensors(number, recorded.step(number)))
    writer.close()
    return Trace(out)


def _judged(part: Part, text: str) -> bool:
    return quantity_of(text) != "stat" or not (part.racing or parse_key(text).name in part.held)


def _wider(text: str, value: Array) -> Array:
    return value.astype("float64") if value.dtype.kind == "f" and quantity_of(text) != "state" else value
