"""Which transforms can turn one variable into another, and which pairs leave no choice."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Sequence
from collections.abc import Mapping as Map
from functools import lru_cache, partial
from typing import NamedTuple, TypeVar

from parity.mapping.names import Meaning, meanings, renumbered
from parity.mapping.transforms import parse_transform
from parity.mapping.variable_map import Pair
from parity.mapping.variables import MappingError, Variable

# Class of torch's module, and the TensorFlow op that fixes the kernel's layout: a layout that no shape can overrule.
_BY_USE: dict[tuple[str, str], str] = {
    ("Linear", "MatMul"): "transpose",
    ("Linear", "BatchMatMul"): "transpose",
    ("Linear", "BatchMatMulV2"): "transpose",
    ("Linear", "SparseTensorDenseMatMul"): "transpose",
    ("Conv1d", "Conv2D"): "wio_to_oiw",
    ("Conv2d", "Conv2D"): "hwio_to_oihw",
    ("Conv2d", "DepthwiseConv2dNative"): "hwcm_to_depthwise",
    ("Conv3d", "Conv3D"): "dhwio_to_oidhw",
    ("ConvTranspose1d", "Conv2DBackpropInput"): "wio_to_oiw",  # [w, out, in] to [in, out, w]: the same turn
    ("ConvTranspose2d", "Conv2DBackpropInput"): "hwoi_to_iohw",
    ("ConvTranspose3d", "Conv3DBackpropInputV2"): "dhwio_to_oidhw",  # likewise
    ("NonDynamicallyQuantizableLinear", "MatMul"): "transpose",
    ("NonDynamicallyQuantizableLinear", "BatchMatMulV2"): "transpose",
    ("Embedding", "GatherV2"): "identity",
    ("Embedding", "Gather"): "identity",
    ("Embedding", "ResourceGather"): "identity",
    ("EmbeddingBag", "GatherV2"): "identity",
    ("EmbeddingBag", "Gather"): "identity",
    ("EmbeddingBag", "ResourceGather"): "identity",
}
# What may happen to an array of so many axes where the uses do not say.
_BY_RANK: dict[int, tuple[str, ...]] = {
    2: ("identity", "transpose"),
    3: ("identity", "wio_to_oiw"),
    4: ("identity", "hwio_to_oihw", "hwcm_to_depthwise"),
    5: ("identity", "dhwio_to_oidhw"),
}

# The same of what is learned and no kernel: a map to begin with, positions, which have channels last in a graph.
_OF_MAPS = {3: ("identity", "axes(2, 0, 1)"), 4: ("identity", "nhwc_to_nchw")}

# These pack several blocks into one array, in an order of torch's own that no shape shows: never joined unasked.
PACKED = frozenset(["LSTM", "LSTMCell", "GRU", "GRUCell", "MultiheadAttention"])


def fits(reference: Variable, candidate: Variable) -> list[str]:
    """Returns every transform that may turn `reference` into `candidate`: one where the choice is clear.

    Uses decide first: a `Linear` fed by `MatMul` is transposed even where it is square, and what the same ops use on both
    sides, as in two traces of one framework, has one layout. Where they say nothing, or the shapes say the contrary, as of a
    kernel that a graph multiplies by with `transpose_b`, every transform whose result has the right shape is listed.
    Different kinds never fit, nor do modules such as `LSTM`, whose arrays hold several blocks in torch's own order.
    """
    if reference.kind != candidate.kind or candidate.use in PACKED:
        return []
    # True of every transform below, and cheap: most pairs of a large model end here.
    if math.prod(reference.shape) != math.prod(candidate.shape):
        return []
    return [text for text in _possible(reference, candidate) if becomes(text, reference, candidate)]


def becomes(text: str, reference: Variable, *candidates: Variable) -> bool:
    """Returns whether the transform gives exactly the shapes of `candidates`, in order."""
    return _shapes(text, reference.shape) == tuple(candidate.shape for candidate in candidates)


def fits_but_for_ones(reference: Variable, candidate: Variable) -> list[str]:
    """Returns the transforms that turn `reference` into `candidate` where shapes differ by axes of length 1 alone.

    The usual transform of the reference's kind is done first, then axes of length 1 are put in and left out: a kernel
    ``[1, 3, 1, c]`` over all of the last axis is the ``[c, 3, 1]`` of a `Conv1d`, a bias ``[1, c]`` is one ``[c]``.
    """
    if reference.kind != candidate.kind or candidate.use in PACKED:
        return []
    end = f"reshape({', '.join(map(str, candidate.shape))})"
    found = []
    for text in _usual(reference, candidate.use or ""):
        made = _shapes(text, reference.shape)
        if made and _without_ones(made[0]) == _without_ones(candidate.shape):
            found.append(end if text == "identity" else f"{text} | {end}")
    return found


def without_leading_ones(text: str, reference: Variable, *candidates: Variable) -> str | None:
    """Returns the transform that makes `candidates` of `reference` by `text`, leading axes of length 1 left out if need be.

    None where there is none. What is written as a convolution over one place has such axes: ``[1, in, out]``.
    """
    if becomes(text, reference, *candidates):
        return text
    shape = reference.shape
    while shape[:1] == (1,):
        shape = shape[1:]
        head = f"reshape({', '.join(map(str, shape))})"
        whole = head if text == "identity" else f"{head} | {text}"
        if becomes(whole, reference, *candidates):
            return whole
    return None


def _without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)


def _usual(reference: Variable, use: str) -> tuple[str, ...]:
    ops, rank = reference.use or "", len(reference.shape)
    if not use.startswith(("Linear", "Conv")):
        return (
            _BY_RANK.get(rank, ("identity",)) if not use and len(_without_ones(reference.shape)) > 1 else ("identity",)
        )
    if rank == 4 and "Conv2DBackpropInput" in ops:
        return ("hwoi_to_iohw",)
    # What a graph multiplies by and then overlaps and adds: a transposed convolution too holds its inputs first.
    if rank == 2 and use.startswith("ConvTranspose"):
        return ("identity",)
    if rank == 4:
        return ("hwcm_to_depthwise",) if "DepthwiseConv2dNative" in ops else ("hwio_to_oihw",)
    return _BY_RANK.get(rank, ("identity",))[1:] or ("identity",)


# A stack of equal layers asks for the same few shapes again for every pair of its variables.
@lru_cache(maxsize=4096)
def _shapes(text: str, shape: tuple[int, ...]) -> tuple[tuple[int, ...], ...] | None:
    try:
        return parse_transform(text).shapes(shape)
    except MappingError:
        return None


def _possible(reference: Variable, candidate: Variable) -> tuple[str, ...]:
    if reference.use and reference.use == candidate.use:  # two traces of one framework
        return ("identity",)
    ops = (reference.use or "").split("+")
    by_use = {_BY_USE[(candidate.use or "", op)] for op in ops if (candidate.use or "", op) in _BY_USE}
    # Tied weights are both looked up and multiplied; then no single use speaks for the layout.
    tied = any("Gather" in op for op in ops) and any("MatMul" in op for op in ops)
    if len(by_use) == 1 and not tied and any(becomes(text, reference, candidate) for text in by_use):
        return tuple(by_use)
    rank = len(reference.shape)
    if rank == 4 and "Conv2DBackpropInput" in ops:
        return ("identity", "hwoi_to_iohw")
    if reference.use and not candidate.use and not any(op.startswith(MULTIPLYING) for op in ops) and rank in _OF_MAPS:
        return _OF_MAPS[rank]
    return _BY_RANK.get(rank, ("identity",))


MULTIPLYING = ("MatMul", "BatchMatMul", "Conv", "DepthwiseConv", "Einsum")  # ops whose operand is a kernel
BIAS_OPS = frozenset(["Add", "AddV2", "BiasAdd", "Sub"])  # ops whose operand is a bias, where it is a vector
BY_NAME = "by name and shape"
BY_SHAPE = "only shape that fits"


class NameMeanings(NamedTuple):
    """What the names of both sides say.

    Fields:
      reference, candidate: name to meaning, the candidate's counted as the reference counts.
    """

    reference: dict[str, Meaning]
    candidate: dict[str, Meaning]


def name_meanings(reference: Sequence[Variable], candidate: Sequence[Variable]) -> NameMeanings:
    """Returns what the names of two sides say; what a graph does with a variable says whether it is a bias."""
    one, other = (meanings([variable.name for variable in side]) for side in (reference, candidate))
    # It overrules the name: a factorization machine calls its bias w0, and a session graph its last kernel B.
    one = [said._replace(role=_role(said.role, variable)) for variable, said in zip(reference, one, strict=True)]
    return NameMeanings(
        dict(zip((variable.name for variable in reference), one, strict=True)),
        dict(zip((variable.name for variable in candidate), renumbered(one, other), strict=True)),
    )


def _role(said: str, variable: Variable) -> str:
    if said == "weight" and _is_added_alone(variable):
        return "bias"
    return "weight" if said == "bias" and _is_multiplied_by(variable) else said


def _is_multiplied_by(variable: Variable) -> bool:
    ops = (variable.use or "").split("+")
    return len(_without_ones(variable.shape)) > 1 and any(op.startswith(MULTIPLYING) for op in ops)


def _is_added_alone(variable: Variable) -> bool:
    return (
        bool(variable.use)
        and {*(variable.use or "").split("+")} <= BIAS_OPS
        and len(_without_ones(variable.shape)) <= 1
    )


def fits_with(sizes: Collection[int], reference: Variable, candidate: Variable) -> list[str]:
    """Returns what `fits` does, and of variables of so many elements what `fits_but_for_ones` does behind it."""
    found = fits(reference, candidate)
    if math.prod(reference.shape) not in sizes:
        return found
    return [*dict.fromkeys([*found, *fits_but_for_ones(reference, candidate)])]


def join_certain(
    left: Sequence[Variable], free: Sequence[Variable], meaning: NameMeanings, sizes: Collection[int] = ()
) -> list[Pair]:
    """Joins two variables where their names say the same of nothing else, and where each is the other's only fit.

    Args:
      left: of the reference.
      free: of the candidate.
      meaning: what all names say.
      sizes: numbers of elements of variables whose shapes fit that are equal but for axes of length 1.
    """
    roles = meaning.candidate
    namesakes = _groups(free, roles, lambda each: roles[each.name])

    def same_name(one: Variable) -> list[Sequence[Variable]]:
        return namesakes.get(meaning.reference[one.name], [])

    # Names first: what they join is no rival any more, so that shapes may decide more of what is left.
    fitting = partial(fits_with, sizes)
    joined = _only_partners(left, same_name, BY_NAME, fitting)
    names = {name for pair in joined for name in (pair.reference, *pair.candidate)}
    by_size = _groups(
        [variable for variable in free if variable.name not in names], roles, lambda each: math.prod(each.shape)
    )

    def no_contradiction(one: Variable) -> list[Sequence[Variable]]:
        role = meaning.reference[one.name].role
        near = by_size.get(math.prod(one.shape), [])
        return [group for group in near if not contradict(role, roles[group[0].name].role, group[0].use or "")]

    return joined + _only_partners([v for v in left if v.name not in names], no_contradiction, BY_SHAPE, fitting)


Key = TypeVar("Key", bound=Hashable)


def _groups(
    variables: Sequence[Variable], meaning: Map[str, Meaning], key: Callable[[Variable], Key]
) -> dict[Key, list[Sequence[Variable]]]:
    """By key those of one form and role together: whatever one of a group may be joined to, all of it may."""
    found: dict[Key, dict[object, list[Variable]]] = defaultdict(lambda: defaultdict(list))
    for variable in variables:
        found[key(variable)][variable.form, meaning[variable.name].role].append(variable)
    return {each: [*groups.values()] for each, groups in found.items()}


def contradict(reference: str, candidate: str, use: str) -> bool:
    """Returns whether the roles of two names are different ones; a class of module with a single variable has none.

    A table ``[rows, 1]`` of an `Embedding`'s is called its weight, and may well hold a bias of each row.
    """
    return not use.startswith("Embedding") and len({reference, candidate} - {""}) > 1


def _only_partners(
    reference: Sequence[Variable],
    near: Callable[[Variable], list[Sequence[Variable]]],
    why: str,
    fitting: Callable[[Variable, Variable], list[str]],
) -> list[Pair]:
    # A pair is certain from both ends: the one that fits `one`, which fits no other. With a single end two layers of
    # one shape would be joined in whichever order they come.
    partners: dict[str, list[tuple[Sequence[Variable], Sequence[str]]]] = {}
    rivals: Counter[str] = Counter()
    for one in reference:
        tried = ((group, fitting(one, group[0])) for group in near(one))
        partners[one.name] = [(group, texts) for group, texts in tried if texts]
        rivals.update(group[0].name for group, _ in partners[one.name])
    found = []
    for one in reference:
        if sum(len(group) for group, _ in partners[one.name]) != 1:
            continue
        (((other,), texts),) = partners[one.name]
        if rivals[other.name] == 1 and len(texts) == 1:
            found.append(Pair(one.name, (other.name,), parse_transform(texts[0]), why, one.shape))
    return found
