"""Proposes which variables belong together, from names, shapes, initial values and the gradients of the first step.

For reading and pasting: nothing that is proposed is ever in force by itself.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from collections.abc import Mapping as Map
from typing import NamedTuple

import numpy as np

from parity.mapping.by_gradients import evenly_spaced
from parity.mapping.fits import becomes, fits
from parity.mapping.guesses import Numbers
from parity.mapping.names import meanings, similarity
from parity.mapping.transforms import parse_transform
from parity.mapping.units import Unit
from parity.mapping.variable_map import line
from parity.mapping.variables import Variable
from parity.trace.arrays import Array

SURE = 0.5  # of a confidence: below, a line is shown as a comment, for somebody to decide
# Numbers outweigh names: two kernels with their names swapped are joined by what they hold.
SCORE_WEIGHTS = {"name": 1.0, "initial value": 3.0, "first gradient": 3.0}
MOST_SCORED = 4096  # elements of a variable, evenly spaced
TIED = 1e-3  # distances up to this count as equal: gradients of the first step come in float32, from two frameworks


class Values(NamedTuple):
    """What a trace knows of one side's variables.

    Fields:
      variables: the side's.
      initial: dict of name to its value before the first step.
      gradient: dict of name to its combined gradient at the first step.
    """

    variables: Sequence[Variable]
    initial: Map[str, Array]
    gradient: Map[str, Array]


class Proposal(NamedTuple):
    """One pair that may be meant.

    Fields:
      reference: the reference's name.
      candidate: the candidate's names.
      transform: as a case writes it.
      scores: what speaks for it: "name", "initial value", "first gradient", each 0 to 1; only of what is known.
      confidence: by how much it is ahead of the best rival, 0 to 1: of another partner, or of another layout of the same.
    """

    reference: str
    candidate: tuple[str, ...]
    transform: str
    scores: dict[str, float]
    confidence: float

    @property
    def total(self) -> float:
        """The scores in one, 0 to 1."""
        return _total(self.scores)


def propose(reference: Values, candidate: Values) -> list[Proposal]:
    """Returns for every variable of the reference that something fits the best of it, each of the candidate's used once.

    All layouts that the shapes allow are tried, a square kernel both ways; so are an LSTM's kernel and bias as two of
    torch's, and one bias as the sum of two. Two swapped variables of one shape, which no name and no shape tells, show in
    the values they start from and in their gradients. The best pair is taken first.

    Args:
      reference: the TensorFlow side.
      candidate: the torch side.
    """
    possible = [*_possible(reference, candidate)]
    near = _Rivals(possible)
    found: list[Proposal] = []
    left, free = {v.name for v in reference.variables}, {v.name for v in candidate.variables}
    # Greedy and not the cheapest assignment as for guesses: a reader of the table sees why each line is there.
    for proposal in sorted(possible, key=lambda each: -each.total):
        if proposal.reference in left and free.issuperset(proposal.candidate):
            left.remove(proposal.reference)
            free.difference_update(proposal.candidate)
            found.append(proposal._replace(confidence=_ahead(proposal, near.of(proposal))))
    order = {variable.name: place for place, variable in enumerate(reference.variables)}
    return sorted(found, key=lambda each: order[each.reference])


def numbers_of(reference: Values, candidate: Values) -> Numbers:
    """Returns what the values of two sides say of a pair: those that they start from, and the gradients of the first step.

    Where either agrees the pair is meant: values that were drawn do not agree by chance.
    """

    def distance(variable: Variable, unit: Unit, text: str) -> float | None:
        parts = unit.names if unit.rows is None else (unit.label,)
        found = [
            _agreement(text, variable.name, parts, wanted, _held(unit, got), linear)
            for wanted, got, linear in (
                (reference.initial, candidate.initial, False),
                (reference.gradient, candidate.gradient, True),
            )
        ]
        distances = [1.0 - each for each in found if each is not None]
        return min(distances) if distances else None

    return distance


def _held(unit: Unit, values: Map[str, Array]) -> Map[str, Array]:
    if unit.rows is None:
        return values
    (name,) = unit.names
    return {unit.label: unit.block(values[name])} if name in values else {}


def proposed_toml(proposals: Sequence[Proposal]) -> str:
    """Returns a [mapping] table with every proposal; those that are no more than guesses are commented out."""
    lines = []
    for each in proposals:
        text = line(each.reference, each.candidate, each.transform)
        sure = each.confidence >= SURE
        lines.append(text if sure else f"# {text}  # a guess: confidence {each.confidence:.2f}")
    return "\n".join(["[mapping]", *lines]) + "\n"


def _possible(reference: Values, candidate: Values) -> Iterator[Proposal]:
    names = dict(
        zip((v.name for v in reference.variables), meanings([v.name for v in reference.variables]), strict=True)
    )
    others = dict(
        zip((v.name for v in candidate.variables), meanings([v.name for v in candidate.variables]), strict=True)
    )
    layouts = _Layouts(candidate)
    for one in reference.variables:
        for parts, text in layouts.of(one):
            scores = {"name": max(similarity(names[one.name], others[part]) for part in parts)}
            for what, wanted, got in (
                ("initial value", reference.initial, candidate.initial),
                ("first gradient", reference.gradient, candidate.gradient),
            ):
                agreement = _agreement(text, one.name, parts, wanted, got, linear=what == "first gradient")
                if agreement is not None:
                    scores[what] = agreement
            yield Proposal(one.name, parts, text, scores, 0.0)


class _Layouts:
    """Finds what a variable may become, by size: in a large model most variables have another one.

    Args:
      candidate: the torch side.
    """

    def __init__(self, candidate: Values) -> None:
        self._by_size: dict[int, list[Variable]] = defaultdict(list)
        for variable in candidate.variables:
            self._by_size[math.prod(variable.shape)].append(variable)
        self._recurrent = [*_recurrent_pairs(candidate)]

    def of(self, one: Variable) -> Iterator[tuple[tuple[str, ...], str]]:
        """Returns names of the candidate's with the transform that makes them of a variable of the reference's."""
        for other in self._by_size[math.prod(one.shape)]:
            for text in {**dict.fromkeys(fits(one, other)), **dict.fromkeys(_both_ways(one, other))}:
                yield (other.name,), text
        for text, first, second in self._recurrent:
            if becomes(text, one, first, second):
                yield (first.name, second.name), text


def _recurrent_pairs(candidate: Values) -> Iterator[tuple[str, Variable, Variable]]:
    by_name = {variable.name: variable for variable in candidate.variables}
    for text, first, second in (("lstm_gates", "weight_ih", "weight_hh"), ("bias", "bias_ih", "bias_hh")):
        for name in filter(lambda name: first in name, by_name):
            partner = by_name.get(name.replace(first, second))
            if partner is not None:
                for layout in _of_biases(partner.name, candidate) if text == "bias" else [text]:
                    yield layout, by_name[name], partner


def _both_ways(one: Variable, other: Variable) -> list[str]:
    # What an op says of a kernel's layout may be wrong of a port that multiplies the other way round.
    square = len(one.shape) == 2 and one.shape == other.shape and one.shape[0] == one.shape[1]
    packed = other.use in ("LSTM", "LSTMCell", "GRU", "GRUCell", "MultiheadAttention")
    return ["identity", "transpose"] if square and one.kind == other.kind and not packed else []


def _of_biases(second: str, candidate: Values) -> list[str]:
    # TensorFlow's forget bias is a constant that torch keeps in the second bias: what it is shows in its initial value.
    value = candidate.initial.get(second)
    if value is None or value.ndim != 1 or value.size % 4:
        return ["lstm_bias(1.0)", "sum"]
    forget = value[value.size // 4 : value.size // 2]
    rest = np.delete(value, slice(value.size // 4, value.size // 2))
    return [f"lstm_bias({float(forget[0]):g})"] if not np.ptp(forget) and not rest.any() else ["sum"]


def _agreement(
    text: str, name: str, parts: tuple[str, ...], wanted: Map[str, Array], got: Map[str, Array], linear: bool
) -> float | None:
    # None where nothing is known: one side has no value, or all elements are the same, as zero biases are.
    known = [part for part in parts if part in got]
    if name not in wanted or not known:
        return None
    transform = parse_transform(text)
    made = transform.forward(np.asarray(wanted[name], np.float64), linear)
    if transform.is_sum and not linear and len(known) == len(parts):  # of a sum only the whole is known
        whole = transform.backward(*(np.asarray(got[part], np.float64) for part in parts))
        made, got, parts = (np.asarray(wanted[name], np.float64),), {name: whole}, (name,)
    pairs = [(value, np.asarray(got[part], np.float64)) for part, value in zip(parts, made, strict=True) if part in got]
    if any(value.shape != other.shape for value, other in pairs):
        return 0.0
    one = evenly_spaced(np.concatenate([value.ravel() for value, _ in pairs]), MOST_SCORED)
    other = evenly_spaced(np.concatenate([value.ravel() for _, value in pairs]), MOST_SCORED)
    if not one.size or (not np.ptp(one) and not np.ptp(other)):
        return None
    # As for gradients: 0 equal, 0.7 nothing in common, 1 opposite.
    scale = float(np.linalg.norm(one) + np.linalg.norm(other))
    distance = float(np.linalg.norm(one - other)) / scale
    return max(0.0, 1.0 - distance * (1.0 if distance > TIED else 0.0))


def _total(scores: dict[str, float]) -> float:
    weight = sum(SCORE_WEIGHTS[what] for what in scores)
    return sum(SCORE_WEIGHTS[what] * score for what, score in scores.items()) / weight


class _Rivals:
    """Finds proposals for the same variable of either side.

    Args:
      possible: all there are.
    """

    def __init__(self, possible: Sequence[Proposal]) -> None:
        self._by_name: dict[tuple[str, str], list[Proposal]] = defaultdict(list)
        for each in possible:
            for place in self._places(each):
                self._by_name[place].append(each)

    def of(self, proposal: Proposal) -> Iterator[Proposal]:
        """Returns those other than a proposal, some of them twice."""
        own = proposal[:3]
        return (each for place in self._places(proposal) for each in self._by_name[place] if each[:3] != own)

    def _places(self, proposal: Proposal) -> list[tuple[str, str]]:
        return [("reference", proposal.reference), *(("candidate", name) for name in proposal.candidate)]


def _ahead(proposal: Proposal, rivals: Iterator[Proposal]) -> float:
    own, best = proposal.total, max((each.total for each in rivals), default=None)
    if best is None:
        return own
    # A lead of a quarter over the best rival is a full one. Numbers that agree leave rivals nothing: unrelated arrays
    # of one size are as far apart as they are long.
    return max(0.0, min(1.0, (own - best) / 0.25)) * own
