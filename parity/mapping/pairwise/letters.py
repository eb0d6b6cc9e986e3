"""How alike the names of two sides are, letter by letter."""

import difflib
import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import product

import numpy as np

from parity.mapping.names import Meaning
from parity.trace.arrays import Array


def likeness(reference: Sequence[Meaning], candidate: Sequence[Meaning]) -> Array:
    """Returns how much two names say the same, 0 to 1, letter by letter: float ``[reference, candidate]``.

    To rank proposals that a person reads; nothing rests on it.
    """
    one, other = (np.array([each.role for each in side]) for side in (reference, candidate))
    same = one[:, None] == other
    contradiction = ~same & (one != "")[:, None] & (other != "")
    letters = _ratios(*([" ".join(each.where) for each in side] for side in (reference, candidate)))
    return np.where(contradiction, 0.0, 0.25 * same + 0.75 * letters)


def _ratios(one: Sequence[str], other: Sequence[str]) -> Array:
    """Returns what share of the letters of two texts are in blocks that both have: float ``[one, other]``."""
    found = np.empty((len(one), len(other)))
    for (rows, digits), (columns, others) in product(_templates(one), _templates(other)):
        # Which letters of two texts are equal is all that counts. Names of layers mostly differ by numbers: of a
        # thousand by a thousand that do, some hundred pairs are all that there are to tell apart.
        patterns = _patterns(digits, others)
        _, first, number = np.unique(patterns, return_index=True, return_inverse=True)
        pairs = ((one[rows[at // len(columns)]], other[columns[at % len(columns)]]) for at in first.tolist())
        ratios = np.array([difflib.SequenceMatcher(None, *pair, autojunk=False).ratio() for pair in pairs])
        found[np.ix_(rows, columns)] = ratios[number.reshape(patterns.shape)]
    return found


def _templates(texts: Sequence[str]) -> list[tuple[list[int], Array]]:
    """Places of the texts that are one but for their digits, and those digits: int ``[texts, digits]``."""
    places: dict[str, list[int]] = defaultdict(list)
    for place, text in enumerate(texts):
        places[re.sub("[0-9]", "0", text)].append(place)
    return [
        (found, np.array([[int(digit) for digit in re.findall("[0-9]", texts[place])] for place in found], np.int8))
        for found in places.values()
    ]


def _patterns(one: Array, other: Array) -> Array:
    """Returns a number for each pair of rows, int ``[one, other]``: the same where the same digits of the two are equal."""
    patterns = np.zeros((len(one), len(other)), np.int64)
    for bit, (digits, others) in enumerate(product(one.T, other.T)):
        # Before the 63 bits are full: there are fewer patterns than pairs, and fewer of those than 2^32.
        if bit % 30 == 29:
            patterns = np.unique(patterns, return_inverse=True)[1].reshape(patterns.shape)
        patterns = 2 * patterns + (digits[:, None] == others)
    return patterns
