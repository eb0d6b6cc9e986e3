"""Lets gradients decide which variables belong together, from one step of both sides."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Mapping as Map
from itertools import combinations, islice, product

import numpy as np

from parity.mapping.draft import Draft
from parity.mapping.guesses import Guess, Numbers
from parity.mapping.transforms import Transform, parse_transform
from parity.mapping.units import Unit
from parity.mapping.variables import Variable
from parity.trace.arrays import Array

ZERO_GRADIENT = 1e-12  # of the largest gradient of a side: 9,000 roundings of float64
MOST_COMPARED = 16384  # elements of a variable, evenly spaced
# The distance that is reported of gradients of which one is a multiple of the other. More than `guesses.EQUAL`, so that
# it verifies nothing; `guesses.NUMBERS` times it is 0.05, less than one place of `guesses.ORDER`, so that it still
# joins.
# With 0, which would verify, 23 of the 323 tests of mapping fail, with 0.5, which would not join, 12.
ALONG = 5e-4
# Relative residual for one gradient to be a multiple of the other; in float64 rounding leaves 2^-53 of each term of a
# sum, 1e-9 for 9 million terms that all round the same way.
PARALLEL = 1e-9
# Cosine from which two gradients are compared element by element. At the cosine c of two of one length their distance is
# sqrt((1 - c) / 2), 0.07 here: of its square, some 0.02 of |a|^2, rounding leaves 14 places.
LEAST_COSINE = 0.99
ELEMENTS_AT_ONCE = 1 << 23  # elements of either side that are compared at once: 64 MB
FEWEST_MULTIPLES = 2  # pairs that have to have one factor for it to be that of all
FEWEST_COMPARED = 4  # elements: of fewer, being a multiple is likelier to be chance; of one, it is certain


class Gradients(Numbers):
    """Measures how far apart the gradients of two sides are that started from one state.

    Args:
      reference: the reference's name to its gradient; of a statistic, to what the step made of it.
      candidate: the same of the candidate's.
      tolerance: what is at most so far apart is called equal.
    """

    def __init__(self, reference: Map[str, Array], candidate: Map[str, Array], tolerance: float = 0.0) -> None:
        self._reference, self._candidate, self._tolerance = reference, candidate, tolerance
        self._scale = max((_size(value) for value in reference.values()), default=0.0)
        self._known: dict[tuple[str, Unit, str], float | None] = {}

    def __call__(self, reference: Variable, unit: Unit, text: str) -> float | None:
        """Returns 0 where a transform makes one gradient of the other, to 1 where nothing is in common; None unknown."""
        key = (reference.name, unit, text)
        if key not in self._known:
            one, other = self._of_reference(reference, unit, text), self._of_candidate(unit)
            self._known[key] = None if one is None or other is None else self._distance(one, other)
        return self._known[key]

    def of_all(self, variables: Sequence[Variable], units: Sequence[Unit], text: str, /) -> Array:
        """Returns the same of all pairs at once, float ``[variables, units]``; NaN where the numbers do not say."""
        found = np.full((len(variables), len(units)), np.nan)
        columns: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for column, unit in enumerate(units):
            columns[self._held(unit)].append(column)
        for of_one in columns.values():  # which all compare the same parts of a variable
            ones = [self._of_reference(variable, units[of_one[0]], text) for variable in variables]
            self._fill(found, ones, [self._of_candidate(units[column]) for column in of_one], of_one)
        return found

    def _fill(self, found: Array, ones: list[Array | None], others: list[Array | None], columns: list[int]) -> None:
        """Writes the distances of all pairs of gradients of one size into rows and columns of `found`."""
        for size in {each.size for each in ones if each is not None and each.size}:
            rows = [row for row, each in enumerate(ones) if each is not None and each.size == size]
            places = [place for place, each in enumerate(others) if each is not None and each.size == size]
            at_once = max(1, ELEMENTS_AT_ONCE // size)
            for mine, theirs in product(_in_parts(rows, at_once), _in_parts(places, at_once)):
                one, other = np.array([ones[row] for row in mine]), np.array([others[place] for place in theirs])
                found[np.ix_(mine, [columns[place] for place in theirs])] = self._distances(one, other)

    def _distances(self, ones: Array, others: Array) -> Array:
        """Returns the distances of all pairs of rows, NaN of two that are nothing but rounding."""
        distances, close = _by_products(ones, others)
        silent = np.maximum.outer(_largest(ones), _largest(others)) <= ZERO_GRADIENT * self._scale
        distances[silent] = np.nan
        for row, place in zip(*np.nonzero(close & ~silent), strict=True):
            distances[row, place] = self._distance(ones[row], others[place])
        return distances

    def total_of(self, draft: Draft) -> float:
        """Returns the distances of the gradients of a draft's guesses, those that are known, added up."""
        known = (self(guess.variable, guess.unit, guess.text) for guess in draft.guesses)
        return sum(distance for distance in known if distance is not None)

    def of_one_factor(self, draft: Draft) -> "Gradients | None":
        """Returns the same with the candidate's gradients divided by the factor that they all have; None without such a one.

        A sum that is taken for a mean, over towers or over examples, leaves every gradient a multiple: what is read and
        written where is the same, and numbers decide as they do without it.

        Args:
          draft: pairs, whose gradients are compared. What was made of statistics is no multiple, and stays.
        """
        factors = [factor for factor in map(self._factor, draft.guesses) if factor is not None]
        if len(factors) < FEWEST_MULTIPLES or max(factors) - min(factors) > PARALLEL * min(factors):
            return None
        statistics = {
            name for guess in draft.guesses if guess.variable.kind == "statistic" for name in guess.unit.names
        }
        divided = {
            name: value if name in statistics else np.asarray(value, np.float64) / factors[0]
            for name, value in self._candidate.items()
        }
        return Gradients(self._reference, divided, max(self._tolerance, PARALLEL))

    def _factor(self, guess: Guess) -> float | None:
        """Returns how many times the reference's gradient the candidate's is in a pair; None where equal, or no multiple."""
        if self(guess.variable, guess.unit, guess.text) != ALONG:
            return None
        one, other = self._of_reference(guess.variable, guess.unit, guess.text), self._of_candidate(guess.unit)
        assert one is not None and other is not None  # of which a distance is known
        return float(one @ other) / float(one @ one)

    def _held(self, unit: Unit) -> tuple[int, ...]:
        return tuple(place for place, name in enumerate(unit.names) if name in self._candidate)

    def _of_reference(self, reference: Variable, unit: Unit, text: str) -> Array | None:
        """What is compared of a variable's gradient, in the candidate's layout: there a block is compared by itself."""
        held = self._held(unit)
        if reference.name not in self._reference or not held:
            return None
        wanted = np.asarray(self._reference[reference.name], np.float64)
        made = [*zip(unit.names, parse_transform(text).forward(wanted, linear=True), strict=True)]
        return _compared([made[place][1] for place in held])

    def _of_candidate(self, unit: Unit) -> Array | None:
        """What is compared of a unit's gradient."""
        held = [np.asarray(self._candidate[unit.names[place]], np.float64) for place in self._held(unit)]
        return _compared([unit.block(value) for value in held]) if held else None

    # |a - b| / (|a| + |b|): 0 equal, 1 opposite, and 0.7 for two that have nothing in common, of about one size: then
    # |a - b|^2 = |a|^2 + |b|^2. It does not depend on which side is which, nor on the size of the loss.
    def _distance(self, one: Array, other: Array) -> float | None:
        if one.shape != other.shape:
            return None
        # A bias in front of a batch norm: both gradients are rounding, and their distance says nothing.
        if max(_size(one), _size(other)) <= ZERO_GRADIENT * self._scale:
            return None
        distance = min(1.0, float(np.linalg.norm(one - other)) / float(np.linalg.norm(one) + np.linalg.norm(other)))
        if distance > max(self._tolerance, ALONG) and _along(one, other):
            return ALONG
        return distance if distance > self._tolerance else 0.0


def _compared(parts: Sequence[Array]) -> Array | None:
    """Returns what is compared of a gradient, flat, or None where it is not finite."""
    flat = evenly_spaced(np.concatenate([part.ravel() for part in parts]), MOST_COMPARED)
    return flat if np.isfinite(flat).all() else None


def _by_products(ones: Array, others: Array) -> tuple[Array, Array]:
    """Returns the distances of all pairs of rows, and of which they say too little: those that may be equal, or along.

    One matrix product makes all of them: |a - b|^2 = |a|^2 + |b|^2 - 2 ab. Of rows that are alike too few places are left
    of that difference.
    """
    squares = np.add.outer((ones * ones).sum(1), (others * others).sum(1))
    products = ones @ others.T
    lengths = np.multiply.outer(*(np.linalg.norm(each, axis=1) for each in (ones, others)))
    difference = np.sqrt(np.maximum(squares - 2 * products, 0.0))
    total = np.sqrt(squares + 2 * lengths)  # |a| + |b|
    return np.minimum(1.0, difference / np.where(total, total, 1.0)), products >= LEAST_COSINE * lengths


def _in_parts(places: Sequence[int], size: int) -> list[Sequence[int]]:
    return [places[begin : begin + size] for begin in range(0, len(places), size)]


def _largest(rows: Array) -> Array:
    return np.asarray(np.abs(rows).max(1, initial=0.0))


def _along(one: Array, other: Array) -> bool:
    """Whether one gradient is the other's multiple, as all are where a bug is in what the loss is multiplied by."""
    if one.size < FEWEST_COMPARED or not one.any():
        return False
    # Least squares for other = factor * one. A negative factor is no bug in the loss's size but another function.
    factor = float(one @ other) / float(one @ one)
    return bool(factor > 0 and np.linalg.norm(factor * one - other) <= PARALLEL * np.linalg.norm(other))


def evenly_spaced(values: Array, most: int) -> Array:
    """Returns about `most` of the elements of a flat array, or all where there are no more; a view."""
    # An odd step, by "| 1", has no divisor in common with the usual sizes of axes, so that no column is left out.
    return values if values.size <= most else values[:: values.size // most | 1]


def _size(values: Array) -> float:
    return float(np.abs(values).max()) if values.size else 0.0


# Why tied values decide: whatever a variable may be taken for, the candidate is given the same numbers. So the two
# sides compute the same function under every assignment that is still open, and the gradients, which no two variables
# share, say which variable is which, and in which layout.

# Of the 22 calls that tests/parity/mapping make, 21 end within three rounds and one takes 14, a cycle of a flattened
# map that `_flatten_axes` ends. After the last round each variable is one number, which is always tied, and says least.
MOST_TIED_ROUNDS = 24


def tied_values(guesses: Sequence[Guess], values: Map[str, Array]) -> dict[str, Array]:
    """Returns values for the variables of guesses that are the candidate's same numbers under all options of all of them.

    Elements that an option could exchange are set to one number: same-shaped kernels to each other, a square kernel to its
    own transpose, the rows of a kernel behind a flattened map to each other.

    Args:
      guesses: what is open.
      values: the reference's name to the value to start from, float.
    """
    # A label for every element of every variable, (size of the variable): elements of one label will be one number.
    labels, offset = {}, 0
    for guess in guesses:
        size = int(np.prod(guess.variable.shape))
        labels[guess.variable.name] = np.arange(offset, offset + size).reshape(guess.variable.shape)
        offset += size
    _spread(guesses, labels)
    start = _by_label(guesses, labels, values, offset)
    return {name: start[label].astype(np.float64) for name, label in labels.items()}


def _spread(guesses: Sequence[Guess], labels: dict[str, Array]) -> None:
    """Gives elements that may stand in one place the least of their labels, until none changes."""
    # Invariant: a label only ever falls, and two elements that some option puts into one place of a unit have the same
    # once nothing changes. So the loop ends, and what it ends with is the finest tie that all options allow.
    for number in range(MOST_TIED_ROUNDS + 1):
        changed = False
        units: dict[Unit, list[Array]] = {}
        for guess in guesses:
            for unit, text in guess.options:
                made = _forward(text, labels[guess.variable.name])
                units[unit] = (
                    [np.minimum(a, b) for a, b in zip(units[unit], made, strict=True)] if unit in units else made
                )
        # First all options into the units, then back from the units into all options: a label crosses a swap of two
        # variables within one round.
        for guess in guesses:
            own = labels[guess.variable.name]
            for unit, text in guess.options:
                least = np.minimum(own, _backward(parse_transform(text), units[unit], own.shape))
                changed, own = changed or bool((least != own).any()), least
            labels[guess.variable.name] = own
        if not changed:
            return
        if number == MOST_TIED_ROUNDS // 2:
            _flatten_axes(guesses, labels)
        if number == MOST_TIED_ROUNDS - 1:
            for guess in guesses:
                labels[guess.variable.name] = np.full(guess.variable.shape, labels[guess.variable.name].min())


def _flatten_axes(guesses: Sequence[Guess], labels: dict[str, Array]) -> None:
    # The order of a flattened map moves whole rows, or whole columns: one label for all of them ends its long cycles.
    for guess in guesses:
        own = labels[guess.variable.name]
        axes = {0 if "unflatten" not in text else own.ndim - 1 for _, text in guess.options if "flatten_hwc" in text}
        for axis in axes:
            own = np.broadcast_to(own.min(axis=axis, keepdims=True), own.shape)
        labels[guess.variable.name] = np.array(own)


def _forward(text: str, label: Array) -> list[Array]:
    # As a gradient: no constant is added, and every term of a sum gets the whole.
    return [np.array(part) for part in parse_transform(text).forward(label, linear=True)]


def _backward(transform: Transform, parts: list[Array], shape: tuple[int, ...]) -> Array:
    if transform.is_sum:
        return transform.backward(parts[0], linear=True)
    if transform.rows is not None:  # a block stands in for the whole of which it is one
        parts = [np.concatenate([parts[0]] * transform.rows[1])]
    return transform.backward(*parts, shape=shape, linear=True)


def _by_label(guesses: Sequence[Guess], labels: Map[str, Array], values: Map[str, Array], count: int) -> Array:
    """The value of each label: the mean over its elements in the first variable that has it."""
    # Both (labels,): values, and which of them are set. The first variable's, for the mean over several would be near
    # zero.
    start = np.zeros(count)
    done = np.zeros(count, bool)
    for guess in guesses:
        own, value = labels[guess.variable.name].ravel(), np.asarray(values[guess.variable.name], np.float64)
        number = np.bincount(own, minlength=count)
        mean = np.bincount(own, _uneven(value, guess.variable.name).ravel(), minlength=count) / np.maximum(number, 1)
        fresh = (number > 0) & ~done
        start[fresh], done[fresh] = mean[fresh], True
    return start


def _uneven(value: Array, name: str) -> Array:
    # Zeros and ones, as biases and gammas start, would make neighbours alike.
    if value.size < 2 or np.ptp(value):
        return value
    # 0.05, so that a gamma of 1 stays a gamma; by the name, so that beta and gamma of one layer differ, on every
    # machine.
    random = np.random.default_rng(sum(name.encode()))
    return value + 0.05 * random.standard_normal(value.shape)


# Of the distance of all gradients under the nearest assignment before. A bug that leaves all of them a little off, as
# another decay does, leaves those of the layouts that are meant 1e-4 apart, where others are 0.7 apart.
MUCH_NEARER = 0.5
TRIALS = 48  # each is a step of the port; the tests of mapping pass with 12
Choice = tuple[str, tuple[Unit, str]]
Assignment = tuple[tuple[str, Unit, str], ...]


def by_trial(
    draft: Draft,
    reference: Map[str, Array],
    gradients_of: Callable[[Draft, Sequence[Draft]], Map[str, Array]],
    tolerance: float = 0.0,
    trials: int = TRIALS,
) -> Draft:
    """Returns the first assignment under which the candidate's gradients are the reference's.

    Where there is none, the draft, unverified, or an assignment under which they are all much nearer.

    The gradients of one trial also say what to try next: where variables hold equal numbers, as the gammas and betas of all
    norms do before the first step, the candidate computes the same under each of their assignments.

    Args:
      draft: what is known and guessed.
      reference: the reference's name to its gradient.
      gradients_of: makes the candidate's gradients under an assignment, from the same state as the reference's; it is given
        those as well that are likely to be asked for next, for whom several cost little more than one.
      tolerance: so far apart gradients may be that are called equal, for a reference in float32.
      trials: at most so many are made, those first that differ from the draft in the least.
    """
    tried: set[Assignment] = set()

    def attempt(each: Draft) -> tuple[Draft, Gradients] | None:
        tried.add(_assignment(each))
        left = [other for other in alternatives if _assignment(other) not in tried]
        own = gradients_of(each, left)
        if not own:
            return None
        numbers = Gradients(reference, own, tolerance)
        return each.checked(numbers), numbers

    # Each alternative is followed as long as more guesses agree than ever before, or all are much nearer than ever: what
    # agrees in a trial stays joined in the next. `tried` sees to it that no assignment costs a second run, so the loop ends
    # after `trials` of them.
    nearest, least, most = draft, math.inf, -1
    alternatives = [*islice(_alternatives(draft), trials)]
    for alternative in alternatives:
        following: Draft | None = alternative
        while following is not None and _assignment(following) not in tried:
            if len(tried) == trials:
                return nearest
            attempted = attempt(following)
            if attempted is None:  # which gradients a candidate shows does not depend on the assignment
                return draft
            checked, numbers = attempted
            if checked.agrees:
                return checked.with_reasons_since(draft)
            agreeing, total = sum(guess.verified is True for guess in checked.guesses), numbers.total_of(checked)
            is_nearer = total < MUCH_NEARER * least
            following = checked.by(numbers) if agreeing > most or is_nearer else None
            if is_nearer:
                nearest, least = checked.with_reasons_since(draft), total
            most = max(agreeing, most)
    return nearest


def _assignment(draft: Draft) -> Assignment:
    return tuple((guess.variable.name, guess.unit, guess.text) for guess in draft.guesses)


def _alternatives(draft: Draft) -> Iterator[Draft]:
    yield from draft.variants()
    singles = [*_choices(draft)]
    for many in (1, 2):
        for chosen in combinations(singles, many):
            if len({name for name, _ in chosen}) == many:
                yield from draft.restricted(dict(chosen)).variants()


def _choices(draft: Draft) -> Iterator[Choice]:
    """What else each kernel may be, other layouts before other partners; vectors follow their kernels."""
    by_layout: list[Choice] = []
    by_partner: list[Choice] = []
    for guess in draft.guesses:
        for unit, text in guess.options:
            if unit == guess.unit and text != guess.text:
                by_layout.append((guess.variable.name, (unit, text)))
            elif unit != guess.unit and _leads(guess):
                by_partner.append((guess.variable.name, (unit, text)))
    yield from by_layout
    yield from by_partner


def _leads(guess: Guess) -> bool:
    return len(guess.variable.shape) > 1 or all(len(unit.parts[0].shape) < 2 for unit, _ in guess.options)
