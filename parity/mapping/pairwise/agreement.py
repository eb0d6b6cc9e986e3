"""How much the numbers of two sides' variables agree, once a transform has given them one layout."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import compress, product

import numpy as np

from parity.mapping.by_gradients import evenly_spaced
from parity.mapping.transforms import Shape, parse_transform
from parity.mapping.units import Unit
from parity.mapping.variables import Variable
from parity.trace.arrays import Array

MOST_SCORED = 4096  # elements of a variable, evenly spaced
TIED = 1e-3  # distances up to this count as equal: gradients of the first step come in float32, from two frameworks
AGREEMENT_DIGITS = 10  # of an agreement: the order in which products are added changes the 14th


def agreements(
    variables: Sequence[Variable],
    units: Sequence[Unit],
    text: str,
    wanted: Mapping[str, Array],
    got: Mapping[str, Array],
    linear: bool,
) -> Array:
    """Returns how much the numbers of each variable and each unit agree, 0 to 1: float ``[variables, units]``.

    NaN where nothing is known: one side has no value, or all elements are the same, as zero biases are.

    Args:
      variables: the reference's, all of which the transform takes.
      units: what it may make of them.
      text: the transform.
      wanted: the reference's name to its value.
      got: the candidate's name to its value.
      linear: whether the values are gradients; see `Transform.forward`.
    """
    transform = parse_transform(text)
    found = np.full((len(variables), len(units)), np.nan)
    values = {row: np.asarray(wanted[v.name], np.float64) for row, v in enumerate(variables) if v.name in wanted}
    rows: dict[Shape, list[int]] = defaultdict(list)
    for row, value in values.items():
        rows[value.shape].append(row)
    # What is compared depends on which of its parts a unit has values of.
    columns: dict[tuple[bool, ...], list[int]] = defaultdict(list)
    for column, unit in enumerate(units):
        columns[tuple(name in got for name in unit.names)].append(column)
    for (shape, ones), (known, others) in product(rows.items(), columns.items()):
        if not any(known):
            continue
        held = [_held(units[column], got) for column in others]
        if transform.is_sum and not linear and all(known):  # of a sum only the whole is known
            held = [[transform.backward(*parts, shape=shape)] for parts in held]
            made = [[values[row]] for row in ones]
        else:
            made = [[*compress(transform.forward(values[row], linear), known)] for row in ones]
        of_rows, of_columns = _by_shapes(ones, made), _by_shapes(others, held)
        for (shapes, (at, one)), (of_unit, (place, other)) in product(of_rows.items(), of_columns.items()):
            found[at[:, None], place] = _of_vectors(one, other) if shapes == of_unit else 0.0
    return found


def _held(unit: Unit, got: Mapping[str, Array]) -> list[Array]:
    return [np.asarray(unit.block(got[name]), np.float64) for name in unit.names if name in got]


def _by_shapes(
    places: Sequence[int], arrays: Sequence[Sequence[Array]]
) -> dict[tuple[Shape, ...], tuple[Array, list[Array]]]:
    """By the shapes of its arrays what stands where, as vectors: ``[places]``, and for each of them ``[elements]``."""
    found: dict[tuple[Shape, ...], tuple[list[int], list[Array]]] = defaultdict(lambda: ([], []))
    for place, parts in zip(places, arrays, strict=True):
        at, vectors = found[tuple(part.shape for part in parts)]
        at.append(place)
        vectors.append(evenly_spaced(np.concatenate([part.ravel() for part in parts]), MOST_SCORED))
    return {shapes: (np.array(at), vectors) for shapes, (at, vectors) in found.items()}


def _of_vectors(one: Sequence[Array], other: Sequence[Array]) -> Array:
    """The agreement of all pairs of vectors, float ``[one, other]``."""
    # As for gradients the distance is |x - y| / (|x| + |y|): 0 equal, 0.7 nothing in common, 1 opposite. Of all pairs at
    # once, |x - y|^2 = |x|^2 + |y|^2 - 2 x y. Where that cancels, rounding leaves up to 1e-6 of the sizes, far below `TIED`:
    # sqrt(2 * 4096 * 2^-53) / 2. Each vector counts once, so that pairs of equal ones agree equally to the bit;
    # digits are left off so that equal pairs of two forms do.
    (x, rows), (y, columns) = map(_distinct, (one, other))
    if not x.size:
        return np.full((len(one), len(other)), np.nan)
    with np.errstate(all="ignore"):  # what is not finite agrees with nothing
        of_x, of_y = (np.einsum("ij,ij->i", side, side) for side in (x, y))
        difference = np.sqrt(np.maximum(of_x[:, None] + of_y - 2.0 * (x @ y.T), 0.0))
        distance = difference / (np.sqrt(of_x)[:, None] + np.sqrt(of_y))
        agreement = np.fmax(0.0, 1.0 - np.where(distance <= TIED, 0.0, distance)).round(AGREEMENT_DIGITS)
        constant = np.ptp(x, axis=1)[:, None] + np.ptp(y, axis=1) == 0.0
    agreement[constant] = np.nan
    return agreement[rows[:, None], columns]


def _distinct(vectors: Sequence[Array]) -> tuple[Array, Array]:
    """Returns each vector that there is once, float ``[distinct, elements]``, and which of them each is, int."""
    places: dict[bytes, int] = {}
    which = np.array([places.setdefault(vector.tobytes(), len(places)) for vector in vectors])
    return np.array([np.frombuffer(each) for each in places]), which
