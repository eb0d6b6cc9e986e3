"""Finds two bugs in one tensor: what an experiment leaves of a difference may be what a hypothesis explains."""

from parity.causes import Evidence, find_causes
from parity.judge.result import Cause, Check, FirstDifference
from parity.run.experiments.behind import allowed_at, next_difference
from parity.run.experiments.change import Undone
from parity.run.experiments.find import STALE, changes_to_try
from parity.run.experiments.mended import mended
from parity.run.experiments.probes import Bench
from parity.run.experiments.repeats import RepeatsOnward

# Those that explain all of a difference to rounding; the others would hold beside nearly anything.
EXACT = frozenset(["rectifier", "dropout_active", "bias_missing", "other_shard", "cross_entropy"])


def one_of_two(
    first: FirstDifference, again: RepeatsOnward, evidence: Evidence, checks: list[Check]
) -> tuple[Undone, Cause] | None:
    """Returns the change that leaves of the first difference what a hypothesis explains, and that cause; None if none does.

    Neither alone explains the difference: the change leaves some of it, and the hypothesis does not hold without the change.

    Args:
      first: the first difference, which nothing explains.
      again: runs steps of the recorded case once more.
      evidence: the float64 lockstep traces.
      checks: of level 1.
    """
    step, key = first.check.step, first.check.key
    allowed = allowed_at(step, checks)
    bench = Bench(first, again, evidence.join, evidence.reference, evidence.candidate)
    for change in (STALE, *changes_to_try(bench)):
        undone = Undone(change.name, change.title, "", change.fix, change)
        basis = mended(first, undone, again, evidence)
        left = next_difference(basis.evidence, step, allowed, (first.quantity,)) if basis else None
        if basis is None or left is None:
            continue
        cause = next((each for each in find_causes(left, basis.evidence) if each.name in EXACT), None)
        if cause is not None:
            text = f"{change.what}, what is left of {key} is explained: {cause.title}; neither explains it alone"
            return Undone(change.name, change.title, text, change.fix, change), cause
    return None
