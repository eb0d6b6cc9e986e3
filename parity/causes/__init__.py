"""Names the cause of a difference: hypotheses tested against the traces, and only those kept that the numbers support."""

from collections.abc import Callable

from parity.causes.aggregation import sum_instead_of_mean
from parity.causes.evidence import Evidence as Evidence
from parity.causes.statistics import batch_norm_statistics
from parity.causes.updates import adam_epsilon, learning_rate_factor
from parity.judge.result import Cause, FirstDifference

HYPOTHESES: tuple[Callable[[FirstDifference, Evidence], Cause | None], ...] = (
    sum_instead_of_mean,
    batch_norm_statistics,
    adam_epsilon,
    learning_rate_factor,
)


def find_causes(first: FirstDifference, evidence: Evidence) -> list[Cause]:
    """Returns the causes that the numbers support, best first."""
    first_step = evidence.reference.step_numbers[0]
    if first.check.run != "lockstep" and (evidence.states is not None or first.check.step != first_step):
        return []  # after a step that already differed nothing can be told apart
    found = [hypothesis(first, evidence) for hypothesis in HYPOTHESES]
    return [cause for cause in found if cause]
