"""Tells by where they stand in the graphs which variables belong together: which weights come before and behind them.

Behind a bug nothing is the other side's number, yet what is computed of what is there as it is in front of it.
"""

from collections.abc import Iterator, Sequence

from parity.experiment.mapping.by_structure import Structure, nearest
from parity.locate.downstream import readers
from parity.locate.op_kinds import POOLING
from parity.mapping import Draft, Variable
from parity.mapping.guesses import Around, Numbers
from parity.mapping.units import Unit
from parity.trace import ForwardOp

ROUNDS = 3  # of guessing anew by what was guessed of the neighbours; two exchanged kernels take one
SOON = 2  # ops behind the one that reads a weight among which its activation or pooling is
ACTIVATIONS = frozenset(
    ["relu", "relu6", "sigmoid", "tanh", "softmax", "elu", "selu", "gelu", "leakyrelu", "softplus", "exp"]
)
Trait = tuple[str, str]


class Neighbours:
    """Says how far what is around a variable differs from what is around a unit, under a draft.

    Args:
      draft: what the neighbours are taken for.
      reference, candidate: the ops of both sides' passes.
    """

    def __init__(self, draft: Draft, reference: Sequence[ForwardOp], candidate: Sequence[ForwardOp]) -> None:
        self._candidate = _traits(candidate)
        # Neighbours are compared under what they are taken for now: each round knows more of them.
        meant = {pair.reference: pair.candidate for pair in draft.mapping().pairs}
        self._reference = {
            name: {
                (how, each) for how, other in found for each in (meant.get(other, ()) if how != "does" else (other,))
            }
            for name, found in _traits(reference).items()
        }

    def __call__(self, variable: Variable, unit: Unit, /) -> float:
        """Returns 0 where all neighbours are each other's, to 1 where none is; 0 where there are none."""
        one = self._reference.get(variable.name, set())
        other = set().union(*(self._candidate.get(name, set()) for name in unit.names))
        # Jaccard's distance: shared traits of all traits.
        return 1.0 - len(one & other) / len(one | other) if one | other else 0.0


def by_neighbours(draft: Draft, numbers: Numbers, passes: tuple[Sequence[ForwardOp], Sequence[ForwardOp]]) -> Draft:
    """Returns the draft by numbers, and where these say nothing by where it stands in the graphs.

    By what all around it is like first, and then by what its neighbours are taken for, too.

    Args:
      draft: with guesses.
      numbers: what numbers say.
      passes: the ops of the reference's and of the candidate's forward pass.
    """
    structure = Structure(draft, *passes)
    found = draft.by(numbers, structure)
    for _ in range(ROUNDS):
        again = draft.by(numbers, _mean_of(structure, Neighbours(found, *passes)))
        if _pairs(again) == _pairs(found):
            break
        found = again
    return found


def _mean_of(one: Around, other: Around) -> Around:
    return lambda variable, unit: (one(variable, unit) + other(variable, unit)) / 2


def _pairs(draft: Draft) -> list[tuple[str, tuple[str, ...], str]]:
    return [(guess.variable.name, guess.unit.names, guess.text) for guess in draft.guesses]


def _traits(ops: Sequence[ForwardOp]) -> dict[str, set[Trait]]:
    """By weight the weights that are read next before it, beside it and next behind it, and what is done behind it."""
    after, own = readers(ops), [{*op.weights} for op in ops]
    before, behind = nearest(own, ops)
    found: dict[str, set[Trait]] = {}
    for number, op in enumerate(ops):
        if not op.weights:
            continue
        traits = {("before", name) for name in before[number]} | {("behind", name) for name in behind[number]}
        traits |= {("does", what) for what in _done_behind(ops, number, after)}
        for name in op.weights:
            found.setdefault(name, set()).update(traits, (("with", each) for each in op.weights if each != name))
    return found


def _done_behind(ops: Sequence[ForwardOp], number: int, after: Sequence[Sequence[int]]) -> Iterator[str]:
    """The activations and poolings soon behind an op, called the same on both sides."""
    last = [number]
    for _ in range(SOON):
        last = [each for before in last for each in after[before] if not ops[each].weights]
        for each in last:
            kind = ops[each].kind.lower()
            if kind.replace("_", "") in ACTIVATIONS:
                yield kind.replace("_", "")
            yield from (f"pooling {at}" for at, kinds in enumerate(POOLING) if kind in kinds)
