"""Joins variables that names, uses and shapes leave no choice for."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from parity.mapping.fits import fits
from parity.mapping.mapping import Pair
from parity.mapping.names import Meaning, meanings, renumbered
from parity.mapping.transforms import parse_transform
from parity.mapping.variable import Variable

BY_NAME = "by name and shape"
BY_SHAPE = "only shape that fits"


class Told(NamedTuple):
    """What the names of both sides say.

    Fields:
      reference, candidate: name to meaning, the candidate's counted as the reference counts.
    """

    reference: dict[str, Meaning]
    candidate: dict[str, Meaning]


def told_by_names(reference: Sequence[Variable], candidate: Sequence[Variable]) -> Told:
    """Returns what the names of two sides say."""
    one, other = (meanings([variable.name for variable in side]) for side in (reference, candidate))
    return Told(
        dict(zip((variable.name for variable in reference), one, strict=True)),
        dict(zip((variable.name for variable in candidate), renumbered(one, other), strict=True)),
    )


def join_certain(left: Sequence[Variable], free: Sequence[Variable], told: Told) -> list[Pair]:
    """Joins two variables where their names say the same of nothing else, and where each is the other's only fit.

    Args:
      left: of the reference.
      free: of the candidate.
      told: what all names say.
    """
    namesakes: dict[Meaning, list[Variable]] = defaultdict(list)
    for variable in free:
        namesakes[told.candidate[variable.name]].append(variable)

    def same_name(one: Variable) -> list[Variable]:
        return namesakes.get(told.reference[one.name], [])

    joined = _only_partners(left, same_name, BY_NAME)
    names = {name for pair in joined for name in (pair.reference, *pair.candidate)}
    rest = [variable for variable in free if variable.name not in names]

    def no_contradiction(one: Variable) -> list[Variable]:
        role = told.reference[one.name].role
        return [v for v in rest if not contradict(role, told.candidate[v.name].role, v.use or "")]

    return joined + _only_partners([v for v in left if v.name not in names], no_contradiction, BY_SHAPE)


def contradict(reference: str, candidate: str, use: str) -> bool:
    """Returns whether the roles of two names are different ones; a class of module with a single variable has none.

    A table ``[rows, 1]`` of an `Embedding`'s is called its weight, and may well hold a bias of each row.
    """
    return not use.startswith("Embedding") and len({reference, candidate} - {""}) > 1


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
