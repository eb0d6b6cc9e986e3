"""Says where two backward passes part, and tries whether the reference stops gradients there that pass in the port."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple, Protocol, runtime_checkable

from parity.causes import VAGUE, Evidence
from parity.judge.result import Cause, Explained, FirstDifference, Level
from parity.locate.gradients import Parting, part
from parity.locate.reached import Pass
from parity.locate.where import where_apart
from parity.run.experiments.gradients import GradientsOfStep
from parity.trace import Forward, ForwardOp, SourceLine, Trace, TraceError
from parity.worker.failures import SideFailed

MOST = 12
Both = tuple[Forward, Forward]
Edge = tuple[int, int | str]


@runtime_checkable
class RunsBackward(Protocol):
    """Keeps passes of a recorded case, and runs it detached; `parity.run.again.Again` says how."""

    def forward(self, step: int, tower: str) -> Both | None: ...  # noqa: D102
    def gradients(self, step: int, tower: str) -> Both | None: ...  # noqa: D102
    def repeat_detached(self, step: int, edges: Sequence[tuple[int, int | str]]) -> Trace: ...  # noqa: D102


def with_parting(level: Level, again: object, evidence: Evidence) -> None:
    """Says in a level where gradients part, where its first difference is one of a tower and nothing else is known of it.

    Args:
      level: changed in place.
      again: keeps passes of the recorded case; where it cannot, nothing is said.
      evidence: the float64 lockstep traces.
    """
    first, known = level.first_difference, level.causes
    if first is None or first.check.run != "lockstep" or first.quantity != "tower_grad" or first.where:
        return
    if not isinstance(again, RunsBackward) or (known and known[0].name not in VAGUE):
        return
    if any(text.startswith("section/") for text in evidence.reference.step(first.check.step).names()):
        return  # one backward pass is kept, which need not be that of the optimizer whose gradient it is
    try:
        outputs = again.forward(first.check.step, first.tower)
        gradients = again.gradients(first.check.step, first.tower) if outputs else None
    except (SideFailed, TraceError):
        return  # a step that cannot be watched
    if outputs is None or gradients is None:
        return
    passes = Pass(outputs[0].ops, outputs[0].value), Pass(outputs[1].ops, outputs[1].value)
    found, same = part(passes, (gradients[0].value, gradients[1].value))
    if found is None and not same:
        return
    ops = outputs[1].ops
    place = _at_an_output(found, ops) if found is not None else _at_a_variable(first, evidence, ops)
    proven = _stopped(place, ops, first, again, GradientsOfStep.of(evidence, first, level.checks))
    port = place.port
    if proven is not None:
        cause, port = proven
        level.causes = [cause, *known]
    lines = (place.line, port.line if port else None)
    level.first_difference = replace(first, where=place.told, module=port.name if port else None, lines=lines)


class _Place(NamedTuple):
    # Where gradients part: what it is in the reference, in words; in the port, what takes it; and the reference's line.
    name: str
    told: str
    edges: list[Edge]
    port: ForwardOp | None
    line: SourceLine | None


def _at_an_output(found: Parting, ops: Sequence[ForwardOp]) -> _Place:
    port = ops[found.readers[0]] if len(found.readers) == 1 else found.port
    edges: list[Edge] = [(reader, found.number) for reader in found.readers]
    return _Place(found.op.name, _told(found), edges, port, found.op.line)


def _at_a_variable(first: FirstDifference, evidence: Evidence, ops: Sequence[ForwardOp]) -> _Place:
    parts = evidence.join.parts(first.name)
    edges: list[Edge] = [(number, each) for number, op in enumerate(ops) for each in parts if each in op.weights]
    reading = [ops[number] for number, _ in edges]
    listed = list(dict.fromkeys(f"{op.name or 'its model or loss'} ({op.kind})" for op in reading))[:MOST]
    read = f"; the port reads it in {', '.join(listed)}" if listed else ""
    told = f"the outputs of both sides are the same, and so are their gradients; only that of {first.name} is not{read}"
    return _Place(first.name, told, edges, reading[0] if len(reading) == 1 else None, None)


def _stopped(
    place: _Place, ops: Sequence[ForwardOp], first: FirstDifference, again: RunsBackward, wanted: GradientsOfStep
) -> tuple[Cause, ForwardOp] | None:
    """The cause, and the port's op that takes what the reference stops; None where no such edge explains all gradients."""
    for edges in _tries(place.edges):
        try:
            run = again.repeat_detached(first.check.step, edges)
        except SideFailed:
            continue  # then no gradient reaches a parameter
        after = dict(wanted.multiples(run))
        if max(after.values()) > 1.0:
            continue
        lines = [ops[reader].line for reader, _ in edges]
        shown = " and ".join(line.shown if line else "another op" for line in lines)
        was = dict(wanted.multiples_of_the_candidate())[first.check.key]
        evidence = (
            f"with what stands for {place.name} in the port detached where it goes into {shown}, all gradients of the "
            f"towers are the reference's, {max(after.values()):.2g} times what rounding allows at most, where "
            f"{first.check.key} was {was:.3g} times; the losses stay the same"
        )
        cause = Cause(
            "not_detached",
            f"gradients pass in the port that the reference stops, behind {place.name}",
            evidence,
            "detach() there, as the graph's stop_gradient does",
            Explained(first.check.step, first.check.key, 1.0 - after[first.check.key] / was),
        )
        return cause, ops[edges[0][0]]
    return None


def _tries(edges: Sequence[Edge]) -> Iterator[tuple[Edge, ...]]:
    """Yields one or two of the edges, all but one, and all: what a loop's rounds stop may pass in its last.

    All come last: a port that no gradient reaches any more may not run another step.
    """
    few = edges[:MOST]
    for count in range(1, 3):
        yield from list(combinations(few, count))[:MOST]
    if 3 < len(edges) <= MOST:
        yield from combinations(edges, len(edges) - 1)
    if len(edges) > 2:
        yield tuple(edges)


def _told(found: Parting) -> str:
    port = found.port
    taken = f"{port.name or 'outside of any module'} ({port.kind})"
    apart = ""
    if found.reference is not None and found.candidate is not None:
        apart = f"; of its gradient {where_apart(found.reference, found.candidate)}"
    return (
        f"the outputs of both sides are the same, and the gradients of all that is computed from {found.op.name} "
        f"({found.op.kind}), in the port {taken}; its own gradient is not{apart}"
    )
