"""Where two forward passes part behind numbers that stand in other places on one side: all of them are moved at once.

A layer that is called for several maps moves the numbers of each, and what is made of one of them alone shows nothing. The
control is the reference's pass with the port's places in all of them: it has to give the port's loss.
"""

import numpy as np

from parity.diagnose.catalogue import build_cause
from parity.diagnose.edits.search import CLOSE_LOSS
from parity.diagnose.fitting import different_numbers
from parity.diagnose.ops.forward_pass import RecomputedPass
from parity.diagnose.ops.table import plain
from parity.judge.result import Cause
from parity.locate import Location
from parity.locate.downstream import active, losses_of
from parity.locate.layouts import align
from parity.locate.rearranged import CLOSE_IN_LAYOUT, FEWEST_MOVED
from parity.trace.arrays import Array

MOST_OUTPUTS_MOVED = 12
MOST_RECOMPUTED = 400  # ops behind them


def cause_of_moves(place: Location) -> Cause | None:
    """Returns the cause where outputs of the reference, in the places of the port's, give the port's loss; else None.

    Args:
      place: where the passes part.
    """
    reference, candidate = place.passes
    moved = _moved(place)
    ends = [losses_of(passed.ops)[-1] for passed in place.passes]
    wanted, own = candidate.value(ends[1]), reference.value(ends[0])
    if not moved or wanted is None or own is None or wanted.size != 1 or own.size != 1:
        return None
    made = dict(RecomputedPass(reference).after(moved, MOST_RECOMPUTED)).get(ends[0])
    there, here = float(wanted.reshape(())), float(own.reshape(()))
    if made is None or made.size != 1 or abs(there - here) <= CLOSE_IN_LAYOUT * abs(there):
        return None
    if abs(float(made.reshape(())) - there) > CLOSE_LOSS * abs(there):
        return None
    lines = [
        line.alone
        for passed, numbers in (
            (candidate, [place.reached.reference[each] for each in moved]),
            (reference, list(moved)),
        )
        if (line := passed.ops[numbers[0]].line) is not None
    ]
    kind = " and ".join(dict.fromkeys(plain(reference.ops[each].kind) for each in moved))
    evidence = (
        f"both sides have the same {sum(each.size for each in moved.values()):,} numbers, under no order of axes in the "
        "same places; with the port's places the reference's pass gives the port's loss, to rounding"
    )
    return build_cause("moved_values", "op", evidence=evidence, kind=kind, lines=" / ".join(lines))


def _moved(place: Location) -> dict[int, Array]:
    """By op of the reference the numbers that it gives, in the places that they have in the port; of outputs the first."""
    reference, candidate = place.passes
    of_weights, found, behind = active(reference.ops), dict[int, Array](), set[int]()
    for number, op in enumerate(reference.ops):
        if behind & set(op.inputs):
            behind.add(number)
            continue
        partner = place.reached.reference.get(number) if number in of_weights else None
        own = reference.value(number) if partner is not None else None
        other = candidate.value(partner) if partner is not None else None
        if own is None or other is None or own.dtype.kind != "f" or different_numbers(own) < FEWEST_MOVED:
            continue
        pair = align(own, np.asarray(other))
        if pair is not None and pair.apart > CLOSE_IN_LAYOUT:
            found[number] = pair.candidate
            behind.add(number)
    return found if len(found) <= MOST_OUTPUTS_MOVED else {}
