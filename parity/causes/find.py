"""Tries the hypotheses about a difference, and keeps those that the numbers support."""

from collections.abc import Callable
from dataclasses import replace

from parity.causes.activations import (
    activation_factor,
    activation_function,
    bias_missing,
    rectifier,
    reduced_precision,
)
from parity.causes.adadelta_and_ftrl import adadelta_epsilon, ftrl_setting
from parity.causes.aggregation import gradient_factor, loss_factor, not_shared, some_towers, sum_instead_of_mean
from parity.causes.averages import average_decay, stale_average
from parity.causes.clipping import clipped_before_combining, clipping_rule
from parity.causes.cross_entropy import cross_entropy_variant
from parity.causes.data import order_of_examples, other_shard, repeated_examples
from parity.causes.decay import weight_decay
from parity.causes.evaluation import averages_not_used
from parity.causes.evidence import Evidence
from parity.causes.gradients_used import gradients_used, left_over
from parity.causes.layers import (
    border,
    dropout_active,
    dropout_before_pooling,
    pooling,
    response_normalisation,
    rows_without_gradient,
    trained_twice,
)
from parity.causes.normalisation import normalisation
from parity.causes.not_finite import not_finite
from parity.causes.other_update import other_slot_of_updates, other_update
from parity.causes.schedule import other_rates, shifted_schedule, slow_schedule
from parity.causes.statistics import batch_norm_statistics, bias_before_norm, statistics_frozen
from parity.causes.updates import learning_rate_factor, not_updated, own_value, slot_decay, slot_initial_value
from parity.judge.result import Cause, Explained, FirstDifference

# The more a hypothesis has to say exactly, the earlier it comes: the first that holds is the first that is named.
HYPOTHESES: tuple[Callable[[FirstDifference, Evidence], Cause | None], ...] = (
    not_shared,
    other_shard,
    order_of_examples,
    repeated_examples,
    rectifier,
    dropout_active,
    reduced_precision,
    activation_factor,
    activation_function,
    bias_missing,
    normalisation,
    border,
    pooling,
    dropout_before_pooling,
    response_normalisation,
    rows_without_gradient,
    clipped_before_combining,
    sum_instead_of_mean,
    some_towers,
    loss_factor,
    cross_entropy_variant,
    gradient_factor,
    weight_decay,
    left_over,
    trained_twice,
    clipping_rule,
    stale_average,
    average_decay,
    averages_not_used,
    statistics_frozen,
    bias_before_norm,
    batch_norm_statistics,
    not_updated,
    slot_decay,
    other_slot_of_updates,
    adadelta_epsilon,
    ftrl_setting,
    gradients_used,
    other_update,
    shifted_schedule,
    slow_schedule,
    other_rates,
    learning_rate_factor,
)


# What always holds beside something more exact, and is said only where nothing more exact is found.
GENERAL = frozenset(
    [
        "order_of_examples",
        "repeated_examples",
        "dropout_active",
        "activation_factor",
        "activation_function",
        "normalisation",
        "gradient_factor",
        "batch_norm_momentum",
        "learning_rate",
    ]
)


# What says where the trouble is rather than what it is: an experiment may know better.
VAGUE = frozenset(["border", "activation_factor", "moved_values", "not_finite", "other_operation"])


def find_causes(first: FirstDifference, evidence: Evidence) -> list[Cause]:
    """Returns the causes that the numbers support, best first."""
    if first.check.run == "fresh":
        return [told_of(first, slot_initial_value(first) if first.quantity == "slot" else own_value(first))]
    first_step = evidence.reference.step_numbers[0]
    if first.check.run != "lockstep" and (evidence.states is not None or first.check.step != first_step):
        return []  # after a step that already differed nothing can be told apart
    infinite = not_finite(first, evidence)
    if infinite is not None:
        return [told_of(first, infinite)]  # no number to test anything on
    causes: list[Cause] = []
    for hypothesis in HYPOTHESES:
        cause = hypothesis(first, evidence)
        if cause is not None and not (causes and cause.name in GENERAL):
            causes.append(cause)
    return [told_of(first, cause) for cause in sorted(causes, key=lambda cause: cause.name in VAGUE)]


def told_of(first: FirstDifference, cause: Cause) -> Cause:
    """Returns a cause with the difference that it was found to explain, where it does not say so itself."""
    return cause if cause.explains else replace(cause, explains=Explained(first.check.step, first.check.key))
