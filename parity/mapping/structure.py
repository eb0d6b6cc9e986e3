"""Joins what can be joined of two sides that do not hold the same variables, and says what is left on either of them.

A port that lacks a bias, has a layer more, a table of another size, or two parameters where the reference has one variable,
is no question about names: no line of a mapping would make it the same. It is joined as far as it goes and run; what is left
of the reference has no counterpart then, and what is left of the port begins as the port makes it.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from parity.mapping.draft import Draft
from parity.mapping.fits import contradict, fits
from parity.mapping.names import Meaning
from parity.mapping.transforms import Shape, Transform, parse_transform
from parity.mapping.variable_map import Pair
from parity.mapping.variables import Variable
from parity.trace.arrays import Array

NOTHING = "nothing of the port"
UNTIED = "untied"
# What computes with a variable: ops of TensorFlow, and modules of torch.
LAYER_FAMILIES = {
    "convolution": ("Conv",),
    "rows of a table": ("Gather", "Embedding"),
    "product": ("MatMul", "Linear", "RNN", "LSTM", "GRU"),
}


class Structure(NamedTuple):
    """What one side holds and the other does not.

    Fields:
      missing: variables of the reference that nothing of the port belongs to.
      extra: parameters of the port that nothing of the reference belongs to.
      resized: pairs of one of the former and one of the latter that are the same thing in another size.
      untied: one variable of the reference, and the parameters of the port that each hold it.
    """

    missing: tuple[Variable, ...] = ()
    extra: tuple[Variable, ...] = ()
    resized: tuple[tuple[Variable, Variable], ...] = ()
    untied: tuple[tuple[Variable, tuple[Variable, ...]], ...] = ()

    def __bool__(self) -> bool:
        """Whether there is any of it."""
        return any(self[:])


def as_far_as_it_goes(draft: Draft) -> tuple[Draft, Structure]:
    """Returns a draft that is total, and what of it differs; the draft itself where that is a question.

    It is a question where an entry of the case is wrong, or what is left of the port may be what is left of the reference
    in a layout that nobody has named: there are as many numbers in the matrices of either.

    Args:
      draft: some of whose variables may be left over.
    """
    if draft.total or draft.problems:
        return draft, Structure()
    untied = _untied(draft)
    left, free = _without(draft.left, [v for v, _ in untied]), _without(draft.free, [p for _, ps in untied for p in ps])
    contested = tuple(guess for guess in draft.contested if all(guess.variable is not v for v, _ in untied))
    left = _without(left, [guess.variable for guess in contested])
    free = _without(free, [part for guess in contested for part in guess.unit.parts])
    # The same number of elements left on both sides is no accident: somebody has to write the layout.
    if _may_be_joined(left, free):
        return draft, Structure()
    resized = _resized(draft, left, free)
    missing = tuple(_without(left, [one for one, _ in resized]))
    extra = tuple(_without(free, [other for _, other in resized]))
    identity = parse_transform("identity")
    pairs = {v.name: Pair(v.name, (), identity, NOTHING, v.shape) for v in left}
    pairs.update((v.name, _copies(v, parts)) for v, parts in untied)
    joined = draft._replace(
        sure={**draft.sure, **pairs}, guesses=(*draft.guesses, *contested), contested=(), left=[], free=[]
    )
    return joined._replace(kept=(*draft.kept, *free)), Structure(missing, extra, resized, untied)


def _without(variables: Sequence[Variable], others: Sequence[Variable]) -> list[Variable]:
    names = {variable.name for variable in others}
    return [variable for variable in variables if variable.name not in names]


def _untied(draft: Draft) -> tuple[tuple[Variable, tuple[Variable, ...]], ...]:
    """What several ops of the reference read and several parameters of the port fit, and nothing else does."""
    found = []
    for variable in draft.left:
        parts = [part for part in draft.free if fits(variable, part)]
        rivals = [one for one in draft.left if one is not variable and any(fits(one, part) for part in parts)]
        if "+" in (variable.use or "") and len(parts) > 1 and not rivals and variable.kind == "weight":
            found.append((variable, tuple(parts)))
    return tuple(found)


def _copies(variable: Variable, parts: Sequence[Variable]) -> Pair:
    transforms = [parse_transform(fits(variable, part)[0]) for part in parts]

    # No permutation, and no sum: every part is a whole copy of the value. The gradient by the one variable is the sum
    # of those by its copies, so backward adds gradients up, and takes the mean of values, which agree until the first
    # update.
    def forward(array: Array, linear: bool) -> tuple[Array, ...]:
        return tuple(made for each in transforms for made in each.forward(array, linear))

    def backward(arrays: tuple[Array, ...], shape: Shape | None, linear: bool) -> Array:
        own = [t.backward(array, shape=shape, linear=linear) for t, array in zip(transforms, arrays, strict=True)]
        total = sum(own[1:], start=own[0])
        return total if linear else total / len(own)

    text = f"copies({', '.join(each.text for each in transforms)})"
    names = tuple(part.name for part in parts)
    return Pair(variable.name, names, Transform(text, len(parts), False, forward, backward), UNTIED, variable.shape)


def _may_be_joined(left: Sequence[Variable], free: Sequence[Variable]) -> bool:
    one, other = (_numbers(side, matrices=True) for side in (left, free))
    if one or other:
        return one == other
    one, other = (_numbers(side, matrices=False) for side in (left, free))
    return bool(one and other) and other % one == 0  # a bias may be a sum


def _numbers(variables: Sequence[Variable], matrices: bool) -> int:
    return sum(math.prod(v.shape) for v in variables if v.kind == "weight" and (len(v.shape) > 1) == matrices)


def _resized(draft: Draft, left: Sequence[Variable], free: Sequence[Variable]) -> tuple[tuple[Variable, Variable], ...]:
    """Variables whose names say the same, or that are the only ones of so many axes that are left on either side.

    What no op of the same family computes with, or what shares no axis, is not one thing in two sizes. A vector says too
    little by itself: it is one where its name says so, or the matrix of its layer is.
    """
    found: list[tuple[Variable, Variable]] = []

    def of_one_layer(draft: Draft, variable: Variable, part: Variable) -> bool:
        layers = [(_where(draft.meaning.reference, v), _where(draft.meaning.candidate, p)) for v, p in found]
        own = _where(draft.meaning.reference, variable), _where(draft.meaning.candidate, part)
        return len(variable.shape) == len(part.shape) == 1 and own in layers and _compatible(draft, variable, part)

    # From the surest sign to the weakest; each round sees only what the earlier ones have left, and `found` so far.
    for matches in (_same_name, _same_axes, of_one_layer):
        one = _without(left, [v for v, _ in found])
        other = _without(free, [p for _, p in found])
        for variable in one:
            partners = [part for part in other if matches(draft, variable, part)]
            rivals = [each for each in one if partners and matches(draft, each, partners[0])]
            if len(partners) == len(rivals) == 1:
                found.append((variable, partners[0]))
    return tuple(found)


def _same_name(draft: Draft, variable: Variable, part: Variable) -> bool:
    where = _where(draft.meaning.reference, variable) == _where(draft.meaning.candidate, part)
    return where and _compatible(draft, variable, part)


def _where(meanings: Mapping[str, Meaning], variable: Variable) -> tuple[str, ...]:
    return meanings[variable.name].where


def _same_axes(draft: Draft, variable: Variable, part: Variable) -> bool:
    axes = len(variable.shape) == len(part.shape) > 1 and _share_an_axis(variable, part)
    return axes and _compatible(draft, variable, part)


def _share_an_axis(variable: Variable, part: Variable) -> bool:
    """Whether some axis is as long on both sides, where the port's module has it."""
    count = len(part.shape)
    # torch's [out, in, h, w] is TensorFlow's [h, w, in, out]: the windows' axes, then the inputs', then the outputs'.
    of_torch = (*range(2, count), 1, 0) if (part.use or "").startswith(("Conv", "Linear")) else range(count)
    carried = [part.shape[axis] for axis in of_torch]
    return any(one == other for one, other in zip(variable.shape, carried, strict=True))


def _compatible(draft: Draft, variable: Variable, part: Variable) -> bool:
    roles = draft.meaning.reference[variable.name].role, draft.meaning.candidate[part.name].role
    families = [
        {family for family, names in LAYER_FAMILIES.items() if any(name in (each.use or "") for name in names)}
        for each in (variable, part)
    ]
    compatible = not all(families) or bool(families[0] & families[1])
    return compatible and variable.kind == part.kind and not contradict(*roles, part.use or "")
