"""The joined variables of two sides, and arrays carried between them."""

from collections.abc import Iterable, Sequence
from collections.abc import Mapping as Map
from typing import NamedTuple

from parity.mapping.transforms import Shape, Transform
from parity.mapping.variables import MappingError, Variable
from parity.trace.arrays import Array
from parity.trace.escape import toml_string


class Pair(NamedTuple):
    """One variable of the reference and what it is on the other side.

    Fields:
      reference: the reference's name.
      candidate: the candidate's names, one for each part of the transform; none where it has no counterpart.
      transform: carries arrays from one to the other.
      why: "by hand", "by name and shape", "only shape that fits", or what a guess rests on (`parity.mapping.draft`).
      shape: the reference's shape.
      frozen: whether it is a statistic of the reference, which has no other word for what it does not train, and a weight
        of the candidate.
    """

    reference: str
    candidate: tuple[str, ...]
    transform: Transform
    why: str
    shape: Shape
    frozen: bool = False

    def __str__(self) -> str:
        """Returns it as a user reads it: "conv/kernel -> conv.weight (hwio_to_oihw)"."""
        return f"{self.reference} -> {' + '.join(self.candidate) or 'nothing'} ({self.transform})"


class Mapping:
    """Joins the variables of two sides, each exactly once; whatever hangs on a variable follows it.

    One of the candidate's that holds several of the reference's as blocks of rows is in the pair of each.

    Args:
      pairs: in the reference's order.
      kept: the candidate's own buffers and parameters, which have no counterpart and keep their values.

    Attributes:
      pairs, kept: the same, as tuples.
    """

    def __init__(self, pairs: Sequence[Pair], kept: Sequence[Variable] = ()) -> None:
        self.pairs, self.kept = tuple(pairs), tuple(kept)
        self._by_reference = {pair.reference: pair for pair in pairs}
        # Of an array that holds blocks of several variables the last one's pair stays.
        self._by_candidate = {name: pair for pair in pairs for name in pair.candidate}

    def pair(self, reference: str) -> Pair:
        """Returns the pair of one of the reference's variables.

        Raises:
          MappingError: it has no such variable.
        """
        return _look_up(self._by_reference, reference, "reference")

    def pair_of(self, candidate: str) -> Pair:
        """Returns the pair that one of the candidate's variables belongs to.

        Raises:
          MappingError: it has no such variable.
        """
        return _look_up(self._by_candidate, candidate, "candidate")

    def to_candidate(self, name: str, array: Array, linear: bool = False) -> dict[str, Array]:
        """Carries an array of the reference's variable `name` to the candidate's names and layout.

        Args:
          name: the reference's variable.
          array: its value, or with `linear` its gradient or slot; in its shape.
          linear: see `Transform.forward`.

        Returns:
          Dict of the candidate's name to array, to the block of it where the transform makes one; empty where the candidate
          has no counterpart.

        Raises:
          MappingError: no such variable, or the array does not fit.
        """
        pair = self.pair(name)
        if not pair.candidate:
            return {}
        return dict(zip(pair.candidate, pair.transform.forward(array, linear), strict=True))

    def to_reference(self, name: str, arrays: Map[str, Array], linear: bool = False) -> Array:
        """Carries the candidate's arrays to the layout of the reference's variable `name`.

        Args:
          name: the reference's variable.
          arrays: the candidate's name to array. With `linear`, a sum's frozen term may be left out.
          linear: see `Transform.backward`.

        Raises:
          MappingError: no such variable, an array is missing, extra or does not fit.
        """
        pair = self.pair(name)
        if len(pair.candidate) == len(arrays) == 1 and pair.candidate[0] in arrays:  # most
            return pair.transform.backward(arrays[pair.candidate[0]], shape=pair.shape, linear=linear)
        # Of a sum the frozen term has no gradient and no slot; of a value all terms are needed.
        missing = [part for part in pair.candidate if part not in arrays]
        extra = [part for part in arrays if part not in pair.candidate]
        if extra or not arrays or (missing and not (linear and pair.transform.is_sum)):
            raise MappingError(
                f"mapping: expected arrays of {', '.join(pair.candidate)} for {name}, "
                f"got {', '.join(arrays) or 'none'}. Pass exactly these."
            )
        parts = [arrays[part] for part in pair.candidate if part in arrays]
        return pair.transform.backward(*parts, shape=pair.shape, linear=linear)

    def toml(self) -> str:
        """Returns a full [mapping] table that says the same by hand."""
        return table((pair.reference, pair.candidate, pair.transform.text) for pair in self.pairs)

    def texts(self) -> list[tuple[str, str, str, str]]:
        """Returns what a report shows of every pair: the reference's name, the candidate's, the transform, and why."""
        return [(p.reference, " + ".join(p.candidate), str(p.transform), p.why) for p in self.pairs]

    @property
    def without_counterpart(self) -> list[str]:
        """The reference's names that are declared to have no counterpart."""
        return [pair.reference for pair in self.pairs if not pair.candidate]


def table(entries: Iterable[tuple[str, Sequence[str], str]]) -> str:
    """Returns a [mapping] table.

    Args:
      entries: the reference's name, the candidate's names and the transform of each.
    """
    return "\n".join(["[mapping]", *(line(*entry) for entry in entries)]) + "\n"


def line(reference: str, candidate: Sequence[str], transform: str) -> str:
    """Returns one line of a [mapping] table."""
    if not candidate:
        return f"{toml_string(reference)} = {{ to = [] }}"
    names = [toml_string(name) for name in candidate]
    to = names[0] if len(names) == 1 else f"[{', '.join(names)}]"
    return f"{toml_string(reference)} = {{ to = {to}, transform = {toml_string(transform)} }}"


def _look_up(table: Map[str, Pair], name: str, side: str) -> Pair:
    found = table.get(name)
    if found is None:
        raise MappingError(f"mapping: expected a variable of the {side}, got {name!r}. Use a name of its trace.")
    return found
