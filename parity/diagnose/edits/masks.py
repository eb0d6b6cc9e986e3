"""Single changes of masks: inverted, turned, shifted, left out, or filled with another number."""

from collections.abc import Iterator

import numpy as np

from parity.diagnose.edits.edit import OTHER_OPERATION, At, Edit, is_mask, of_two_numbers, origin
from parity.diagnose.ops.forward_pass import RecomputedPass, Taken
from parity.diagnose.ops.rearranging import LAYOUTS
from parity.diagnose.ops.table import REDUCTIONS, computed, plain
from parity.trace.arrays import Array

DIAGONALS = (-1, 0, 1, 2)  # from which a mask of what comes after may begin: its own, one before, one and two behind
FILLING = frozenset(["select", "selectv2", "where"])
# What these take as whole numbers says which rows are meant, and masks nothing though there be only two of them.
LOOKUPS = ("gather", "resourcegather", "onehot", "one_hot", "embedding", "index_select")
COMPARED = {  # a mask may count its limit in or out
    "greater": "greaterequal",
    "greaterequal": "greater",
    "less": "lessequal",
    "lessequal": "less",
    "gt": "ge",
    "ge": "gt",
    "lt": "le",
    "le": "lt",
}


def mask_edits(at: At) -> Iterator[Edit]:
    """Yields the changes of what holds two numbers only: inverted, turned, shifted, or all of one of them."""
    for place, each in enumerate(at.taken):
        mask = each.value
        if at.kind in COMPARED or not mask.ndim or not of_two_numbers(mask):
            continue
        low, high = (mask.min(), mask.max())
        looked_up = at.kind.startswith(LOOKUPS) and mask.dtype.kind in "iu"
        divides = (at.kind, place) in (("div", 1), ("rdiv", 0))
        made_by = origin(at.run, each)
        if divides:
            # What is divided by is left out nowhere: the two numbers are two counts, or two sizes.
            counted = counts_things(at.run, each)
            name = at.by("loss_reduction", "reduction") if counted else at.by("loss_function", "scale")
            as_is, it, none = f"divides by what {made_by} gives", "divides by it", "divides by one number throughout"
        elif looked_up:
            # One row throughout is what is left of indices that are not used.
            name = "other_rows"
            as_is, it, none = f"takes the rows that {made_by} says", "takes the indices", "takes one row throughout"
        elif not is_mask(mask):
            # Nothing is taken away: two classes of things, each with a number of its own.
            name = at.by("loss_function", OTHER_OPERATION)
            as_is, it, none = f"takes the two numbers of {made_by}", "takes both", "takes one of them throughout"
        else:
            name = at.by("loss_reduction", "reduction") if at.kind in REDUCTIONS else "mask"  # what is counted
            as_is, it, none = f"takes the mask of {made_by}", "takes the mask", "takes no mask, or one of everything"
        ways = [(np.where(mask == low, high, low), f"{it} inverted")]
        # Square, as of positions by positions: along the other axis it is of queries for keys.
        if mask.ndim > 1 and mask.shape[-1] == mask.shape[-2]:
            ways.append((mask.swapaxes(-1, -2), f"{it} along the other axis"))
        ways += [(_shifted(mask, by), f"{it} a place {'later' if by > 0 else 'earlier'}") for by in (1, -1)]
        ways += [(np.full_like(mask, one), none) for one in (low, high)]
        ways += [(other, f"{it} from the diagonal {by:+d} on") for by, other in _triangles(mask)]
        for other, words in ways:
            ignored = looked_up and np.ptp(other) == 0
            yield from at.edit(at.instead(place, other), "input_ignored" if ignored else name, as_is, words)
    yield from _filled(at)
    if at.kind in COMPARED:
        other = COMPARED[at.kind]
        attributes = at.run.ops[at.number].attributes
        values = [each.value for each in at.taken] + [attributes[key] for key in ("1",) if key in attributes]
        yield from at.edit(computed(other, values, {}), "mask", f"compares by {at.kind}", f"compares by {other}")


def _triangles(mask: Array) -> Iterator[tuple[int, Array]]:
    """Yields masks of what comes after, that begin a place earlier or later, where a mask is one."""
    if mask.ndim < 2 or mask.shape[-1] != mask.shape[-2]:
        return
    low, high = mask.min(), mask.max()
    for one, other in ((low, high), (high, low)):
        made = {
            by: np.broadcast_to(np.where(np.triu(np.ones(mask.shape[-2:]), by) > 0, one, other), mask.shape)
            for by in DIAGONALS
        }
        if any(np.array_equal(each, mask) for each in made.values()):
            yield from ((by, each.astype(mask.dtype)) for by, each in made.items())


def _filled(at: At) -> Iterator[Edit]:
    """What a mask leaves out is replaced by another number."""
    for place, each in enumerate(at.taken if at.kind in FILLING else []):
        if each.source is None and each.value.size and each.value.dtype.kind == "f" and np.ptp(each.value) == 0.0:
            own = float(each.value.reshape(-1)[0])
            for other in at.near.numbers:
                made = at.instead(place, np.full_like(each.value, other)) if other != own else None
                yield from at.edit(made, "mask", f"fills what is masked with {own:.6g}", f"fills it with {other:.6g}")


def _shifted(mask: Array, by: int) -> Array:
    """A mask moved along its last axis; what comes in is what was at the border."""
    # The border is repeated: nothing is known of what lies beyond it.
    count = mask.shape[-1]
    return np.asarray(mask.take(np.clip(np.arange(count) - by, 0, count - 1), -1))


def counts_things(run: RecomputedPass, taken: Taken) -> bool:
    """Returns whether what is taken is a number of things: a sum, kept from being 0 where it may be."""
    number = taken.source
    while number is not None and plain(run.ops[number].kind) in ("maximum", "add", "clamp", *LAYOUTS):
        number = next(iter(run.ops[number].inputs), None)
    return number is not None and plain(run.ops[number].kind) == "sum"
