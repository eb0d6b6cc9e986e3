"""Builds a level from its checks: the verdict, the sentence that gives its reason, and where it differs first."""

from collections.abc import Mapping, Sequence

from parity.judge.metrics import worst
from parity.judge.result import Cause, Check, FirstDifference, Level, Verdict, decide, what_differs
from parity.mapping.trace_map import Join
from parity.trace import TensorFile, Trace, parse_key

RANKS_APART = "the ranks hold different weights: some gradient or update is not shared between them"
# As sides come to differ: what an optimizer begins with decides all behind it, and a free run follows from lockstep.
RUN_ORDER = ("fresh", "init", "lockstep", "free", "train")
BETWEEN_TRACES = "{judged:,} tensors; at most {highest:.2g} of the tolerance, {scale:.1g} of the scale"


def level_from(
    name: str,
    checks: Sequence[Check],
    reason: str,
    *,
    first: FirstDifference | None = None,
    causes: Sequence[Cause] = (),
    notes: Sequence[str] = (),
    verdict: Verdict | None = None,
    ranks_agree: bool = True,
) -> Level:
    """Returns the verdict of one level.

    Args:
      name: "function", "float32", "trajectory" or "mixed".
      checks: of the level, in execution order.
      reason: one sentence, see `reason_from`.
      first: where it differs first, see `first_difference`.
      causes: hypotheses that hold, best first.
      notes: facts that the verdict rests on.
      verdict: where something else than the checks decides; by default they do.
      ranks_agree: whether the candidate's ranks end each step with the same weights. Where they do not, one rank's
        alone are judged: the level is different whatever its checks say.
    """
    told = [*([] if ranks_agree else [RANKS_APART]), *notes]
    # One rank's weights are judged: right ones there prove nothing of the other ranks'.
    decided = (verdict or decide(checks)) if ranks_agree else "different"
    return Level(name, decided, reason, checks, first, causes, told)


def reason_from(checks: Sequence[Check], words: str = BETWEEN_TRACES) -> str:
    """Returns how many tensors are not the same, or in words how near the others come to what is allowed.

    Args:
      checks: of the level.
      words: with places for `judged`, how many tensors were; `highest`, the largest difference in multiples of what is
        allowed; `scale`, the same in units of the scale.
    """
    judged = [check for check in checks if check.verdict != "not_run"]
    # How much of the tolerance right ports use is worth knowing: one at 0.9 is near to being called different.
    highest = max((check.multiple for check in judged), default=0.0)
    scale = max((check.of_scale for check in judged), default=0.0)
    return what_differs(checks) or words.format(judged=len(judged), highest=highest, scale=scale)


def first_difference(
    join: Join, checks: Sequence[Check], traces: Mapping[str, tuple[Trace, Trace]]
) -> FirstDifference | None:
    """Returns the first tensor that is not the same: the checks come in the order of the steps and of computation.

    Args:
      join: names and layouts.
      checks: of a level.
      traces: of each run, reference and candidate. A run without traces, as of what sides start from by themselves, has
        nothing to show.
    """
    # Also what cannot be compared: behind a missing tensor all else may follow from that.
    found = [check for check in checks if check.verdict in ("different", "incomparable")]
    return shown(join, min(found, key=lambda each: RUN_ORDER.index(each.run)), traces) if found else None


def shown(join: Join | None, check: Check, traces: Mapping[str, tuple[Trace, Trace]]) -> FirstDifference:
    """Returns the difference that a check is of, with the element that differs most where both traces hold it.

    Args:
      join: names and layouts; None where both sides have the same.
      check: the judged tensor.
      traces: of each run, reference and candidate.
    """
    key = parse_key(check.key)
    files = [_file(trace, check) for trace in traces.get(check.run, ())]
    if not files or files[0] is None or files[1] is None or check.key not in files[0]:
        # What a side starts from by itself, and what one of them lacks, has no element to show.
        return FirstDifference(check, key.quantity, key.name, key.tower, None)
    one, other_file = files[0].read(check.key), files[1]
    if join is not None:
        other = join.read(key, other_file)
    else:
        other = other_file.read(check.key) if check.key in other_file else None
    # Of two shapes no element is the same one.
    alike = other is not None and one.shape == other.shape
    element = worst(one, other) if other is not None and alike else None
    return FirstDifference(check, key.quantity, key.name, key.tower, element)


def _file(trace: Trace, check: Check) -> TensorFile | None:
    # The state after loading has no step.
    if check.run == "init":
        return trace.init()
    return trace.step(check.step) if check.step in trace.step_numbers else None
