"""Finds where two forward passes part, and the pair of outputs that shows it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from parity.locate.divergence import Parting, Side, differing_layers, part
from parity.locate.downstream import active, beginnings, behind_difference, followers
from parity.locate.layer_names import common_scope, layer_names, layer_of, scope_of
from parity.locate.layouts import Aligned, align
from parity.locate.matching import TOLERANCE, Pass, Reached, reach
from parity.locate.op_kinds import same_kind
from parity.trace import ForwardOp, SourceLine
from parity.trace.arrays import Array

MOST_OPS_BEHIND = 12
ABOUT_AS_NEAR = 2.0
UNRELATED = 0.9
MOST_PAIRS = 6
CHAIN = 4  # ops behind a kernel that may belong to its layer: bias, normalisation, activation, scale


class Extra(NamedTuple):
    """An op without weights that a candidate puts in front of a layer, and the reference does not.

    Fields:
      op: of the candidate.
      before, after: what it takes, which is right, and what it makes of it.
    """

    op: ForwardOp
    before: Array
    after: Array


class Shown(NamedTuple):
    """A pair of outputs in the reference's layout, and the name of the reference's op that gives it."""

    name: str
    reference: Array
    candidate: Array


class Location(NamedTuple):
    """Where two forward passes part.

    Fields:
      layer: the reference's name of it; "" where it is the loss.
      op: of the reference, the first that differs.
      port: the candidate's op that is wrong first, named by the path of its module; None where it has none.
      reference, candidate: the outputs that show it in the reference's layout, None where none could be paired.
      shown: name of the reference's op whose output that is.
      others: further outputs behind it that could be paired.
      inputs: dict of name of the op to its output, of those that the layer takes and that are right.
      fed_by: whether layers before it are among these.
      only_reference, only_candidate: names of the ops whose output it takes on one side and that the other has nothing like,
        of data alone: what a mask is made of, what is done to images before the first layer.
      extra: what the candidate puts in front of it by itself, or None.
      output: of `op`, None where it is not known.
      same: names of the layers before it that were found the same, in order.
      unpaired: names of the layers before it that the candidate never shows by themselves.
      parting: the ops of both sides that are wrong first, and the modules of the candidate's.
      passes: both sides' passes.
      reached: what each side reaches of the other's.
    """

    layer: str
    op: ForwardOp
    port: ForwardOp | None
    reference: Array | None
    candidate: Array | None
    shown: str
    others: list[Shown]
    inputs: dict[str, Array]
    fed_by: bool
    only_reference: list[str]
    only_candidate: list[str]
    extra: Extra | None
    output: Array | None
    same: list[str]
    unpaired: list[str]
    parting: Parting
    passes: tuple[Pass, Pass]
    reached: Reached

    @property
    def lines(self) -> tuple[SourceLine | None, SourceLine | None]:
        """The lines of the user's source, of each side, at which they part."""
        own = self.parting.reference
        of_reference = self.passes[0].ops[own] if own is not None else self.op
        return of_reference.line, self.port.line if self.port else None


def locate(
    reference: Pass,
    candidate: Pass,
    mapping: Mapping[str, Sequence[str]],
    variables: Mapping[str, Sequence[int]],
    tolerance: float = TOLERANCE,
) -> Location | None:
    """Returns where two forward passes of one tower part; None where all outputs are reached.

    Args:
      reference: its pass.
      candidate: its own, from the same weights on the same inputs.
      mapping: dict of the reference's variable to the names of the candidate's parameters.
      variables: dict of the reference's variable to its shape.
      tolerance: as of `reach`.
    """
    reached = reach(reference, candidate, tolerance)
    sides = _Side(reference, reached.told[0], reached.reference), _Side(candidate, reached.told[1], reached.candidate)
    # An op may differ although something behind it is right: maxima and slices do not show all that they are taken of.
    for side, wrong in zip(sides, differing_layers(sides[0].known, sides[1].known, mapping), strict=True):
        side.add(wrong)
    # What is wrong though nothing that it takes is; sorted, and so in an order of execution.
    starts = sides[0].starts, sides[1].starts
    if not starts[0] and not starts[1]:
        return None
    # Where the reference shows nothing that the candidate has not, it is what that one does to the result.
    first = _first(sides, starts, mapping, layer_names(variables)) if starts[0] else len(reference.ops) - 1
    layers = layer_names(variables)
    # Of the ops on data and weights, whose scopes begin with the tower's: "tower_0/" says nothing of a layer.
    common = common_scope(reference.ops[number].name for number in sorted(sides[0].active))
    op = reference.ops[first]
    name = layer_of(op, layers, common) if _is_layer(first, sides[0], layers) else ""
    if name and name not in layers.values() and name == op.name.rpartition("/")[2]:
        name = "/".join([*_layer_before(first, reference.ops, layers), name])
    partners = _partners(op, name, sides, starts[1], mapping, layers)
    pairs = _pairs(_of_layer(first, name, sides[0], layers, common), partners, reference, candidate)
    # Without a pair of outputs the place is still told, only not shown.
    number, partner, pair = pairs[0] if pairs else (first, next(iter(partners), None), None)
    in_layer = _in_layer(name, sides[0], layers, common)
    taken = _taken([first, *in_layer], sides[0])
    parting = part(sides[0].known, sides[1].known, mapping)
    same, unpaired = _before(first, sides[0], layers, name)
    return Location(
        layer=name,
        op=op,
        port=candidate.ops[parting.candidate] if parting.candidate is not None else None,
        reference=pair.reference if pair else None,
        candidate=pair.candidate if pair else None,
        shown=reference.ops[number].name,
        others=[Shown(reference.ops[place].name, each.reference, each.candidate) for place, _, each in pairs[1:]],
        inputs=_inputs(taken, reference),
        fed_by=any(each in sides[0].active for each in taken),
        only_reference=_others(sides[0], [first]),
        only_candidate=_others(sides[1], [partner] if partner is not None else []),
        extra=_extra(partners, starts[1], sides[1], _read_from([first, *in_layer], sides[0], reached))
        if name
        else None,
        output=reference.value(first),
        same=same,
        unpaired=unpaired,
        parting=parting,
        passes=(reference, candidate),
        reached=reached,
    )


class _Side:
    """A pass with what is known of its outputs."""

    def __init__(self, passed: Pass, told: frozenset[int], reached: Mapping[int, int]) -> None:
        self.passed = passed
        self.told = told
        self.reached = reached
        self.active = active(passed.ops)
        # Nothing computed from these is right: a difference in them goes on to the loss.
        self.wrong = behind_difference(passed.ops, told, reached)
        self.behind = self.wrong & self.active

    def add(self, wrong: Iterable[int]) -> None:
        """Takes ops for wrong although something computed from them is right."""
        self.wrong |= set(wrong)
        self.behind = self.wrong & self.active

    @property
    def known(self) -> Side:
        """The same as `part` takes it."""
        return Side(self.passed.ops, self.told, self.reached, self.wrong)

    @property
    def starts(self) -> list[int]:
        """Numbers of the ops where the difference begins."""
        return beginnings(self.passed.ops, self.behind, self.active)


def _first(
    sides: tuple[_Side, _Side],
    starts: tuple[list[int], list[int]],
    mapping: Mapping[str, Sequence[str]],
    layers: Mapping[str, str],
) -> int:
    """The reference's graph is the finer one: several of its ops may be one function of the candidate's.

    Where that one reads weights, what reads them in the graph is where it begins.
    """
    reference, candidate = sides
    behind = reference.behind
    # The port's parameter to the variable that it is, or is a part of.
    of_parameter = {part: name for name, parts in mapping.items() for part in parts}
    for number in starts[1][:1]:
        read = {of_parameter[part] for part in candidate.passed.ops[number].weights if part in of_parameter}
        reading = [place for place in sorted(behind) if read & set(reference.passed.ops[place].weights)]
        # No weight of another layer is read on the way: else the difference began there already.
        if reading and _read_before(reading[0], reference) <= read:
            layer = layer_of(reference.passed.ops[reading[0]], layers)
            start = reference.passed.ops[starts[0][0]]
            if start.weights or scope_of(start.name, {layer}) == layer:
                return reading[0]  # else an op of its own comes before the layer, which the candidate may lack
    return starts[0][0]


def _layer_before(number: int, ops: Sequence[ForwardOp], layers: Mapping[str, str]) -> list[str]:
    """The layer that an op without a scope comes right behind, or nothing."""
    pending = list(ops[number].inputs)
    while pending:
        # The last in execution first: the nearest op in front.
        number = max(pending)
        read = [layers[name] for name in ops[number].weights if name in layers]
        if read:
            return read[:1]
        pending = [each for each in pending if each != number] + list(ops[number].inputs)
    return []


def _read_before(number: int, side: _Side) -> set[str]:
    """The weights that are read behind the difference on the way to an op."""
    ops, pending, seen = side.passed.ops, [number], set[int]()
    while pending:
        place = pending.pop()
        if place not in seen:
            seen.add(place)
            pending += [each for each in ops[place].inputs if each in side.behind]
    # Without its own weights, which are those in question.
    return {name for place in seen - {number} for name in ops[place].weights}


def _is_layer(first: int, side: _Side, layers: Mapping[str, str]) -> bool:
    """Whether a layer follows, or it is one: what comes behind all layers is the loss."""
    ops = side.passed.ops
    reading = [n for n in side.behind if n >= first and set(ops[n].weights) & layers.keys() and ops[n].shape]
    if reading:
        return True
    return bool(ops[first].shape) and bool(scope_of(ops[first].name, set(layers.values())))


def _partners(
    op: ForwardOp,
    layer: str,
    sides: tuple[_Side, _Side],
    starts: list[int],
    mapping: Mapping[str, Sequence[str]],
    layers: Mapping[str, str],
) -> list[int]:
    """Returns the candidate's ops that may be the one where it begins, the likeliest first."""
    candidate = sides[1]
    of_layer = [name for name, known in layers.items() if known == layer]
    found: list[int] = []
    for among in (candidate.behind, candidate.active):  # of a bias that is not added, the rest of its layer is right
        for names in (op.weights, of_layer):
            parameters = {part for name in names for part in mapping.get(name, ())}
            found += [number for number in sorted(among) if parameters & set(candidate.passed.ops[number].weights)]
        found += starts if op.weights == [] else []
    return list(dict.fromkeys([*found, *starts]))


def _of_layer(first: int, name: str, side: _Side, layers: Mapping[str, str], common: str) -> list[int]:
    """Returns the reference's ops that may show a layer: those of it behind the difference, and what comes right after."""
    ops = side.passed.ops
    of_it = _in_layer(name, side, layers, common)
    chain = followers(ops, of_it[-1] if of_it else first, CHAIN)
    later = [number for number in sorted(side.behind) if number > first][
        :MOST_OPS_BEHIND
    ]  # where a port leaves an op out
    return list(dict.fromkeys([first, *followers(ops, first, CHAIN), *of_it, *chain, *later]))


def _in_layer(name: str, side: _Side, layers: Mapping[str, str], common: str) -> list[int]:
    ops = side.passed.ops
    return [number for number in sorted(side.behind) if layer_of(ops[number], layers, common) == name]


def _taken(numbers: Sequence[int], side: _Side) -> list[int]:
    """Returns what some ops take from elsewhere, where that is right."""
    taken = {each for number in numbers for each in side.passed.ops[number].inputs}
    return sorted(taken - set(numbers) - side.wrong)


def _pairs(
    ours: Sequence[int], partners: Iterable[int], reference: Pass, candidate: Pass
) -> list[tuple[int, int, Aligned]]:
    """Returns the pairs that can be made of a layer, best first: with or without bias and activation.

    Of one kind where there are such, and then what stands nearest.
    """
    for partner in partners:
        pairs = [
            (number, theirs, pair)
            # A function of torch may be several ops of the graph, and the other way round.
            for theirs in [partner, *followers(candidate.ops, partner, CHAIN)]
            for number in ours
            if (pair := _pair(reference.value(number), candidate.value(theirs))) is not None
        ]
        alike = [each for each in pairs if same_kind(reference.ops[each[0]], candidate.ops[each[1]])]
        # What is another kind of op, and as far off as what has nothing to do with it, is no pair.
        pairs = alike or [each for each in pairs if each[2].apart < UNRELATED]
        if pairs:
            nearest = min(pair.apart for _, _, pair in pairs)
            # An activation behind a layer hides part of what differs: what comes before it shows more.
            best = next(each for each in pairs if each[2].apart <= ABOUT_AS_NEAR * nearest)
            return [best, *(each for each in pairs if each is not best)][:MOST_PAIRS]
    return []


def _pair(one: Array | None, other: Array | None) -> Aligned | None:
    pair = align(one, other) if one is not None and other is not None else None
    return pair if pair is not None and pair.apart > 0 else None


def _read_from(numbers: Sequence[int], side: _Side, reached: Reached) -> set[int]:
    """Returns the candidate's ops that hold what the ops of a layer take that read its weights."""
    ops = side.passed.ops
    # Of those that read weights: a bias or an activation takes what the layer itself has made.
    taken = {each for number in numbers if ops[number].weights for each in ops[number].inputs}
    held = {reached.candidate[reached.reference[each]] for each in taken if each in reached.reference}
    return {number for number, same in reached.candidate.items() if same in held}


def _extra(partners: Sequence[int], starts: Sequence[int], side: _Side, read: set[int]) -> Extra | None:
    """What stands between right values, which the reference's layer takes as they are, and what reads its weights."""
    reading = next((number for number in partners if side.passed.ops[number].weights), None)
    for number in starts[:1]:
        op = side.passed.ops[number]
        # One input on data and weights: of two it could not be said what the op does to which.
        taken = [each for each in op.inputs if each in side.active]
        if reading is None or number >= reading or op.weights or len(taken) != 1 or taken[0] not in read:
            continue
        before, after = side.passed.value(taken[0]), side.passed.value(number)
        if before is not None and after is not None and before.size == after.size:
            return Extra(op, np.asarray(before, np.float64).reshape(after.shape), np.asarray(after, np.float64))
    return None


def _others(side: _Side, numbers: Iterable[int]) -> list[str]:
    ops = side.passed.ops
    taken = [
        each for number in numbers for each in ops[number].inputs if each in side.wrong and each not in side.active
    ]
    return [" ".join(part for part in (ops[each].name, ops[each].kind) if part) for each in taken]


def _inputs(taken: Sequence[int], reference: Pass) -> dict[str, Array]:
    values = {reference.ops[number].name: reference.value(number) for number in taken}
    return {name: value for name, value in values.items() if value is not None}


def _before(first: int, side: _Side, layers: Mapping[str, str], own: str) -> tuple[list[str], list[str]]:
    same: dict[str, bool] = {}
    known = set(layers.values())
    for number, op in enumerate(side.passed.ops[:first]):
        name = next((layers[weight] for weight in op.weights if weight in layers), "")
        if name:
            same.setdefault(name, False)
        name = name or scope_of(op.name, known)
        # One output that the other side has too shows that the layer is right.
        if name in same and number in side.reached:
            same[name] = True
    return [name for name, seen in same.items() if seen and name != own], [
        name for name, seen in same.items() if not seen and name != own
    ]
