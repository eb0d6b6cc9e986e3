"""Leaves what a port can repeat of a recorded trace, of its float64 shadow, and of that shadow's free run."""

from pathlib import Path

from parity.judge.metrics import Array
from parity.run.replay_part import Part
from parity.trace import Trace, TraceWriter


def write_reference(part: Part, recorded: Trace, out: Path) -> Trace:
    """Leaves what a port can repeat of a recorded trace, or of its shadow."""
    exact = recorded.facts.get("precision") == "float64"
    variables = recorded.variables
    if part.racing:
        variables = {name: entry for name, entry in variables.items() if entry["kind"] != "statistic"}
    facts = {**part.facts, "precision": recorded.facts.get("precision")}
    writer = TraceWriter(out, recorded.producer, facts, variables, ())
    start = {text: value for text, value in part.before(part.steps[0]).items() if _judged(part, text)}
    writer.init({text: _wider(text, value) for text, value in start.items()} if exact else start)
    for number in part.steps:
        writer.step(number, part.tensors(number, recorded.step(number)))
    writer.close()
    return Trace(out)


def _judged(part: Part, text: str) -> bool:
    return not (part.racing and text.startswith("stat/"))


def _wider(text: str, value: Array) -> Array:
    return value.astype("float64") if value.dtype.kind == "f" and not text.startswith("state/") else value
