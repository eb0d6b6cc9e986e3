"""Guesses which variables belong together: the assignment that least speaks against."""

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Mapping as Map
from typing import Any, NamedTuple, Protocol

import numpy as np

from parity.mapping.fits import BY_SHAPE, NameMeanings, contradict
from parity.mapping.names import Meaning, meanings
from parity.mapping.pairwise.assignment import FORBIDDEN, assign
from parity.mapping.similarity import Similarity, candidate_family, reference_families, strangeness
from parity.mapping.transforms import parse_transform
from parity.mapping.units import Unit
from parity.mapping.variable_map import Pair
from parity.mapping.variables import MappingError, Variable
from parity.trace.arrays import Array

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
# Variables of one shape, times the port's weights that they may become: each pair takes some hundred bytes, 2 GB in all, and
# the assignment of 4,000 to 4,000 minutes.
MOST_PAIRS_OF_ONE_SHAPE = 16_000_000
AHEAD = 1.0  # by so much a name must be ahead of the next for it to be what decided, of `NAME`: a quarter of its words

# Variables that may become the same share one tuple that says so: what is asked of all of them is asked of it once.
Options = tuple[tuple[Unit, str], ...]


def distinct(options: Iterable[Options]) -> list[Options]:
    """Returns each tuple once, however many variables share it."""
    return [*{id(each): each for each in options}.values()]


class Numbers(ABC):
    """What numbers say of pairs that may be meant."""

    @abstractmethod
    def __call__(self, variable: Variable, unit: Unit, text: str, /) -> float | None:
        """Returns how far apart the two are, 0 equal to 1 unrelated; None where the numbers do not say."""

    def of_all(self, variables: Sequence[Variable], units: Sequence[Unit], text: str, /) -> Array:
        """Returns the same of all pairs at once, float ``[variables, units]``; NaN where the numbers do not say."""
        found = [[self(variable, unit, text) for unit in units] for variable in variables]
        return np.array(found, np.float64)  # of None it makes NaN


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
        return len(self.options) > 1 and all(unit == self.unit for unit, _ in self.options)

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
        if self.why != BY_SHAPE:
            return True
        usual = [text for _, text in self.options if "flatten_hwc" not in text]
        return len(usual) != 1 or self.text != usual[0]

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
    if not variables:  # all that follows goes through what is sure, too
        return ()
    solver = _Solver(reference, variables, units, options, sure, meaning, numbers, around)
    guesses = {guess.variable.name: guess for stage in GUESSED_IN_TURN for guess in solver.assigned(stage)}
    found = tuple(guesses[variable.name] for variable in variables if variable.name in guesses)
    return _with_layers(found, sure, meaning) if numbers else found


def checked_guesses(
    guesses: tuple[Guess, ...], sure: Map[str, Pair], meaning: NameMeanings, numbers: Numbers
) -> tuple[Guess, ...]:
    """Returns guesses with what numbers say of each; one of which they do not say goes with the rest of its layer."""
    if not guesses:
        return ()
    distances = [numbers(guess.variable, guess.unit, guess.text) for guess in guesses]
    checked = tuple(
        guess._replace(verified=None if distance is None else distance <= EQUAL)
        for guess, distance in zip(guesses, distances, strict=True)
    )
    return _with_layers(checked, sure, meaning)


def _with_layers(guesses: tuple[Guess, ...], sure: Map[str, Pair], meaning: NameMeanings) -> tuple[Guess, ...]:
    # A bias without a gradient, as one in front of a batch norm is, goes with its layer.
    certain = {(meaning.reference[name].where, _layer(each)) for name, pair in sure.items() for each in pair.candidate}
    known: dict[tuple[tuple[str, ...], str], set[bool]] = defaultdict(set)
    layers = [(meaning.reference[guess.variable.name].where, _layer(guess.unit.label)) for guess in guesses]
    for guess, layer in zip(guesses, layers, strict=True):
        if guess.verified is not None:
            known[layer].add(guess.verified)

    def verified(guess: Guess, layer: tuple[tuple[str, ...], str]) -> bool | None:
        if guess.verified is not None:
            return guess.verified
        if layer in certain and all(layer):
            return True
        return any(known[layer]) if layer in known else None

    return tuple(guess._replace(verified=verified(guess, layer)) for guess, layer in zip(guesses, layers, strict=True))


# A layer is found by its kernel; what the kernels are joined to is what `MATE` holds their vectors to.
GUESSED_IN_TURN = ("kernel", "scale", "bias", "statistic")


def _stage(variable: Variable, role: str) -> str:
    if len(variable.shape) > 1:
        return "kernel"
    if variable.kind != "weight":
        return "statistic"
    return "scale" if role == "weight" else "bias"


class _Block(NamedTuple):
    """Pairs of a group that the same transforms may join, every one of some variables with every one of some units.

    Fields:
      rows, columns: places of the variables and of the units in the group.
      texts: the transforms, the likeliest first.
    """

    rows: list[int]
    columns: list[int]
    texts: tuple[str, ...]


class _Group(NamedTuple):
    """Variables and units that may be each other's and nobody else's, and what is known of all pairs of them.

    Fields:
      variables, units: of the group, in order.
      blocks: by stage the pairs that there are.
      similarity: of the names, float ``[variables, units]``; -1 where nothing may join the two.
      places: how many of order are between the two, int ``[variables, units]``.
      free: whether a unit is still to be had, bool ``[units]``.
    """

    variables: list[Variable]
    units: list[Unit]
    blocks: Map[str, list[_Block]]
    similarity: Array
    places: Array
    free: Array

    def why(self, row: int, column: int) -> str:
        """Returns what the choice of a pair rests on: that there is no other, the names, or the order."""
        rivals = np.append(np.delete(self.similarity[row], column), np.delete(self.similarity[:, column], row))
        nearest = rivals.max(initial=-1.0)
        if nearest < 0.0:
            return BY_SHAPE
        return BY_LIKENESS if self.similarity[row, column] - nearest > AHEAD / NAME else BY_ORDER


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
        self._options, self._meaning, self._numbers, self._around = options, meaning, numbers, around
        families = reference_families(reference, [meaning.reference[v.name] for v in reference])
        self._family = {v.name: family for v, family in zip(reference, families, strict=True)}
        labels = [unit.label for unit in units]
        self._role = {unit: (meaning.candidate.get(unit.label) or meanings([unit.label])[0]).role for unit in units}
        self._layers: dict[tuple[str, ...], set[str]] = defaultdict(set)
        for name, pair in sure.items():
            self._join(meaning.reference[name], pair.candidate)
        similarity = Similarity([v.name for v in variables], labels)
        self._groups = [self._group(*each, similarity) for each in _connected(variables, units, options)]

    def assigned(self, stage: str) -> list[Guess]:
        """Returns guesses for the variables of a stage; what they take is taken."""
        found = [guess for group in self._groups if stage in group.blocks for guess in self._of_group(group, stage)]
        for guess in found:  # not before: what one group takes is no reason for another one of the same stage
            self._join(self._meaning.reference[guess.variable.name], [guess.unit.label])
        return found

    def _of_group(self, group: _Group, stage: str) -> Iterator[Guess]:
        rows = sorted({row for block in group.blocks[stage] for row in block.rows})
        place = {row: number for number, row in enumerate(rows)}
        costs = np.full((len(rows), len(group.units)), FORBIDDEN)
        texts, distances = np.full(costs.shape, "", object), np.full(costs.shape, np.nan)
        for block in group.blocks[stage]:
            cells = np.ix_([place[row] for row in block.rows], block.columns)
            costs[cells], texts[cells], distances[cells] = self._costs(group, block)
        costs[:, ~group.free] = FORBIDDEN
        for number, column in enumerate(assign(costs)):
            if column is not None:
                variable, unit = group.variables[rows[number]], group.units[column]
                distance = distances[number, column]
                yield Guess(
                    variable,
                    unit,
                    texts[number, column],
                    self._options[variable.name],
                    group.why(rows[number], column),
                    None if np.isnan(distance) else bool(distance <= EQUAL),
                )
                group.free[column] = False

    def _costs(self, group: _Group, block: _Block) -> tuple[Array, Array, Array]:
        """What speaks against each pair of a block, by the best transform; that transform, and how far apart numbers are."""
        variables, units = [group.variables[row] for row in block.rows], [group.units[place] for place in block.columns]
        roles = [self._meaning.reference[v.name].role for v in variables], [(self._role[u], u.use) for u in units]
        families = [self._family[v.name] for v in variables], [candidate_family(unit.use) for unit in units]
        cells = np.ix_(block.rows, block.columns)
        # From a table: numpy's power is not the same to the bit on every machine.
        order = np.array([ORDER * float(places) ** BENT for places in range(group.places[cells].max() + 1)])
        cost = NAME * (1.0 - group.similarity[cells])
        cost += FAMILY * _by_kind(strangeness, *families)
        cost += order[group.places[cells]]
        cost += MATE * self._strange_layers(variables, units)
        if self._around:
            cost += NEIGHBOURS * np.array([[self._around(v, u) for u in units] for v in variables])
        # No cost but no pair: a weight is never taken for a bias, however alike the rest is.
        cost[_by_kind(lambda role, other: contradict(role, *other), *roles)] = FORBIDDEN
        if not self._numbers:
            return cost, np.array(block.texts[0], object), np.array(np.nan)
        distances = np.array([self._numbers.of_all(variables, units, text) for text in block.texts])
        costs = cost + NUMBERS * _penalties(distances)
        best = np.argmin(costs, axis=0)[None]  # the first of equal ones, which is the likeliest
        texts = np.array(block.texts, object)[best[0]]
        return np.take_along_axis(costs, best, 0)[0], texts, np.take_along_axis(distances, best, 0)[0]

    def _strange_layers(self, variables: list[Variable], units: list[Unit]) -> Array:
        """Whether the rest of a variable's layer is joined to other layers than a unit's: bool ``[variables, units]``."""
        layers = [_layer(unit.label) for unit in units]
        strange = np.zeros((len(variables), len(units)), bool)
        for row, variable in enumerate(variables):
            joined = self._layers.get(self._meaning.reference[variable.name].where)
            if joined:
                strange[row] = [layer not in joined for layer in layers]
        return strange

    def _group(self, variables: list[Variable], units: list[Unit], similarity: Similarity) -> _Group:
        if len(variables) * len(units) > MOST_PAIRS_OF_ONE_SHAPE:
            raise MappingError(
                f"{variables[0].name} and {len(variables) - 1:,} more: expected at most {MOST_PAIRS_OF_ONE_SHAPE:,} pairs "
                f"of variables that may be the same by their shapes, got {len(variables):,} variables for "
                f"{len(units):,} weights: write lines for most of them into [mapping]"
            )
        roles = [self._meaning.reference[v.name].role for v in variables], [self._role[unit] for unit in units]
        stages = [_stage(*each) for each in zip(variables, roles[0], strict=True)]
        of_all = similarity([v.name for v in variables], [unit.label for unit in units])
        places = np.abs(np.subtract.outer(*map(_ranks, roles)))
        blocks: dict[str, list[_Block]] = defaultdict(list)
        of_options = np.full_like(of_all, -1.0)
        for stage, block in _blocks(stages, [self._options[v.name] for v in variables], units):
            cells = np.ix_(block.rows, block.columns)
            blocks[stage].append(block)
            of_options[cells] = of_all[cells]
        return _Group(variables, units, blocks, of_options, places, np.ones(len(units), bool))

    def _join(self, meaning: Meaning, names: Sequence[str]) -> None:
        self._layers[meaning.where].update(_layer(name) for name in names)


def _connected(
    variables: Sequence[Variable], units: Sequence[Unit], options: Map[str, Options]
) -> list[tuple[list[Variable], list[Unit]]]:
    """Returns variables and units, in order, in groups: no variable may become a unit of another group.

    Places of order count within a group, so that a layer more in one part of a model does not shift all others.
    """
    group: dict[Unit, set[Unit]] = {}
    # Invariant: two units that one of the options so far links have the same set.
    for found in distinct(options.values()):
        linked = {unit for unit, _ in found}
        linked = linked.union(*(group[unit] for unit in linked if unit in group))
        group.update(dict.fromkeys(linked, linked))
    members: dict[int, tuple[list[Variable], list[Unit]]] = defaultdict(lambda: ([], []))
    for variable in variables:
        members[id(group[options[variable.name][0][0]])][0].append(variable)
    for unit in units:
        if unit in group:
            members[id(group[unit])][1].append(unit)
    return [*members.values()]


def _blocks(stages: Sequence[str], options: Sequence[Options], units: Sequence[Unit]) -> Iterator[tuple[str, _Block]]:
    """Returns what the variables of a group may become, by stage, each pair in one block."""
    columns = {unit: column for column, unit in enumerate(units)}
    rows: dict[tuple[str, int], list[int]] = defaultdict(list)
    for row, (stage, found) in enumerate(zip(stages, options, strict=True)):
        rows[stage, id(found)].append(row)
    for (stage, _), of_one in rows.items():
        texts: dict[int, list[str]] = defaultdict(list)
        for unit, text in options[of_one[0]]:
            texts[columns[unit]].append(text)
        places: dict[tuple[str, ...], list[int]] = defaultdict(list)
        for column, each in texts.items():
            places[tuple(each)].append(column)
        for group, block in places.items():
            yield stage, _Block(of_one, block, group)


def _ranks(roles: Sequence[str]) -> list[int]:
    """The place of each among those of its role."""
    counts: Counter[str] = Counter()
    ranks = []
    for role in roles:
        ranks.append(counts[role])
        counts[role] += 1
    return ranks


def _by_kind(function: Callable[[Any, Any], Any], ones: Sequence[Any], others: Sequence[Any]) -> Array:
    """Returns a function of all pairs, ``[ones, others]``, called once for each two kinds that there are of either."""
    kinds = [{kind: number for number, kind in enumerate(dict.fromkeys(side))} for side in (ones, others)]
    table = np.array([[function(one, other) for other in kinds[1]] for one in kinds[0]])
    return table[np.ix_([kinds[0][one] for one in ones], [kinds[1][other] for other in others])]


def _penalties(distances: Array) -> Array:
    """What numbers count against pairs, 0 to 1: those that are not near say little of how far apart they are.

    Where a port has a bug no gradient is the other side's, and which of those far off is nearest is chance. Where numbers do
    not say, it is no better and no worse than numbers that agree in nothing.
    """
    far = 0.5 + UNEQUAL * np.nan_to_num(distances)
    return np.where(distances <= NEAR, distances, far)


def _layer(name: str) -> str:
    return name.rpartition(".")[0]
