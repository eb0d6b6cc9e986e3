"""Perturbations as data: one ulp here and there, half precision's rounding, another order of the examples (Python 3.7).

Whoever reads the batches and states of a run applies them, so that a run needs no copies of these on disk. The generator is
`numpy.random.default_rng` in every process; its numbers are the same from numpy 1.17 onwards for the calls made here.
"""

from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Tuple

import numpy as np

from parity.trace.arrays import Array, Tensors
from parity.trace.errors import TraceError
from parity.trace.keys import parse_key, quantity_of


class Perturbation(NamedTuple):
    """One thing that is changed before a step, drawn anew in each.

    Fields:
      kind: "ulp", every float of a quantity to a neighbour; "roundoff", by a unit roundoff of a narrower type; both up or
        down at random, and whole numbers but 0 that are fed not at all. "sample_order", the examples of each shard
        shuffled, all inputs alike. "tower_first", the shard of tower `seed` changes places with the first. "shift", `unit`
        is added in float64, where float32 would round.
      quantity: of the tensors that it changes: "var", "stat" or "feed".
      seed: of the draw in step 0 and of an initial state.
      seed_per_step: what is added to it in each step.
      unit: the unit roundoff, e.g. 2^-11 of float16, or what is added.
      shards: number of contiguous pieces of a batch.
      uneven: what happens to a batch that does not divide: "refuse", "drop", "pad" or "sizes". What is dropped stays where
        it is, and so does the example that padding repeats.
      but: names of variables that stay as they are.
    """

    kind: str
    quantity: str
    seed: int = 0
    seed_per_step: int = 0
    unit: float = 0.0
    shards: int = 1
    uneven: str = "refuse"
    but: Tuple[str, ...] = ()


def perturb(
    tensors: Mapping[str, Array],
    perturbations: Iterable[Perturbation],
    step: int = 0,
    precision: str = "float32",
) -> Tensors:
    """Returns a state or a whole batch as a perturbed run starts a step from it.

    The draws depend on seed, step, and the names, shapes and order of the tensors: they are the same in every process that
    reads the same file, and other ones in another layout.

    Args:
      tensors: dict of trace name to array, in the order of their file.
      perturbations: what to change, one after the other; what concerns none of the tensors changes nothing.
      step: its number, or 0 for an initial state.
      precision: of the run. In "float64" all floats but the counters are widened first, so that an ulp is float64's.
    """
    perturbations = tuple(perturbations)  # looked at twice, and may come as an iterator
    changed = as_float64(tensors) if perturbations and precision == "float64" else dict(tensors)
    for each in perturbations:
        names = [name for name in changed if quantity_of(name) == each.quantity]
        names = [name for name in names if not each.but or parse_key(name).name not in each.but]
        # Drawn from one generator, in their order: what stays takes no numbers, and a tensor more changes all behind
        # it.
        if names:
            found = {name: changed[name] for name in names}
            changed.update(PERTURBED_BY[each.kind](found, each, each.seed + each.seed_per_step * step))
    return changed


def perturbations_of(message: "Iterable[Mapping[str, Any]]") -> List[Perturbation]:
    """Returns the perturbations that a request asks for, each as `Perturbation._asdict` has it."""
    return [Perturbation(**each) for each in message]


def as_float64(tensors: Mapping[str, Array]) -> Tensors:
    """Widens every float but the counters, so that an ulp of float64 can be added."""
    return {
        text: value.astype("float64") if value.dtype.kind == "f" and quantity_of(text) != "state" else value
        for text, value in tensors.items()
    }


def _ulp(tensors: Tensors, asked: Perturbation, seed: int) -> Tensors:
    random, changed = _generator(seed), {}
    for text, value in tensors.items():
        if value.dtype.kind == "f":
            # One draw per element, whatever its value is: so both sides' generators stay in step over all tensors.
            towards = np.where(random.random(value.shape) < 0.5, -np.inf, np.inf).astype(value.dtype)
            moved = np.nextafter(value, towards)
            changed[text] = np.asarray(np.where(_is_exact(value, asked), value, moved))
    return changed


def _roundoff(tensors: Tensors, asked: Perturbation, seed: int) -> Tensors:
    random, changed = _generator(seed), {}
    for text, value in tensors.items():
        if value.dtype.kind == "f":
            # float64 (of the tensor's shape): in float32 1 + 2^-24 would be 1, and nothing perturbed.
            factor = 1 + asked.unit * random.choice([-1.0, 1.0], value.shape)
            changed[text] = np.where(_is_exact(value, asked), value, value * factor).astype(value.dtype)
    return changed


def _is_exact(value: Array, asked: Perturbation) -> Array:
    """Returns which numbers no rounding has moved: whole ones that are fed, and that the narrower type holds.

    Moved, labels that are compared would be other labels. Zeros go to the least number there is, which TensorFlow takes for
    zero, and torch does not: a tie of what zeros give is broken there.
    """
    if asked.quantity != "feed":
        return np.zeros(value.shape, bool)
    return np.asarray((np.trunc(value) == value) & (value != 0) & (np.abs(value) * asked.unit <= 1.0))


def _sample_order(batch: Tensors, asked: Perturbation, seed: int) -> Tensors:
    random, size = _generator(seed), len(next(iter(batch.values())))
    bounds = _bounds(size, asked.shards, asked.uneven)
    pieces = [random.permutation(np.arange(low, high)) for low, high in zip(bounds, bounds[1:])]
    # (examples,): a permutation of whole batch positions; what no shard takes stays at its place behind the shards.
    order = np.concatenate([*pieces, np.arange(sum(map(len, pieces)), size)]).astype(int)
    return {text: value[order] for text, value in batch.items()}


def _tower_first(batch: Tensors, asked: Perturbation, seed: int) -> Tensors:
    order = np.arange(asked.shards)
    order[[0, asked.seed]] = [asked.seed, 0]
    cut = {text: np.split(value, asked.shards) for text, value in batch.items()}
    return {text: np.concatenate([pieces[place] for place in order]) for text, pieces in cut.items()}


def _shift(tensors: Tensors, asked: Perturbation, seed: int) -> Tensors:
    return {text: np.asarray(value.astype("float64") + asked.unit) for text, value in tensors.items()}


PERTURBED_BY: "Dict[str, Callable[[Tensors, Perturbation, int], Tensors]]" = {
    "ulp": _ulp,
    "roundoff": _roundoff,
    "sample_order": _sample_order,
    "tower_first": _tower_first,
    "shift": _shift,
}


def _bounds(size: int, shards: int, uneven: str) -> List[int]:
    # Where the pieces of a batch begin, and where the last one ends; as `tf_towers.graph` cuts batches that do not
    # divide.
    piece, rest = size // shards, size % shards
    if uneven == "sizes":  # the first `rest` shards have one example more
        return [shard * piece + min(shard, rest) for shard in range(shards + 1)]
    # Shards are filled up with copies of the last example, number size - 1, which has to stay last to be what is
    # copied.
    if uneven == "pad" and rest:
        return [min(shard * (piece + 1), size - 1) for shard in range(shards + 1)]
    return [shard * piece for shard in range(shards + 1)]


def _generator(seed: int) -> Any:
    if not hasattr(np.random, "default_rng"):
        raise TraceError(
            f"numpy: expected 1.17 or newer where a run is perturbed, got {np.__version__}. "
            "Upgrade it in that interpreter, e.g. pip install 'numpy>=1.17,<2'."
        )
    return np.random.default_rng(seed)
