"""Finds two bugs in one tensor: what an experiment leaves of a difference another one undoes, or a hypothesis explains."""

from parity.causes import Evidence, find_causes
from parity.judge.result import Cause, Check, FirstDifference
from parity.run.experiments.behind import allowed_at, next_difference
from parity.run.experiments.change import Undone
from parity.run.experiments.find import STALE, changes_to_try, undone
from parity.run.experiments.inputs import changes_of_the_inputs, changes_of_the_order
from parity.run.experiments.mended import mended
from parity.run.experiments.probes import Bench
from parity.run.experiments.repeats import RepeatsOnward
from parity.run.experiments.state import changes_of_the_flatten, changes_of_the_gates

# Those that explain all of a difference to rounding; the others would hold beside nearly anything.
EXACT = frozenset(["rectifier", "dropout_active", "bias_missing", "other_shard", "cross_entropy"])


def one_of_two(
    first: FirstDifference, again: RepeatsOnward, evidence: Evidence, checks: list[Check], name: str = ""
) -> tuple[Undone, Cause] | None:
    """Returns the change that leaves of the first difference what something else explains, and that cause; else None.

    Neither alone explains the difference: the change leaves some of it, and the other does not hold without the change. The
    other is a hypothesis, or a change of the weights beside one of the inputs.

    Args:
      first: the first difference, which nothing explains.
      again: runs steps of the recorded case once more.
      evidence: the float64 lockstep traces.
      checks: of level 1.
      name: of the cause that the change undoes, where that is known.
    """
    step, key = first.check.step, first.check.key
    allowed = allowed_at(step, checks)
    bench = Bench(first, again, evidence.join, evidence.reference, evidence.candidate)
    for change in (STALE, *changes_to_try(bench)):
        if name not in ("", change.name):
            continue
        undone = Undone(change.name, change.title, "", change.fix, change=change)
        basis = mended(first, undone, again, evidence)
        left = next_difference(basis.evidence, step, allowed, (first.quantity,)) if basis else None
        if basis is None or left is None:
            continue
        cause = next((each for each in find_causes(left, basis.evidence) if each.name in EXACT), None)
        if cause is not None:
            text = f"{change.what}, what is left of {key} is explained: {cause.title}; neither explains it alone"
            return Undone(change.name, change.title, text, change.fix, cause.explains, change), cause
    return _two_changes(bench, name)


def _two_changes(bench: Bench, name: str) -> tuple[Undone, Cause] | None:
    of_the_batch = [*changes_of_the_order(bench.recorder.towers), *changes_of_the_inputs(bench.batch)]
    of_the_state = [
        *changes_of_the_flatten(bench.first, bench.reference, bench.state),
        *changes_of_the_gates(bench.state),
    ]
    for one in [each for each in of_the_batch if name in ("", each.name)]:
        for other in of_the_state:
            both = one._replace(what=f"{one.what} and {other.what}", state=other.state)
            cause = undone(bench, both)
            if cause is not None:
                text = f"{cause.evidence}; neither does it alone"
                whole = cause.explains
                return (
                    Undone(one.name, one.title, text, one.fix, whole, both),
                    Cause(other.name, other.title, text, other.fix, whole),
                )
    return None
