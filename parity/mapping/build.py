"""Joins all variables of two sides, or says exactly why not."""

from collections import Counter, defaultdict
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
    has no counterpart, is left out; a buffer of the candidate's own modules that nothing of the reference is left for keeps
    its values.

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

    namesakes: dict[Meaning, list[Variable]] = defaultdict(list)
    for variable in free:
        namesakes[says["candidate", variable.name]].append(variable)

    def same_name(one: Variable) -> list[Variable]:
        return namesakes.get(says["reference", one.name], [])

    def no_contradiction(one: Variable) -> list[Variable]:
        role = says["reference", one.name].role
        return [other for other in free if len({role, says["candidate", other.name].role} - {""}) < 2]

    for near, why in ((same_name, BY_NAME), (no_contradiction, BY_SHAPE)):
        found = _only_partners(left, near, why)
        pairs.update((pair.reference, pair) for pair in found)
        taken = {name for pair in found for name in pair.candidate}
        left = [variable for variable in left if variable.name not in pairs]
        free = [variable for variable in free if variable.name not in taken]
    # A buffer of the port's own module, not of a known layer, for which nothing is left: a constant of the script, or new.
    raw = [variable for variable in free if variable.kind == "statistic" and not variable.use]
    kept = [] if any(variable.kind == "statistic" for variable in left) else raw
    free = [variable for variable in free if variable not in kept]
    if by_hand.problems or left or free:
        raise MappingError(describe_problems(by_hand.problems, left, free))
    return Mapping([pairs[variable.name] for variable in reference], kept)


def _meanings(variables: Sequence[Variable]) -> list[Meaning]:
    return meanings([variable.name for variable in variables])


def _only_partners(reference: Sequence[Variable], near: Callable[[Variable], list[Variable]], why: str) -> list[Pair]:
    partners: dict[str, list[tuple[str, Sequence[str]]]] = {}
    rivals: Counter[str] = Counter()
    for one in reference:
        fitting = ((other.name, fits(one, other)) for other in near(one))
        partners[one.name] = [(name, texts) for name, texts in fitting if texts]
        rivals.update(name for name, _ in partners[one.name])
    found = []
    for one in reference:
        if len(partners[one.name]) != 1:
            continue
        ((name, texts),) = partners[one.name]
        if rivals[name] == 1 and len(texts) == 1:
            found.append(Pair(one.name, (name,), parse_transform(texts[0]), why, one.shape))
    return found
