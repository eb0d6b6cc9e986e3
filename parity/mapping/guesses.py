"""Guesses which variables belong together: the assignment that least speaks against."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from collections.abc import Mapping as Map
from typing import NamedTuple, Protocol

import numpy as np

from parity.mapping.fits import BY_SHAPE, NameMeanings, contradict
from parity.mapping.names import Meaning, meanings
from parity.mapping.similarity import Similarity, candidate_family, reference_families, strangeness
from parity.mapping.transforms import parse_transform
from parity.mapping.units import Unit
from parity.mapping.variable_map import Pair
from parity.mapping.variables import Variable
from parity.trace.arrays import Array

# A thousandth of it stands for no column at all, 1e6: more than 8,000 exchanges of partners can cost, at no more than
# 112 each and some places of order, so that no variable goes without a partner for the sake of others. In float64 sums
# with it still show differences of 1e-6, far below a place of order.
FORBIDDEN = 1e9


def assign(costs: Array) -> list[int | None]:
    """Returns for every row the column that it gets in the assignment of the lowest total cost, None where it gets none.

    Args:
      costs: float ``[rows, columns]``; `FORBIDDEN` where a row may not get a column. As many rows as can be get one.

    Source: Jonker and Volgenant, "A shortest augmenting path algorithm for dense and sparse linear assignment problems",
    Computing 38, 1987; potentials as in Kuhn and Munkres, O(rows^2 columns).
    """
    rows, columns = costs.shape
    if not rows or not columns:
        return [None] * rows
    # (rows, columns + rows): a column of its own for every row, dearer than anything allowed and cheaper than what is
    # forbidden, so that there always is an assignment, and a row goes without only where no column is left for it.
    padded = np.concatenate([np.minimum(costs, FORBIDDEN), np.full((rows, rows), FORBIDDEN / 1e3)], axis=1)
    # The dual potentials, (rows,) and (columns + rows,).
    over_rows, over_columns = np.zeros(rows), np.zeros(columns + rows)
    owner = np.full(columns + rows, -1)
    for row in range(rows):
        _augment(padded, row, over_rows, over_columns, owner)
    found: list[int | None] = [None] * rows
    for column in range(columns):
        if owner[column] >= 0 and costs[owner[column], column] < FORBIDDEN:
            found[owner[column]] = column
    return found


def _augment(costs: Array, row: int, over_rows: Array, over_columns: Array, owner: Array) -> None:
    """Gives `row` a column, moving others along the cheapest path; the potentials keep all reduced costs at 0 or more."""
    count = costs.shape[1]
    distance, before = np.full(count, np.inf), np.full(count, -1)
    done = np.zeros(count, bool)
    reached, spent, column = row, 0.0, -1
    visited: list[tuple[int, float]] = [(row, 0.0)]
    # Dijkstra over columns: distance[c] is the least reduced cost of a path of exchanges that ends at column c, by way
    # of before[c]; it is final for every column that is done. The first free one ends the search.
    while True:
        reduced = spent + costs[reached] - over_rows[reached] - over_columns
        nearer = ~done & (reduced < distance)
        distance[nearer], before[nearer] = reduced[nearer], column
        column = int(np.argmin(np.where(done, np.inf, distance)))
        spent, done[column] = float(distance[column]), True
        if owner[column] < 0:
            break
        reached = int(owner[column])
        visited.append((reached, spent))
    # Keeps costs - over_rows - over_columns >= 0, and = 0 for every owned column: that is what makes the total the
    # lowest.
    for each, at in visited:
        over_rows[each] += spent - at
    over_columns[done] += np.minimum(distance[done] - spent, 0.0)
    while column >= 0:  # back along the path: each column goes to the row that owned the one before it
        previous = int(before[column])
        owner[column] = owner[previous] if previous >= 0 else row
        column = previous


BY_LIKENESS = "by similar name and shape"
BY_ORDER = "by order and shape"
BY_NUMBERS = "by numbers"
UNVERIFIED = ", unverified"

# What speaks against a pair; nothing is measured in a unit, only the order of sizes counts. A name in common weighs
# more than two places of order, a kind of layer more than any few, the kernel of the layer more than the name of its
# bias; numbers outweigh everything. Found by trying, on the models of tests/parity/mapping. With one of them changed so
# many of the 323 tests there of guesses and proposals fail: NAME 0: 146, 2: 2; ORDER 0: 9, 0.5: 2; MATE 0: 2;
# NEIGHBOURS 0: 2. None fails with NAME 8, FAMILY 0 or 6, MATE 5, NEIGHBOURS 6.
NAME, FAMILY, ORDER, MATE, NUMBERS = 4.0, 3.0, 0.25, 2.5, 100.0
# Exponent of places of order. It has to be convex: linear, two crossing pairs would cost no more than two parallel ones
# where both places of one side are behind those of the other: |0 - 2| + |1 - 3| = |0 - 3| + |1 - 2|. With 1 a test
# fails, with 2 three.
BENT = 1.5
NEIGHBOURS = 3.0  # all that is before and behind in the graphs: less than a name, more than a few places of order
# Distance up to which gradients of two sides agree. In float64 rounding leaves some 2^-53 of each term of a sum, 1e-10
# for a million terms that all round the same way; a reference in float32 brings its own tolerance. With 1e-10 no test
# fails, with 1e-2 19 do.
EQUAL = 1e-6
# Gradients without anything in common are 0.7 apart, hardly ever less than 0.4. With 0.01 two tests fail, with 0.4
# five.
NEAR = 0.1
# Of what numbers weigh: 0.2 for the farthest, less than a place of order. With 0.02, eight places, a test fails.
UNEQUAL = 0.002
AHEAD = 1.0  # by so much a name must be ahead of the next for it to be what decided, of `NAME`: a quarter of its words

Options = tuple[tuple[Unit, str], ...]


class Numbers(Protocol):
    """What numbers say of a pair that may be meant."""

    def __call__(self, variable: Variable, unit: Unit, text: str, /) -> float | None:
        """Returns how far apart the two are, 0 equal to 1 unrelated; None where the numbers do not say."""


class Around(Protocol):
    """What the graphs say of a pair that may be meant."""

    def __call__(self, variable: Variable, unit: Unit, /) -> float:
        """Returns how much of what is around the two differs, 0 to 1."""


class Guess(NamedTuple):
    """One of the reference's variables and what it is taken for.

    Fields:
      variable: the reference's.
      unit, text: what it is taken for, and by which transform.
      options: everything that it may be.
      why: what the choice rests on.
      verified: whether numbers agree with it; None where they do not say.
    """

    variable: Variable
    unit: Unit
    text: str
    options: Options
    why: str
    verified: bool | None = None

    @property
    def open(self) -> bool:
        """Whether there was a choice, of partner or of layout."""
        return self.why != BY_SHAPE or len(self.options) > 1

    @property
    def of_layout(self) -> bool:
        """Whether the partner is sure and the choice is one of layout only."""
        return len(self.options) > 1 and len({unit for unit, _ in self.options}) == 1

    def only(self, text: str) -> "Guess":
        """Returns the guess with `text` as the only sum that it may be."""
        kept = tuple((u, each) for u, each in self.options if each == text or not parse_transform(each).is_sum)
        return self._replace(options=kept, text=text if parse_transform(self.text).is_sum else self.text)

    def among(self, options: Sequence[tuple[Unit, str]]) -> "Guess":
        """Returns the guess with fewer options, of its own unit some; the first of that where it was none of these."""
        texts = [text for unit, text in options if unit == self.unit]
        return self._replace(options=tuple(options), text=self.text if self.text in texts else texts[0])

    @property
    def consequential(self) -> bool:
        """Whether it takes numbers to know: not where the partner is sure, and the layout but for a flattened map."""
        usual = [text for _, text in self.options if "flatten_hwc" not in text]
        return self.why != BY_SHAPE or len(usual) != 1 or self.text != usual[0]

    @property
    def pair(self) -> Pair:
        """The pair that it makes."""
        why = self.why + (UNVERIFIED if self.verified is False else "")
        return Pair(self.variable.name, self.unit.names, parse_transform(self.text), why, self.variable.shape)


def guess_pairs(
    reference: Sequence[Variable],
    variables: Sequence[Variable],
    units: Sequence[Unit],
    options: Map[str, Options],
    sure: Map[str, Pair],
    meaning: NameMeanings,
    numbers: Numbers | None = None,
    around: Around | None = None,
) -> tuple[Guess, ...]:
    """Returns the assignment of variables to units against which names, layers, order and numbers speak least.

    Kernels come first, then the vectors and statistics of their layers, which follow them.

    Args:
      reference: all of the reference's variables, in order.
      variables: those to guess.
      units: what they may become, in order.
      options: by the reference's name, units and transforms, the likeliest layout first.
      sure: the pairs that are decided.
      meaning: what the names say.
      numbers: what the numbers say, or None.
      around: what the graphs say, or None.
    """
    # A layer is found by its kernel; what the kernels are joined to is what `MATE` holds their vectors to.
    solver = _Solver(reference, variables, units, options, sure, meaning, numbers, around)
    guesses = {guess.variable.name: guess for stage in _stages(variables, meaning) for guess in solver.assigned(stage)}
    found = tuple(guesses[variable.name] for variable in variables if variable.name in guesses)
    return checked_guesses(found, sure, meaning, numbers) if numbers else found


def checked_guesses(
    guesses: tuple[Guess, ...], sure: Map[str, Pair], meaning: NameMeanings, numbers: Numbers
) -> tuple[Guess, ...]:
    """Returns guesses with what numbers say of each; one of which they do not say goes with the rest of its layer."""
    by_name = {guess.variable.name: guess for guess in guesses}
    layers: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for name, pair in sure.items():
        layers[meaning.reference[name].where].update(_layer(each) for each in pair.candidate)
    return tuple(_verified(guess, by_name, layers, meaning, numbers) for guess in guesses)


def _stages(variables: Sequence[Variable], meaning: NameMeanings) -> Iterator[list[Variable]]:
    def stage(variable: Variable) -> int:
        if len(variable.shape) > 1:
            return 0
        if variable.kind != "weight":
            return 3
        return 1 if meaning.reference[variable.name].role == "weight" else 2

    for number in range(4):
        yield [variable for variable in variables if stage(variable) == number]


class _Solver:
    """Keeps what speaks against each pair, and which layers are joined so far."""

    def __init__(
        self,
        reference: Sequence[Variable],
        variables: Sequence[Variable],
        units: Sequence[Unit],
        options: Map[str, Options],
        sure: Map[str, Pair],
        meaning: NameMeanings,
        numbers: Numbers | None,
        around: Around | None,
    ) -> None:
        self._around = around
        self._units, self._options, self._meaning, self._numbers = list(units), options, meaning, numbers
        families = reference_families(reference, [meaning.reference[v.name] for v in reference])
        self._family = {v.name: family for v, family in zip(reference, families, strict=True)}
        self._similarity = Similarity([v.name for v in variables], [unit.label for unit in units])
        labels = [unit.label for unit in units]
        self._role = {
            unit: meaning.candidate.get(unit.label, m).role for unit, m in zip(units, meanings(labels), strict=True)
        }
        self._layers: dict[tuple[str, ...], set[str]] = defaultdict(set)
        for name, pair in sure.items():
            self._join(meaning.reference[name], pair.candidate)
        self._rivals: dict[Unit, list[str]] = defaultdict(list)
        for name, found in options.items():
            for unit in dict.fromkeys(unit for unit, _ in found):
                self._rivals[unit].append(name)
        self._free = dict.fromkeys(self._units)
        self._order_of_units = {unit: place for place, unit in enumerate(self._units)}
        self._ranks = dict(self._ranked(variables))

    def assigned(self, variables: Sequence[Variable]) -> list[Guess]:
        """Returns guesses for some of the variables; what they take is taken."""
        units = list(self._free)
        places = {unit: place for place, unit in enumerate(units)}
        costs = np.full((len(variables), len(units)), FORBIDDEN)  # (variables of this stage, units still free)
        texts: dict[tuple[int, int], str] = {}
        for row, variable in enumerate(variables):
            for unit, (cost, text) in self._costs(variable).items():
                if unit in places:
                    costs[row, places[unit]] = cost
                    texts[row, places[unit]] = text
        found = []
        for row, column in enumerate(assign(costs)):
            if column is None:
                continue
            unit, variable = units[column], variables[row]
            options = self._options[variable.name]
            why = self._why(variable, unit, costs, row, column)
            found.append(Guess(variable, unit, texts[row, column], options, why))
            del self._free[unit]
            self._join(self._meaning.reference[variable.name], [unit.label])
        return found

    def _costs(self, variable: Variable) -> dict[Unit, tuple[float, str]]:
        """By unit what speaks against it, and the likeliest layout."""
        best: dict[Unit, tuple[float, str]] = {}
        role, family = self._meaning.reference[variable.name].role, self._family[variable.name]
        where = self._meaning.reference[variable.name].where
        for unit, text in self._options[variable.name]:
            # No cost but no pair: a weight is never taken for a bias, however alike the rest is.
            if contradict(role, self._role[unit], unit.use):
                continue
            cost = NAME * (1.0 - self._similarity(variable.name, unit.label))
            cost += FAMILY * strangeness(family, candidate_family(unit.use))
            cost += ORDER * float(abs(self._rank(variable, unit))) ** BENT
            cost += MATE * (bool(self._layers[where]) and _layer(unit.label) not in self._layers[where])
            cost += NEIGHBOURS * self._around(variable, unit) if self._around else 0.0
            distance = self._numbers(variable, unit, text) if self._numbers else None
            cost += NUMBERS * _penalty(distance) if self._numbers else 0.0
            if unit not in best or cost < best[unit][0]:
                best[unit] = cost, text
        return best

    def _rank(self, variable: Variable, unit: Unit) -> int:
        one, other = self._ranks[variable.name], self._ranks[unit.label, unit.rows]
        return one - other

    def _ranked(self, variables: Sequence[Variable]) -> Iterator[tuple[object, int]]:
        """The place of every variable and unit among those that are like it: of one kind, role and layer."""
        groups = _components(variables, self._options)
        counts: dict[object, int] = defaultdict(int)
        key: object
        for variable in variables:
            key = ("reference", groups[variable.name], self._meaning.reference[variable.name].role)
            yield variable.name, counts[key]
            counts[key] += 1
        for unit in self._units:
            key = ("candidate", groups.get(unit), self._role[unit])
            yield (unit.label, unit.rows), counts[key]
            counts[key] += 1

    def _join(self, meaning: Meaning, names: Sequence[str]) -> None:
        self._layers[meaning.where].update(_layer(name) for name in names)

    def _why(self, variable: Variable, unit: Unit, costs: Array, row: int, column: int) -> str:
        units = {each for each, _ in self._options[variable.name]}
        rivals = self._rivals[unit]
        if len(units) == 1 and len(rivals) == 1:
            return BY_SHAPE
        own = self._similarity(variable.name, unit.label)
        others = [self._similarity(variable.name, each.label) for each in units if each != unit]
        others += [self._similarity(name, unit.label) for name in rivals if name != variable.name]
        return BY_LIKENESS if own - max(others, default=0.0) > AHEAD / NAME else BY_ORDER


def _penalty(distance: float | None) -> float:
    """What numbers count against a pair, 0 to 1: those that are not near say little of how far apart they are.

    Where a port has a bug no gradient is the other side's, and which of those far off is nearest is chance.
    """
    if distance is None:  # no better and no worse than numbers that agree in nothing
        return 0.5
    return distance if distance <= NEAR else 0.5 + UNEQUAL * distance


def _components(variables: Sequence[Variable], options: Map[str, Options]) -> dict[object, int]:
    """By variable's name and by unit the number of the group of all that may be each other's."""
    # Union by relabelling: after each variable all that is linked through one of its options has one number. Places of
    # order count within such a group, so that a layer more in one part of a model does not shift all others.
    group: dict[object, int] = {}
    for number, variable in enumerate(variables):
        members: list[object] = [variable.name, *dict.fromkeys(unit for unit, _ in options[variable.name])]
        old = {group[member] for member in members if member in group}
        group.update(dict.fromkeys(members, number))
        group.update({member: number for member, each in group.items() if each in old})
    return group


def _layer(name: str) -> str:
    return name.rpartition(".")[0]


def _verified(
    guess: Guess,
    guesses: Map[str, Guess],
    layers: Map[tuple[str, ...], set[str]],
    meaning: NameMeanings,
    numbers: Numbers,
) -> Guess:
    distance = numbers(guess.variable, guess.unit, guess.text)
    if distance is not None:
        return guess._replace(verified=distance <= EQUAL)
    # A bias without a gradient, as one in front of a batch norm is, goes with its layer.
    where = meaning.reference[guess.variable.name].where
    mates = [
        each
        for each in guesses.values()
        if meaning.reference[each.variable.name].where == where
        and each is not guess
        and _layer(each.unit.label) == _layer(guess.unit.label)
    ]
    measured = [numbers(each.variable, each.unit, each.text) for each in mates]
    known = [value <= EQUAL for value in measured if value is not None]
    with_a_sure_one = bool(where) and _layer(guess.unit.label) in layers.get(where, set()) - {""}
    return guess._replace(verified=True if with_a_sure_one else any(known) if known else None)
