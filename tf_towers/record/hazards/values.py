"""Checks from recorded numbers what was read off the graph, and finds what only numbers show."""

from typing import Any, List, Optional, Tuple

import numpy as np

from parity.trace import quantity_of, trace_name
from parity.trace.arrays import Array, Tensors
from tf_towers.record.hazards.gradients import cut_behind
from tf_towers.record.hazards.types import Hazard
from tf_towers.record.plan import RecordPlan, Section

# Sum and mean of two towers are a factor of two apart; float16 rounds each gradient by 2^-11, half of this limit.
SUM_OR_MEAN = 1e-3


def combine_from_values(section: Section, tensors: Tensors) -> str:
    """Tells from numbers how gradients are combined: "mean", "sum", "other", or "unknown" with one tower or no values.

    Args:
      section: a `Section`.
      tensors: dict of trace name to array, of one step.
    """
    towers = len(section.towers)
    kinds = set()
    for name in section.combinations:
        parts = [_entry(section, tensors, tower, name) for tower in range(towers)]
        combined = tensors.get(section.prefix + trace_name("grad", name))
        if towers < 2 or combined is None or any(part is None or part.shape != combined.shape for part in parts):
            continue
        total = np.sum([part.astype(np.float64) for part in parts if part is not None], axis=0)
        square = float(np.sum(total * total))
        if not square or not np.isfinite(square):
            continue
        # Least squares: factor = <total, combined> / <total, total>, and rest the residual relative to the total
        factor = float(np.sum(total * combined)) / square
        rest = np.sqrt(np.sum((combined - factor * total) ** 2) / square)
        right = [
            kind for kind, wanted in (("sum", 1.0), ("mean", 1.0 / towers)) if abs(factor / wanted - 1) < SUM_OR_MEAN
        ]
        kinds.add(right[0] if right and rest < SUM_OR_MEAN else "other")
    if not kinds:
        return "unknown"
    return kinds.pop() if len(kinds) == 1 else "other"


class Batches:
    """Finds updates that a second run of the script makes of the batch of the run before, as one for summaries does."""

    def __init__(self) -> None:
        self._before: Tuple[Optional[RecordPlan], Any] = (None, None)

    def look(self, plan: RecordPlan, number: int, tensors: Tensors) -> List[Hazard]:
        """Returns the list of `Hazard` of one step.

        Args:
          plan: the `RecordPlan` of its run.
          number: of the step.
          tensors: dict of trace name to array, of the step.
        """
        # Numbers that are fed, as a keep probability, are the same from step to step in any script.
        keys = sorted(key for key, value in tensors.items() if quantity_of(key) == "feed" and np.ndim(value))
        batch = [(key, np.ascontiguousarray(tensors[key]).tobytes()) for key in keys]
        last, fed = self._before
        self._before = plan, batch
        # EAST runs its train op again with the summaries, on the batch just trained; another plan tells that from an
        # epoch of one batch.
        if not batch or last is None or last is plan or batch != fed:
            return []
        return [
            Hazard(
                "batch_trained_twice",
                f"steps {number - 1} and {number} are two runs of other fetches on the very same batch",
                "The script updates its weights in both: train on that batch twice. A port that only evaluates in the "
                "second run makes fewer updates.",
            )
        ]


def hazards_in_values(section: Section, tensors: Tensors) -> List[Hazard]:
    """Returns the list of `Hazard` that the numbers of one step show."""
    towers = [_batch(section, tensors, tower) for tower in range(len(section.towers))]
    if len(towers) < 2 or not towers[0] or any(set(batch) != set(towers[0]) for batch in towers):
        return []
    sizes = [[len(batch[name]) for batch in towers] for name in towers[0]]
    # THUMT cuts unevenly and averages without weights: every example of a small shard then counts more.
    uneven = next((each for each in sizes if len(set(each)) > 1), None)
    if uneven:
        return [
            Hazard(
                "uneven_shards",
                f"the towers get {', '.join(str(size) for size in uneven)} examples",
                "The mean over towers is not the mean over examples: weight every rank's loss as the script does.",
            )
        ]
    # JeremyTF's YOLO cuts [i : i + b] where [i * b : (i + 1) * b] was meant: neighbours share all but one example.
    shared = _shared_examples(towers[0], towers[1])
    if not shared or (shared == sizes[0][0] and cut_behind(section)):
        return []
    size = sizes[0][0]
    what = "get the very same batch" if shared == size else f"share {shared} of {size} examples"
    return [
        Hazard(
            "same_data" if shared == size else "overlapping_data",
            f"towers 0 and 1 {what} ({', '.join(sorted(towers[0]))})",
            "The towers do not see different shards of one batch: feed the ranks exactly as recorded.",
        )
    ]


def _batch(section: Section, tensors: Tensors, tower: int) -> Tensors:
    names = {each.name: section.prefix + trace_name("feed", each.name, tower=tower) for each in section.inputs[tower]}
    found = {name: tensors.get(key) for name, key in names.items()}
    return {name: value for name, value in found.items() if value is not None and np.ndim(value)}


def _shared_examples(one: Tensors, other: Tensors) -> int:
    names = sorted(one)
    size = len(one[names[0]])
    # Labels alone repeat by chance, floats do not.
    if any(len(batch[name]) != size for batch in (one, other) for name in names):
        return 0
    # Constant floats, as masks of ones, are shared by chance too.
    if not any(one[name].dtype.kind == "f" and np.ptp(one[name]) for name in names) and one[names[0]].ndim < 2:
        return 0

    def example(batch: Tensors, row: int) -> Tuple[bytes, ...]:
        return tuple(np.ascontiguousarray(batch[name][row]).tobytes() for name in names)

    seen = {example(other, row) for row in range(size)}
    return sum(example(one, row) in seen for row in range(size))


def _entry(section: Section, tensors: Tensors, tower: int, name: str) -> Optional[Array]:
    for quantity in ("tower_clip", "tower_grad"):
        value = tensors.get(section.prefix + trace_name(quantity, name, tower=tower))
        if value is not None:
            return np.asarray(value)
    return None
