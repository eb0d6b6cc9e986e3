"""Lets gradients pass where a port keeps them from passing: does it then have the reference's?"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

from parity.causes import VAGUE, Evidence
from parity.judge.result import Cause, Check, Explained, FirstDifference, Level
from parity.run.experiments.gradients import GradientsOfStep
from parity.trace import Trace, line_of, parse_key
from parity.worker.failures import SideFailed

MOST = 12
# What says that gradients are missing, and not where they are lost.
LESS = VAGUE | {"reduced_precision"}  # what gradients that are not there at all look like too
PLACED = frozenset(["zero_gradient", "rows_without_gradient"])
WORDS = {
    "detach": "detach()",
    "data": ".data",
    "item": ".item()",
    "tensor": "torch.tensor()",
    "no_grad": "torch.no_grad()",
    "padding_idx": "padding_idx",
}


@runtime_checkable
class RunsUncut(Protocol):
    """Runs a step with gradients passing some places; `parity.run.again.Again` says how."""

    def repeat_uncut(self, step: int, places: Sequence[str]) -> Trace: ...  # noqa: D102


class Uncut(NamedTuple):
    """Where a port keeps gradients from passing that pass in the reference.

    Fields:
      cause: with its evidence.
      first: the first difference with its place.
    """

    cause: Cause
    first: FirstDifference


def find_cut(first: FirstDifference, again: RunsUncut, evidence: Evidence, checks: Sequence[Check]) -> Uncut | None:
    """Returns where the port keeps gradients from passing, if all gradients of the towers are the reference's without that.

    Each place is tried by itself, and then all of them together. The control is the step as it is, made once more.

    Args:
      first: the first difference, of a gradient of a tower.
      again: runs steps of the recorded case once more.
      evidence: the float64 lockstep traces.
      checks: of level 1.
    """
    wanted = GradientsOfStep.of(evidence, first, checks)
    try:
        control = again.repeat_uncut(wanted.step, ())
    except SideFailed:
        return None
    before = dict(wanted.multiples(control))
    places: dict[str, dict[str, Any]] = control.facts.get("gradient_cuts") or {}
    if not places or before.get(first.check.key, 0.0) <= 1.0:
        return None
    for tried in _tries(list(places)):
        try:
            after = dict(wanted.multiples(again.repeat_uncut(wanted.step, tried)))
        except SideFailed:
            continue  # the port cannot do without
        if max(after.values()) <= 1.0:
            return _told(first, [places[name] for name in tried], before, after)
    return None


def with_cut(level: Level, again: object, evidence: Evidence) -> None:
    """Says in a level where the port keeps gradients from passing, where its first difference is such a gradient.

    Args:
      level: changed in place.
      again: runs steps of the recorded case once more; where it cannot let gradients pass, nothing is said.
      evidence: the float64 lockstep traces.
    """
    first, known = level.first_difference, level.causes
    if first is None or first.check.run != "lockstep" or first.quantity != "tower_grad":
        return
    if not isinstance(again, RunsUncut) or (known and known[0].name not in LESS | PLACED):
        return
    found = find_cut(first, again, evidence, level.checks)
    if found is None:
        return
    level.first_difference = found.first
    own, behind = ([each for each in known if (each.name in LESS) == vague] for vague in (False, True))
    named = [found.cause] if found.cause.name not in [each.name for each in own] else []
    level.causes = [*own, *named, *behind]


def _tries(places: list[str]) -> Iterator[tuple[str, ...]]:
    yield from ((place,) for place in places[:MOST])
    if len(places) > 1:
        yield tuple(places)


def _told(
    first: FirstDifference, places: list[dict[str, Any]], before: dict[str, float], after: dict[str, float]
) -> Uncut:
    lines = list(dict.fromkeys(line for place in places if (line := line_of(place["line"])) is not None))
    kinds = list(dict.fromkeys(WORDS[place["kind"]] for place in places))
    shown = ", ".join(f"{line.file}:{line.line}" for line in lines)
    key, gradients = first.check.key, sum(parse_key(text).quantity == "tower_grad" for text in after)
    was, left = before[key], max(after.values())
    evidence = (
        f"with gradients let pass at {shown} ({'; '.join(line.text for line in lines)}) all {gradients} gradients of the "
        f"towers are the reference's, {left:.2g} times what rounding allows at most, where {key} was "
        f"{'not there' if was == float('inf') else f'{was:.3g} times'}; the losses stay the same"
    )
    share = Explained(first.check.step, key, 1.0 - after[key] / was)
    name, title = "detached", f"{' and '.join(kinds)} keeps gradients from passing at {shown}"
    fix = "leave it out: in the graph the gradient passes here"
    if kinds == ["padding_idx"]:
        name, title = "rows_without_gradient", f"no gradient reaches the row of padding_idx at {shown}"
        fix = "leave out padding_idx, which freezes its row; TensorFlow's embedding_lookup trains all rows"
    parameter = places[0]["parameter"]
    module = places[0]["module"] or parameter.rpartition(".")[0]
    where = (
        f"the outputs of both sides are the same, their gradients part in the port{f', in {module}' if module else ''}"
    )
    placed = replace(first, where=where, module=module, lines=(None, lines[0]))
    return Uncut(Cause(name, title, evidence, fix, share), placed)
