"""Joins all variables of two sides, or says exactly why not."""

from collections.abc import Callable, Sequence
from collections.abc import Mapping as Map

from parity.mapping.by_hand import pairs_by_hand
from parity.mapping.entry import MappingEntry
from parity.mapping.errors import MappingError
from parity.mapping.fits import fits
from parity.mapping.mapping import Mapping, Pair
from parity.mapping.names import Meaning, meanings
from parity.mapping.report import describe_problems
from parity.mapping.transforms import parse_transform
from parity.mapping.variable import Variable

BY_NAME = "by name and shape"
BY_SHAPE = "only shape that fits"


def build_mapping(
    reference: Sequence[Variable], candidate: Sequence[Variable], entries: Map[str, MappingEntry]
) -> Mapping:
    """Joins every variable of each side with its counterpart on the other.

    Entries written by hand come first and are checked. Of the rest, two variables are joined where their names say the
    same of nothing else and exactly one transform fits; then where, of what is left, each is the other's only fit by
    kind and shape, unless their names contradict each other. Nothing is guessed. Torch's `num_batches_tracked`, which
    has no counterpart, is left out.

    Args:
      reference: the TensorFlow side's variables; the result keeps their order.
      candidate: the torch side's.
      entries: the reference's name to what the case says of it.

    Raises:
      MappingError: an entry is wrong, or a variable is left over; the text lists all of them with the lines to write.
    """
    candidate = [variable for variable in candidate if variable.name.split(".")[-1] != "num_batches_tracked"]
    by_hand = pairs_by_hand(reference, candidate, entries)
    pairs = dict(by_hand.pairs)
    used = {name for entry in entries.values() for name in entry.to}
    left = [variable for variable in reference if variable.name not in entries]
    free = [variable for variable in candidate if variable.name not in used]
    says = {
        **{("reference", v.name): m for v, m in zip(reference, _meanings(reference), strict=True)},
        **{("candidate", v.name): m for v, m in zip(candidate, _meanings(candidate), strict=True)},
    }

    def same_name(one: Variable, other: Variable) -> bool:
        return says["reference", one.name] == says["candidate", other.name]

    def no_contradiction(one: Variable, other: Variable) -> bool:
        roles = {says["reference", one.name].role, says["candidate", other.name].role} - {""}
        return len(roles) < 2

    for agree, why in ((same_name, BY_NAME), (no_contradiction, BY_SHAPE)):
        found = _only_partners(left, free, agree, why)
        pairs.update((pair.reference, pair) for pair in found)
        taken = {name for pair in found for name in pair.candidate}
        left = [variable for variable in left if variable.name not in pairs]
        free = [variable for variable in free if variable.name not in taken]
    if by_hand.problems or left or free:
        raise MappingError(describe_problems(by_hand.problems, left, free))
    return Mapping([pairs[variable.name] for variable in reference])


def _meanings(variables: Sequence[Variable]) -> list[Meaning]:
    return meanings([variable.name for variable in variables])


def _only_partners(
    reference: Sequence[Variable], candidate: Sequence[Variable], agree: Callable[[Variable, Variable], bool], why: str
) -> list[Pair]:
    possible = {
        (one.name, other.name): texts
        for one in reference
        for other in candidate
        if agree(one, other) and (texts := fits(one, other))
    }
    found = []
    for one in reference:
        partners = [other for (name, other) in possible if name == one.name]
        rivals = [name for (name, other) in possible if partners == [other]]
        if len(partners) == 1 and rivals == [one.name] and len(possible[one.name, partners[0]]) == 1:
            (text,) = possible[one.name, partners[0]]
            found.append(Pair(one.name, (partners[0],), parse_transform(text), why, one.shape))
    return found
