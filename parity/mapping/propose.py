"""Proposes which variables belong together, from names, shapes, initial values and the gradients of the first step.

For reading and pasting: nothing that is proposed is ever in force by itself.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Mapping as Map
from functools import cached_property
from typing import NamedTuple

import numpy as np

from parity.mapping.fits import becomes, fits
from parity.mapping.guesses import Numbers
from parity.mapping.names import meanings
from parity.mapping.pairwise.agreement import agreements
from parity.mapping.pairwise.letters import likeness
from parity.mapping.units import Unit
from parity.mapping.variable_map import line
from parity.mapping.variables import Variable
from parity.trace.arrays import Array

SURE = 0.5  # of a confidence: below, a line is shown as a comment, for somebody to decide
# Numbers outweigh names: two kernels with their names swapped are joined by what they hold.
SCORE_WEIGHTS = {"name": 1.0, "initial value": 3.0, "first gradient": 3.0}
PAIRS_AT_ONCE = 4096  # pairs of which those whose variable is taken are left out in one go


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
        return float(_totals(np.array([self.scores.get(what, np.nan) for what in SCORE_WEIGHTS])))


def propose(reference: Values, candidate: Values) -> list[Proposal]:
    """Returns for every variable of the reference that something fits the best of it, each of the candidate's used once.

    All layouts that the shapes allow are tried, a square kernel both ways; so are an LSTM's kernel and bias as two of
    torch's, and one bias as the sum of two. Two swapped variables of one shape, which no name and no shape tells, show in
    the values they start from and in their gradients. The best pair is taken first.

    Args:
      reference: the TensorFlow side.
      candidate: the torch side.
    """
    units = _units(candidate)
    blocks = [*_blocks(reference, candidate, units)]
    rivals = _Rivals(blocks, units)
    found = {}
    for block, row, column in _best_first(blocks, units):
        variable, unit = int(block.rows[row]), int(block.columns[column])
        scores = zip(SCORE_WEIGHTS, block.scores[:, row, column].tolist(), strict=True)
        known = {what: score for what, score in scores if not math.isnan(score)}
        own = float(block.totals[row, column])
        confidence = _ahead(own, rivals.best(own, variable, unit))
        name = reference.variables[variable].name
        found[variable] = Proposal(name, units[unit].names, block.text, known, confidence)
    return [found[variable] for variable in sorted(found)]


def numbers_of(reference: Values, candidate: Values) -> Numbers:
    """Returns what the values of two sides say of a pair: those that they start from, and the gradients of the first step.

    Where either agrees the pair is meant: values that were drawn do not agree by chance.
    """
    return _Numbers(lambda: (reference, candidate))


def numbers_when_asked(read: Callable[[], tuple[Values, Values]]) -> Numbers:
    """Returns the same, of values that are read when the first pair is open: names and shapes mostly leave none."""
    return _Numbers(read)


class _Numbers(Numbers):
    def __init__(self, read: Callable[[], tuple[Values, Values]]) -> None:
        self._read = read

    @cached_property
    def _sides(self) -> tuple[Values, Values]:
        return self._read()

    def __call__(self, variable: Variable, unit: Unit, text: str, /) -> float | None:
        distance = float(self.of_all([variable], [unit], text)[0, 0])
        return None if math.isnan(distance) else distance

    def of_all(self, variables: Sequence[Variable], units: Sequence[Unit], text: str, /) -> Array:
        return 1.0 - np.fmax(*_agreements(*self._sides, variables, units, text))


def _agreements(
    reference: Values, candidate: Values, variables: Sequence[Variable], units: Sequence[Unit], text: str
) -> tuple[Array, Array]:
    """How much initial values and first gradients agree: each float ``[variables, units]``, NaN where unknown."""
    return (
        agreements(variables, units, text, reference.initial, candidate.initial, linear=False),
        agreements(variables, units, text, reference.gradient, candidate.gradient, linear=True),
    )


def proposed_toml(proposals: Sequence[Proposal]) -> str:
    """Returns a [mapping] table with every proposal; those that are no more than guesses are commented out."""
    lines = []
    for each in proposals:
        text = line(each.reference, each.candidate, each.transform)
        sure = each.confidence >= SURE
        lines.append(text if sure else f"# {text}  # a guess: confidence {each.confidence:.2f}")
    return "\n".join(["[mapping]", *lines]) + "\n"


class _Block(NamedTuple):
    """What speaks for every pair of some variables and some units, all of one form on either side, by one transform.

    Fields:
      rows, columns: the places of the variables and of the units, int ``[rows]`` and ``[columns]``.
      text: the transform.
      rank: how many others come before it for these forms.
      scores: in the order of `SCORE_WEIGHTS`, NaN where nothing is known; float ``[scores, rows, columns]``.
      totals: the scores in one, float ``[rows, columns]``.
    """

    rows: Array
    columns: Array
    text: str
    rank: int
    scores: Array
    totals: Array


def _blocks(reference: Values, candidate: Values, units: Sequence[Unit]) -> Iterator[_Block]:
    """Yields all pairs that may be meant, each once for each of its transforms."""
    meant, of_candidate = (
        dict(zip(names, meanings(names), strict=True))
        for names in ([variable.name for variable in side.variables] for side in (reference, candidate))
    )
    for rows, columns, texts in _forms(reference.variables, units):
        variables, near = [reference.variables[row] for row in rows], [units[column] for column in columns]
        parts = [[of_candidate[name] for name in names] for names in zip(*(unit.names for unit in near), strict=True)]
        name = np.maximum.reduce([likeness([meant[variable.name] for variable in variables], part) for part in parts])
        for rank, text in enumerate(texts):
            scores = np.array([name, *_agreements(reference, candidate, variables, near, text)])
            yield _Block(np.array(rows), np.array(columns), text, rank, scores, _totals(scores))


def _forms(variables: Sequence[Variable], units: Sequence[Unit]) -> Iterator[tuple[list[int], list[int], list[str]]]:
    """Yields places of variables and of units, each all of one form, with the transforms that make the ones the others."""
    near: dict[int, dict[object, list[int]]] = defaultdict(lambda: defaultdict(list))
    for column, unit in enumerate(units):
        near[unit.size][unit.form].append(column)
    rows_of: dict[object, list[int]] = defaultdict(list)
    for row, variable in enumerate(variables):
        rows_of[variable.form].append(row)
    for rows in rows_of.values():
        variable = variables[rows[0]]
        for columns in near.get(math.prod(variable.shape), {}).values():
            texts = _texts(variable, units[columns[0]])
            if texts:
                yield rows, columns, texts


def _texts(one: Variable, unit: Unit) -> list[str]:
    if unit.texts:
        return [text for text in unit.texts if becomes(text, one, *unit.parts)]
    (other,) = unit.parts
    return [*dict.fromkeys([*fits(one, other), *_both_ways(one, other)])]


def _units(candidate: Values) -> list[Unit]:
    """What a variable may become: each of the candidate's, and two of a recurrent layer."""
    by_name = {variable.name: variable for variable in candidate.variables}
    units = [Unit(variable.name, (variable,)) for variable in candidate.variables]
    for text, first, second in (("lstm_gates", "weight_ih", "weight_hh"), ("bias", "bias_ih", "bias_hh")):
        for name in filter(lambda name: first in name, by_name):
            partner = by_name.get(name.replace(first, second))
            if partner is not None:
                texts = _of_biases(partner.name, candidate) if text == "bias" else [text]
                units.append(Unit(f"{name} + {partner.name}", (by_name[name], partner), tuple(texts)))
    return units


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


def _totals(scores: Array) -> Array:
    """The scores in one, 0 to 1: float ``[...]`` of ``[scores, ...]``."""
    total: Array = np.zeros(scores.shape[1:])
    weight: Array = np.zeros(scores.shape[1:])
    for score, each in zip(scores, SCORE_WEIGHTS.values(), strict=True):
        total += each * np.nan_to_num(score)
        weight += each * ~np.isnan(score)
    total /= weight
    return total


def _best_first(blocks: Sequence[_Block], units: Sequence[Unit]) -> Iterator[tuple[_Block, int, int]]:
    """Yields block, row and column of the pair of the highest score, then of the best of what is left, and so on.

    Greedy and not the cheapest assignment as for guesses: a reader of the table sees why each line is there. Of equal pairs
    the first is taken, by the places of variable and unit, then by the rank of the transform.
    """
    if not blocks:
        return
    sizes = [block.totals.size for block in blocks]
    totals = np.concatenate([block.totals.ravel() for block in blocks])
    cells = np.concatenate([(block.rows[:, None] * len(units) + block.columns).ravel() for block in blocks])
    order = np.lexsort((np.repeat([block.rank for block in blocks], sizes), cells, -totals))
    rows, columns = np.divmod(cells, len(units))
    first = np.cumsum([0, *sizes])
    left, taken = np.bincount(rows) > 0, set[str]()
    for some in np.array_split(order, 1 + order.size // PAIRS_AT_ONCE):
        for pair in some[left[rows[some]]].tolist():
            names = units[columns[pair]].names
            if left[rows[pair]] and taken.isdisjoint(names):
                left[rows[pair]] = False
                taken.update(names)
                number = int(np.searchsorted(first, pair, side="right")) - 1
                yield blocks[number], *divmod(pair - int(first[number]), len(blocks[number].columns))


class _Rivals:
    """Knows the two best scores of every variable of either side: the best of a pair's rivals is one of them.

    Args:
      blocks: all pairs.
      units: the candidate's.
    """

    def __init__(self, blocks: Sequence[_Block], units: Sequence[Unit]) -> None:
        names = {name: place for place, name in enumerate(dict.fromkeys(name for unit in units for name in unit.names))}
        rows = 1 + max((int(block.rows.max()) for block in blocks), default=-1)
        self._parts = [[rows + names[name] for name in unit.names] for unit in units]
        self._best = np.full((rows + len(names), 2), -np.inf)  # the second best, and the best
        for block in blocks:
            self._add(block.rows, block.totals)
            for parts in zip(*(self._parts[column] for column in block.columns), strict=True):
                self._add(np.array(parts), block.totals.T)

    def _add(self, variables: Array, totals: Array) -> None:
        known = np.concatenate([self._best[variables], totals], axis=1)
        self._best[variables] = np.partition(known, -2, axis=1)[:, -2:]

    def best(self, own: float, row: int, column: int) -> float:
        """Returns the highest score of the pairs of a variable and a unit beside theirs, which is `own`; -inf if none."""
        found = self._best[[row, *self._parts[column]]]
        return float(np.where(found[:, 1] > own, found[:, 1], found[:, 0]).max())


def _ahead(own: float, best: float) -> float:
    """Returns the confidence in a pair, from its score and that of its best rival."""
    # A lead of a quarter over the best rival is a full one. Numbers that agree leave rivals nothing: unrelated arrays
    # of one size are as far apart as they are long. Without a rival the lead is infinite.
    return max(0.0, min(1.0, (own - best) / 0.25)) * own
