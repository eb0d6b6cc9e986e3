"""Joins all variables of two sides as well as names, uses, shapes and order can, and knows which pairs are guesses."""

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from collections.abc import Mapping as Map
from typing import NamedTuple

from parity.mapping.entry import MappingEntry
from parity.mapping.explicit import pairs_by_hand
from parity.mapping.fits import NameMeanings, join_certain, name_meanings
from parity.mapping.guesses import BY_NUMBERS, Around, Guess, Numbers, Options, checked_guesses, distinct, guess_pairs
from parity.mapping.layouts import Maps, layouts_of
from parity.mapping.transforms import parse_transform
from parity.mapping.units import Unit, units_of
from parity.mapping.variable_map import Mapping, Pair
from parity.mapping.variables import Variable


class Draft(NamedTuple):
    """A mapping of which some pairs are guesses.

    Fields:
      reference: the reference's variables.
      sure: the reference's name to a pair that names, shapes or the case decide.
      guesses: the others.
      problems: what is wrong in the case's entries.
      left, free: the variables of either side that nothing is left for.
      meaning: what the names say.
      kept: the candidate's own buffers, for which nothing of the reference is left: they keep their values.
      contested: guesses that are not in force, for which of several stays without a partner is nothing to guess.
      frozen: names of the reference's statistics that are weights of the candidate, see `Pair`.
    """

    reference: tuple[Variable, ...]
    sure: dict[str, Pair]
    guesses: tuple[Guess, ...]
    problems: list[str]
    left: list[Variable]
    free: list[Variable]
    meaning: NameMeanings
    kept: tuple[Variable, ...] = ()
    contested: tuple[Guess, ...] = ()
    frozen: frozenset[str] = frozenset()

    @property
    def total(self) -> bool:
        """Whether every variable of each side has its counterpart."""
        return not (self.problems or self.left or self.free)

    def mapping(self) -> Mapping:
        """Returns the mapping with every guess in force."""
        pairs = {**self.sure, **{guess.variable.name: guess.pair for guess in self.guesses}}
        joined = [pairs[variable.name] for variable in self.reference if variable.name in pairs]
        return Mapping([pair._replace(frozen=pair.reference in self.frozen) for pair in joined], self.kept)

    @property
    def agrees(self) -> bool:
        """Whether numbers agree with every guess of which they say anything."""
        known = [guess.verified for guess in self.guesses if guess.verified is not None]
        return bool(known) and all(known)

    @property
    def undecided(self) -> bool:
        """Whether there is a guess that matters and of which numbers do not say anything."""
        return any(guess.consequential and guess.verified is None for guess in self.guesses)

    def with_verdicts_of(self, other: "Draft") -> "Draft":
        """Returns the draft with what numbers said of `other`'s guesses where they say nothing of its own."""
        said = {(guess.variable.name, guess.unit, guess.text): guess.verified for guess in other.guesses}
        return self._replace(
            guesses=tuple(
                each._replace(verified=said.get((each.variable.name, each.unit, each.text)))
                if each.verified is None
                else each
                for each in self.guesses
            )
        )

    def by(self, numbers: Numbers, around: Around | None = None) -> "Draft":
        """Returns the draft with every guess made once more, numbers considered, and what is around it in the graphs."""
        again = guess_pairs(self.reference, *self._open(), self.sure, self.meaning, numbers, around)
        return self._replace(guesses=again).with_reasons_since(self)

    def checked(self, numbers: Numbers) -> "Draft":
        """Returns the draft with what numbers say of every guess."""
        return self._replace(guesses=checked_guesses(self.guesses, self.sure, self.meaning, numbers))

    def with_reasons_since(self, other: "Draft") -> "Draft":
        """Returns the draft saying of each guess that numbers decided it, where they did: it is another than in `other`."""
        before = {guess.variable.name: (guess.unit, guess.text) for guess in other.guesses}
        return self._replace(
            guesses=tuple(
                each._replace(why=BY_NUMBERS)
                if (each.unit, each.text) != before[each.variable.name] or (each.verified and each.of_layout)
                else each
                for each in self.guesses
            )
        )

    def among(self, places: Map[str, Sequence[int]]) -> "Draft":
        """Returns the draft with of every guess, by the reference's name, only the options at some places."""
        guesses = [
            guess.among([guess.options[place] for place in places[guess.variable.name]]) for guess in self.guesses
        ]
        return self._replace(guesses=tuple(guesses))

    def restricted(self, choice: Map[str, tuple[Unit, str]]) -> "Draft":
        """Returns the draft with some guesses given, by the reference's name, and the others made anew."""
        variables, units, options = self._open()
        options = {name: (choice[name],) if name in choice else found for name, found in options.items()}
        again = guess_pairs(self.reference, variables, units, options, self.sure, self.meaning)
        # Given pairs may leave a variable without a partner: such a choice is no alternative.
        return self._replace(guesses=again if len(again) == len(self.guesses) else self.guesses)

    def variants(self) -> "list[Draft]":
        """Returns the draft once for each constant that a sum may hold, a forget bias: no gradient shows it."""
        # texts[number] of every sum at once, not every combination: all cells of a script have one forget bias, mostly.
        sums = [[*dict.fromkeys(text for _, text in g.options if parse_transform(text).is_sum)] for g in self.guesses]
        count = max((len(texts) for texts in sums), default=0)
        if count < 2:
            return [self]
        return [
            self._replace(
                guesses=tuple(
                    guess.only(texts[min(number, len(texts) - 1)]) if texts else guess
                    for guess, texts in zip(self.guesses, sums, strict=True)
                )
            )
            for number in range(count)
        ]

    def _open(self) -> tuple[list[Variable], list[Unit], dict[str, Options]]:
        options = {guess.variable.name: guess.options for guess in self.guesses}
        units = [*dict.fromkeys(unit for found in distinct(options.values()) for unit, _ in found)]
        return [guess.variable for guess in self.guesses], units, options


def draft_mapping(
    reference: Sequence[Variable], candidate: Sequence[Variable], entries: Map[str, MappingEntry]
) -> Draft:
    """Joins every variable of each side with its counterpart on the other, some of them by guessing.

    Entries written by hand come first and are checked. Of the rest, two variables are joined where their names say the
    same of nothing else and exactly one transform fits; then where, of what is left, each is the other's only fit by kind
    and shape, unless their names contradict each other. What then is left is guessed: of all assignments the one against
    which names, kinds of layer, order and the rest of the layer say least. Where a map may be flattened in front of a dense
    layer or behind it, its layout is a guess too. Torch's `num_batches_tracked`, which has no counterpart, is left out; a
    buffer of the candidate's own modules that nothing of the reference is left for keeps its values.

    Args:
      reference: the TensorFlow side's variables; the result keeps their order.
      candidate: the torch side's.
      entries: the reference's name to what the case says of it.
    """
    candidate = [variable for variable in candidate if variable.name.split(".")[-1] != "num_batches_tracked"]
    draft = _drafted(reference, candidate, entries, ())
    # What the reference does not train it has among its statistics; a port may hold it as a weight that it has frozen.
    frozen = _frozen(draft) | _frozen_by_hand(reference, candidate, entries)
    if frozen:
        reference = [v._replace(kind="weight") if v.name in frozen else v for v in reference]
        draft = _better(draft, _drafted(reference, candidate, entries, ())._replace(frozen=frozenset(frozen)))
    # What is left on both sides in one number of elements may be what an only fit has taken that is equal but for axes of
    # length 1: a bias [1, n], and a vector [n] that is multiplied where the port has a Linear. Then neither was sure.
    sizes = {math.prod(v.shape) for v in draft.left} & {math.prod(v.shape) for v in draft.free}
    if sizes:
        draft = _better(draft, _drafted(draft.reference, candidate, entries, sizes)._replace(frozen=draft.frozen))
    return draft


def _better(one: Draft, other: Draft) -> Draft:
    return other if len(other.left) + len(other.problems) < len(one.left) + len(one.problems) else one


def _frozen(draft: Draft) -> set[str]:
    """The statistics that something uses, as a kernel is used, and that weights of the port may be, alone or together."""
    as_weights = [v._replace(kind="weight") for v in draft.left if v.kind == "statistic" and v.use]
    units = units_of([variable for variable in draft.free if variable.kind == "weight"], as_weights)
    sizes = {unit.size for unit in units}
    return {variable.name for variable in as_weights if math.prod(variable.shape) in sizes}


def _frozen_by_hand(
    reference: Sequence[Variable], candidate: Sequence[Variable], entries: Map[str, MappingEntry]
) -> set[str]:
    weights = {variable.name for variable in candidate if variable.kind == "weight"}
    return {
        v.name for v in reference if v.kind == "statistic" and v.name in entries and weights & {*entries[v.name].to}
    }


def _drafted(
    reference: Sequence[Variable],
    candidate: Sequence[Variable],
    entries: Map[str, MappingEntry],
    sizes: Collection[int],
) -> Draft:
    # From sure to unsure, each on what the one before has left: entries, names and only fits, guesses. A later one
    # never takes a pair apart that an earlier one has made.
    by_hand = pairs_by_hand(reference, candidate, entries)
    used = {name for entry in entries.values() for name in entry.to}
    meaning = name_meanings(reference, candidate)
    left = [variable for variable in reference if variable.name not in entries]
    free = [variable for variable in candidate if variable.name not in used]
    certain = {pair.reference: pair for pair in join_certain(left, free, meaning, sizes)}
    maps = Maps(reference)
    # Pairs whose partner is sure and whose layout is not are guesses of one partner and several transforms.
    options = dict(_layouts(maps, candidate, certain))
    sure = {**by_hand.pairs, **{name: pair for name, pair in certain.items() if name not in options}}

    taken = {name for pair in certain.values() for name in pair.candidate}
    left = [variable for variable in left if variable.name not in certain]
    free = [variable for variable in free if variable.name not in taken]
    units = units_of(free, left)
    options.update(_partners(maps, {variable.name for variable in left}, units, sizes))
    units += [unit for name in options if name in certain for unit in dict.fromkeys(u for u, _ in options[name])]
    variables = [variable for variable in reference if variable.name in options]
    every = guess_pairs(reference, variables, units, options, sure, meaning)
    guesses = _without_rivals_of_what_is_left(every, options, units)
    joined = {guess.variable.name for guess in guesses}
    taken = {name for guess in guesses for name in guess.unit.names}
    whole = _whole(guesses)
    left = [variable for variable in left if variable.name not in joined]
    free = [variable for variable in free if variable.name not in taken or variable.name not in whole]
    # While a statistic of the reference is left, a buffer may be its counterpart under a name that says nothing.
    own = () if any(variable.kind == "statistic" for variable in left) else tuple(filter(_of_the_port, free))
    free = [variable for variable in free if variable not in own]
    contested = tuple(guess for guess in every if guess.variable.name not in joined)
    return Draft(tuple(reference), sure, guesses, by_hand.problems, left, free, meaning, own, contested)


def _of_the_port(variable: Variable) -> bool:
    # A buffer of the port's own module, not of a known layer: a constant of the script, or new.
    return variable.kind == "statistic" and not variable.use


def _without_rivals_of_what_is_left(
    guesses: tuple[Guess, ...], options: Map[str, Options], units: Sequence[Unit]
) -> tuple[Guess, ...]:
    # Which of several stays without a partner is nothing to guess.
    joined, taken = {guess.variable.name for guess in guesses}, {guess.unit for guess in guesses}
    lost = distinct(found for name, found in options.items() if name not in joined)
    contested = {unit for found in lost for unit, _ in found}
    spare = {unit for unit in units if unit not in taken and not _of_the_port(unit.parts[0])}
    open_ = {id(found) for found in distinct(options.values()) if any(unit in spare for unit, _ in found)}
    return tuple(
        guess for guess in guesses if guess.unit not in contested and id(options[guess.variable.name]) not in open_
    )


def _layouts(
    maps: Maps, candidate: Sequence[Variable], certain: Map[str, Pair]
) -> Iterator[tuple[str, tuple[tuple[Unit, str], ...]]]:
    """The pairs whose names are sure and whose layout is not."""
    by_name = {variable.name: variable for variable in candidate}
    for place, variable in enumerate(maps.variables):
        pair = certain.get(variable.name)
        if pair is None:
            continue
        unit = Unit(pair.candidate[0], (by_name[pair.candidate[0]],))
        texts = layouts_of(maps, place, unit.use, [pair.transform.text])
        if len(texts) > 1:
            yield variable.name, tuple((unit, text) for text in texts)


def _partners(
    maps: Maps, waiting: Collection[str], units: Sequence[Unit], sizes: Collection[int]
) -> Iterator[tuple[str, Options]]:
    """What each variable may become by its shape and use; those that may become the same share the tuple that says so."""
    by_size: dict[int, list[Unit]] = defaultdict(list)
    for unit in units:
        by_size[unit.size].append(unit)
    forms = {size: {unit.form: unit for unit in near} for size, near in by_size.items()}
    shared: dict[object, Options] = {}
    for place, variable in enumerate(maps.variables):
        size = math.prod(variable.shape)
        if variable.name not in waiting or size not in forms:
            continue
        texts = {form: tuple(_texts(maps, place, unit, sizes)) for form, unit in forms[size].items()}
        key = size, *texts.values()
        if key not in shared:
            shared[key] = tuple((unit, text) for unit in by_size[size] for text in texts[unit.form])
        if shared[key]:
            yield variable.name, shared[key]


def _texts(maps: Maps, place: int, unit: Unit, sizes: Collection[int]) -> list[str]:
    texts = unit.transforms(maps.variables[place], sizes)
    if not texts:
        return []
    return layouts_of(maps, place, unit.use, texts) if len(unit.parts) == 1 and unit.rows is None else texts


def _whole(guesses: Sequence[Guess]) -> set[str]:
    """The candidate's names all of whose rows have been found."""
    blocks: dict[str, list[tuple[int, int]]] = {}
    for guess in guesses:
        for name in guess.unit.names:
            blocks.setdefault(name, []).append(guess.unit.rows or (0, 1))
    return {name for name, found in blocks.items() if len(found) == found[0][1]}
