"""Finds where two backward passes part, and whether one side stops gradients there that pass in the other."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, NamedTuple, Protocol, runtime_checkable

from parity.diagnose import Evidence
from parity.diagnose.catalogue import CAUSES, Trait, build_cause, causes_with, is_place_only
from parity.diagnose.interventions.with_fix import LEAST_ALLOWED, allowed_at
from parity.diagnose.ops.rearranging import LAYOUTS
from parity.diagnose.ops.table import plain
from parity.judge.metrics import distance, is_finite, norm
from parity.judge.result import Cause, Check, Explained, FirstDifference, Level
from parity.locate.backward import Parting, part
from parity.locate.description import where_apart
from parity.locate.downstream import readers
from parity.locate.matching import Pass
from parity.trace import Forward, ForwardOp, MissingError, SourceLine, Trace, TraceError, line_of, parse_key, section_of
from parity.worker.failures import SideFailed


class GradientsOfStep(NamedTuple):
    """Losses and gradients of the towers that have to come out of a step.

    Fields:
      evidence: the float64 lockstep traces.
      step: its number.
      allowed: by the reference's names the largest difference that counts as rounding.
    """

    evidence: Evidence
    step: int
    allowed: dict[str, float]

    @classmethod
    def of(cls, evidence: Evidence, first: FirstDifference, checks: Sequence[Check]) -> "GradientsOfStep":
        """Returns those of the step of a first difference, with what level 1 allows."""
        return cls(evidence, first.check.step, allowed_at(first.check.step, checks))

    def multiples(self, run: Trace) -> Iterator[tuple[str, float]]:
        """Yields by the reference's name how many times what is allowed a run is off; without end where it has none."""
        file, made = self.evidence.reference.step(self.step), run.step(self.step)
        for key, text in self.evidence.join.ordered(file.names()):
            if key.quantity not in ("loss", "tower_grad"):
                continue
            one, other = file.read(text), self.evidence.join.read(key, made)
            if other is None or other.shape != one.shape or not is_finite(other):
                yield text, float("inf")
            else:
                # A tensor that level 1 skipped has no tolerance; one that is zero gets the least there is.
                limit = self.allowed.get(text) or LEAST_ALLOWED * max(norm(one), LEAST_ALLOWED)
                yield text, distance(one, other) / limit

    def multiples_of_first_parts(self, run: Trace) -> Iterator[tuple[str, float]]:
        """Yields the same of whole shards, or of the first micro-batch of each where gradients accumulate."""
        return (
            (text, off) for text, off in self.multiples(run) if parse_key(text).tower.partition(".")[2] in ("", "0")
        )

    def multiples_of_the_candidate(self) -> Iterator[tuple[str, float]]:
        """Yields the same of the step as it was recorded."""
        return self.multiples(self.evidence.candidate)


MOST_OPS_NAMED = 12  # readers of one output, each of which costs a run where it is tried
Both = tuple[Forward, Forward]
Edge = tuple[int, int | str]


@runtime_checkable
class RunsBackward(Protocol):
    """Keeps passes of a recorded case, and runs it detached; `parity.experiment.sides.rerun.Rerun` says how."""

    def forward(self, step: int, tower: str) -> Both | None: ...  # noqa: D102
    def gradients(self, step: int, tower: str) -> Both | None: ...  # noqa: D102
    def repeat_detached(self, step: int, edges: Sequence[tuple[int, int | str]]) -> Trace: ...  # noqa: D102


def with_parting(level: Level, again: object, evidence: Evidence) -> Level:
    """Returns a level that says where gradients part, if its first difference is one of a tower and nothing else is known.

    Args:
      level: a decided one.
      again: keeps passes of the recorded case; where it cannot, nothing is said.
      evidence: the float64 lockstep traces.
    """
    first, known = level.first_difference, level.causes
    if first is None or first.check.run != "lockstep" or first.quantity != "tower_grad" or first.where:
        return level
    if not isinstance(again, RunsBackward) or (known and not is_place_only(known[0].name)):
        return level
    if any(section_of(text) for text in evidence.reference.step(first.check.step).names()):
        return level  # one backward pass is kept, which need not be that of the optimizer whose gradient it is
    try:
        outputs = again.forward(first.check.step, first.tower)
        gradients = again.gradients(first.check.step, first.tower) if outputs else None
    except (SideFailed, MissingError):
        return level  # a step that cannot be watched
    except TraceError as error:
        return level.with_notes(f"where gradients part was not looked for: {error}")
    if outputs is None or gradients is None:
        return level
    passes = Pass(outputs[0].ops, outputs[0].value), Pass(outputs[1].ops, outputs[1].value)
    found, same = part(passes, (gradients[0].value, gradients[1].value))
    if found is None and not same:
        return level
    ops = outputs[1].ops
    place = _at_an_output(found, ops) if found is not None else _at_a_variable(first, evidence, ops)
    proven = _stopped(place, ops, first, again, GradientsOfStep.of(evidence, first, level.checks))
    port, causes = place.port, known
    if proven is not None:
        cause, port = proven
        causes = [cause, *known]
    lines = (place.line, port.line if port else None)
    first = replace(first, where=place.told, module=port.name if port else None, lines=lines)
    return replace(level, first_difference=first, causes=causes)


class _Place(NamedTuple):
    # Where gradients part: what it is in the reference, in words; in the port, what takes it; and the reference's line.
    name: str
    told: str
    edges: list[Edge]
    port: ForwardOp | None
    line: SourceLine | None


def _at_an_output(found: Parting, ops: Sequence[ForwardOp]) -> _Place:
    port = ops[found.readers[0]] if len(found.readers) == 1 else found.port
    return _Place(found.op.name, _where_parted(found), _edges_behind(found.number, ops), port, found.op.line)


def _edges_behind(number: int, ops: Sequence[ForwardOp]) -> list[Edge]:
    """Where an output goes into what uses it; behind an op that only lays it out anew and is alone in reading it."""
    after = readers(ops)
    while len(after[number]) == 1 and plain(ops[after[number][0]].kind) in LAYOUTS and after[after[number][0]]:
        number = after[number][0]
    return [(reader, number) for reader in after[number]]


def _at_a_variable(first: FirstDifference, evidence: Evidence, ops: Sequence[ForwardOp]) -> _Place:
    parts = evidence.join.parts(first.name)
    edges: list[Edge] = [(number, each) for number, op in enumerate(ops) for each in parts if each in op.weights]
    reading = [ops[number] for number, _ in edges]
    listed = list(dict.fromkeys(f"{op.name or 'its model or loss'} ({op.kind})" for op in reading))[:MOST_OPS_NAMED]
    read = f"; the port reads it in {', '.join(listed)}" if listed else ""
    told = f"the outputs of both sides are the same, and so are their gradients; only that of {first.name} is not{read}"
    return _Place(first.name, told, edges, reading[0] if len(reading) == 1 else None, None)


def _stopped(
    place: _Place, ops: Sequence[ForwardOp], first: FirstDifference, again: RunsBackward, wanted: GradientsOfStep
) -> tuple[Cause, ForwardOp] | None:
    """The cause, and the port's op that takes what the reference stops; None where no such edge explains all gradients."""
    for edges in _tried_edges(place.edges):
        try:
            run = again.repeat_detached(first.check.step, edges)
        except SideFailed:
            continue  # then no gradient reaches a parameter
        # Detached is the pass up to the first backward pass: what a later micro-batch makes is as wrong as before.
        after = dict(wanted.multiples_of_first_parts(run))
        # All gradients of all towers, not the first difference alone: an edge that mends one of many is a coincidence.
        if first.check.key not in after or max(after.values()) > 1.0:
            continue
        lines = [ops[reader].line for reader, _ in edges]
        shown = " and ".join(line.alone if line else "another op" for line in lines)
        was = dict(wanted.multiples_of_the_candidate())[first.check.key]
        evidence = (
            f"with what stands for {place.name} in the port detached where it goes into {shown}, all gradients of the "
            f"towers are the reference's, {max(after.values()):.2g} times what rounding allows at most, where "
            f"{first.check.key} was {was:.3g} times; the losses stay the same"
        )
        cause = build_cause(
            "not_detached",
            evidence=evidence,
            explains=Explained(first.check.step, first.check.key, 1.0 - after[first.check.key] / was),
            layer=place.name,
        )
        return cause, ops[edges[0][0]]
    return None


def _tried_edges(edges: Sequence[Edge]) -> Iterator[tuple[Edge, ...]]:
    """Yields one or two of the edges, all but one, and all: what a loop's rounds stop may pass in its last.

    All come last: a port that no gradient reaches any more may not run another step.
    """
    few = edges[:MOST_OPS_NAMED]
    for count in range(1, 3):
        yield from list(combinations(few, count))[:MOST_OPS_NAMED]
    if 3 < len(edges) <= MOST_OPS_NAMED:
        yield from combinations(edges, len(edges) - 1)
    if len(edges) > 2:
        yield tuple(edges)


def _where_parted(found: Parting) -> str:
    port = found.port
    taken = f"{port.name or 'outside of any module'} ({port.kind})"
    apart = ""
    if found.reference is not None and found.candidate is not None:
        apart = f"; of its gradient {where_apart(found.reference, found.candidate)}"
    return (
        f"the outputs of both sides are the same, and the gradients of all that is computed from {found.op.name} "
        f"({found.op.kind}), in the port {taken}; its own gradient is not{apart}"
    )


MOST_STOPS = 12  # places that are tried by themselves, a run each
WORDS = {
    "detach": "detach()",
    "data": ".data",
    "item": ".item()",
    "tensor": "torch.tensor()",
    "no_grad": "torch.no_grad()",
    "autograd.grad": "torch.autograd.grad() without create_graph",
    "padding_idx": "padding_idx",
}


@runtime_checkable
class RunsUncut(Protocol):
    """Runs a step with gradients passing some places; `parity.experiment.sides.rerun.Rerun` says how."""

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
    # The step as it is, run as the tries are: what differs from it is due to the gradients let pass.
    before = dict(wanted.multiples(control))
    places: dict[str, dict[str, Any]] = control.facts.get("gradient_cuts") or {}
    if not places or before.get(first.check.key, 0.0) <= 1.0:
        return None
    for tried in _tried_places(list(places)):
        try:
            after = dict(wanted.multiples(again.repeat_uncut(wanted.step, tried)))
        except SideFailed:
            continue  # the port cannot do without
        if max(after.values()) <= 1.0:
            return _cause(first, [places[name] for name in tried], before, after)
    return None


def with_cut(level: Level, again: object, evidence: Evidence) -> Level:
    """Returns a level that says where the port keeps gradients from passing, if its first difference is such a gradient.

    Args:
      level: a decided one.
      again: runs steps of the recorded case once more; where it cannot let gradients pass, nothing is said.
      evidence: the float64 lockstep traces.
    """
    first, known = level.first_difference, level.causes
    if first is None or first.check.run != "lockstep" or first.quantity != "tower_grad":
        return level
    if not isinstance(again, RunsUncut) or (known and not _may_be_cut(known[0].name)):
        return level
    found = find_cut(first, again, evidence, level.checks)
    if found is None:
        return level
    own, behind = ([each for each in known if _is_vague(each.name) == vague] for vague in (False, True))
    named = [found.cause] if found.cause.name not in [each.name for each in own] else []
    return replace(level, first_difference=found.first, causes=[*own, *named, *behind])


def _is_vague(name: str) -> bool:
    """Whether a cause names a place, or a part of a difference: gradients that are not there look like it too."""
    return is_place_only(name) or not CAUSES[name].complete


def _may_be_cut(name: str) -> bool:
    return _is_vague(name) or name in causes_with(Trait.NO_GRADIENT)


def _tried_places(places: list[str]) -> Iterator[tuple[str, ...]]:
    yield from ((place,) for place in places[:MOST_STOPS])
    if len(places) > 1:
        yield tuple(places)


def _cause(
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
    name, variant = "detached", ""
    if kinds == ["padding_idx"]:
        name, variant = "rows_without_gradient", "padding_idx"
    elif kinds == [WORDS["autograd.grad"]]:
        variant = "gradient"
    cause = build_cause(name, variant, evidence=evidence, explains=share, kinds=" and ".join(kinds), lines=shown)
    parameter = places[0]["parameter"]
    module = places[0]["module"] or parameter.rpartition(".")[0]
    where = (
        f"the outputs of both sides are the same, their gradients part in the port{f', in {module}' if module else ''}"
    )
    placed = replace(first, where=where, module=module, lines=(None, lines[0]))
    return Uncut(cause, placed)
