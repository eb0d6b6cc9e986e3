"""Runs the detectors: first for the cause of a difference, then for causes that the first difference does not explain."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from parity.diagnose.catalogue import CAUSES, Trait, causes_with, is_place_only
from parity.diagnose.detectors.aggregation import (
    gradient_factor,
    loss_factor,
    not_shared,
    some_towers,
    sum_instead_of_mean,
)
from parity.diagnose.detectors.clipping import clipped_before_combining, clipping_rule, weight_limit
from parity.diagnose.detectors.clipping_place import clipped_elsewhere
from parity.diagnose.detectors.cross_entropy import cross_entropy_variant
from parity.diagnose.detectors.forward import (
    activation_factor,
    activation_function,
    bias_missing,
    normalisation,
    rectifier,
    reduced_precision,
)
from parity.diagnose.detectors.gradient_model import gradients_at_once
from parity.diagnose.detectors.inputs import order_of_examples, other_shard, repeated_examples
from parity.diagnose.detectors.layers import (
    border,
    dropout_active,
    dropout_before_pooling,
    pooling,
    response_normalisation,
    rows_without_gradient,
    trained_twice,
)
from parity.diagnose.detectors.not_finite import not_finite
from parity.diagnose.detectors.single_towers import lost_in_some_towers, parted_when_free
from parity.diagnose.detectors.stages import STAGES, OwnInputs, rule_of
from parity.diagnose.detectors.statistics import (
    average_decay,
    averages_not_used,
    batch_norm_statistics,
    bias_before_norm,
    stale_average,
    statistics_frozen,
)
from parity.diagnose.detectors.updates.formula import other_update
from parity.diagnose.detectors.updates.model import updates_at_once
from parity.diagnose.detectors.updates.optimizer_gradients import gradients_used, left_over
from parity.diagnose.detectors.updates.rmsprop_adadelta_ftrl import (
    adadelta_epsilon,
    ftrl_setting,
    other_slot_of_updates,
)
from parity.diagnose.detectors.updates.rule import (
    learning_rate_factor,
    not_updated,
    own_value,
    slot_decay,
    slot_initial_value,
)
from parity.diagnose.detectors.updates.schedule import other_rates, shifted_schedule, slow_schedule
from parity.diagnose.detectors.weight_decay import weight_decay
from parity.diagnose.evidence import Evidence
from parity.judge.judge import Allowed, MeasuredPair, TensorPair, first_beyond
from parity.judge.metrics import worst
from parity.judge.result import Cause, Check, Explained, FirstDifference
from parity.trace import EXECUTION_RANK, TensorKey, key_of, parse_key

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
    clipped_elsewhere,
    sum_instead_of_mean,
    some_towers,
    lost_in_some_towers,
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
    weight_limit,
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


def find_causes(first: FirstDifference, evidence: Evidence) -> list[Cause]:
    """Returns the causes that the numbers support, best first."""
    if first.check.run == "fresh":
        return [told_of(first, slot_initial_value(first) if first.quantity == "slot" else own_value(first))]
    first_step = evidence.reference.step_numbers[0]
    if first.check.run != "lockstep" and (evidence.states is not None or first.check.step != first_step):
        # After a step that already differed nothing else can be told apart.
        parted = parted_when_free(first, evidence)
        return [told_of(first, parted)] if parted else []
    infinite = not_finite(first, evidence)
    if infinite is not None:
        return [told_of(first, infinite)]  # no number to test anything on
    own = evidence.of_optimizer(first)
    causes: list[Cause] = []
    # All are asked, not only up to the first that holds: several may be true, and are named in this order.
    for hypothesis in HYPOTHESES:
        cause = hypothesis(first, own)
        if cause is not None and not (causes and cause.name in causes_with(Trait.ONLY_ALONE)):
            causes.append(_of_optimizer(cause, own))
    return [told_of(first, cause) for cause in sorted(causes, key=lambda cause: is_place_only(cause.name))]


def told_of(first: FirstDifference, cause: Cause) -> Cause:
    """Returns a cause with the difference that it was found to explain, where it does not say so itself."""
    return cause if cause.explains else replace(cause, explains=Explained(first.check.step, first.check.key))


def _of_optimizer(cause: Cause, evidence: Evidence) -> Cause:
    if evidence.section is None:
        return cause
    which = f"the optimizer {evidence.section}" if evidence.section else "the first optimizer"
    return replace(cause, evidence=f"{cause.evidence}; what differs is of {which}")


# Of what an update moves, judged by the candidate's own inputs: `RESIDUAL_OF_RULE` of fitting.py, for its rule is fitted.
TOLD = 1e-7


def find_further(
    first: FirstDifference, known: Sequence[Cause], evidence: Evidence, checks: Sequence[Check]
) -> list[Cause]:
    """Returns the causes of differences that are none of the first one's consequences, each once.

    Three kinds of tensor are not touched by a bug at the first difference. Those that a step computes before it: in lockstep
    every step starts from the reference's state, so an earlier quantity of a later step that differs has a cause of its
    own. Losses and gradients, where it is a moving statistic, which training does not use. And those of a later stage once
    it is judged by its own inputs (`OwnInputs`).

    Args:
      first: the first difference.
      known: what is named already.
      evidence: the traces.
      checks: of level 1.
    """
    found: list[Cause] = []
    names = {cause.name for cause in known}
    for cause in _all(first, evidence, checks):
        if cause.name not in names and not follows(cause, names):
            names.add(cause.name)
            found.append(cause)
    step = first.check.step
    of_each = evidence.by_optimizer(step) if first.check.run == "lockstep" else []
    together = [
        cause
        for own in of_each
        for cause in _told((_of_optimizer(each, own) for each in updates_at_once(own, step)), step, "the updates")
    ]
    # Fitted together with another beta nothing follows from it any more.
    fitted = names - {"adam_beta"}
    doubted = {
        name for known in names for name in CAUSES[known].doubts
    }  # the rate of what trains twice is twice as large
    found += [cause for cause in together if cause.name not in names | doubted and not follows(cause, fitted)]
    return found


def follows(cause: Cause, names: Iterable[str]) -> bool:
    """Returns whether a cause follows from one of some others, by the catalogue."""
    return any(cause.name in CAUSES[name].implies for name in names)


def first_in_lockstep(evidence: Evidence, checks: Sequence[Check]) -> FirstDifference | None:
    """Returns the first tensor that differs in lockstep, whatever differed before any step; None where none does."""
    check = next((each for each in checks if each.run == "lockstep" and each.verdict == "different"), None)
    return None if check is None else _difference(parse_key(check.key), check, evidence)


def _all(first: FirstDifference, evidence: Evidence, checks: Sequence[Check]) -> Iterator[Cause]:
    if first.check.run == "lockstep":
        # That the ranks end a step with different weights no other bug explains, wherever the first difference is.
        alone = not_shared(replace(first, quantity="grad", check=first.check._replace(key="the gradients")), evidence)
        yield from _told([alone] if alone else [], first.check.step, "the gradients")
    if first.check.run == "lockstep" and first.quantity in ("stat", "loss", "tower_grad"):
        # What an earlier step leaves behind shows in the second step at the earliest.
        for step in evidence.steps[:2]:
            yield from _told(gradients_at_once(evidence, step), step, "the gradients")
    for other, basis in (*_before(first, evidence, checks), *_after(first, evidence)):
        yield from find_causes(other, basis)[:1]


def _told(causes: Iterable[Cause], step: int, what: str) -> list[Cause]:
    return [replace(cause, explains=Explained(step, what)) for cause in causes]


def _before(
    first: FirstDifference, evidence: Evidence, checks: Sequence[Check]
) -> Iterator[tuple[FirstDifference, Evidence]]:
    seen: set[str] = set()
    for check in checks:
        key = parse_key(check.key)
        independent = (
            first.check.run != "lockstep"
            or (check.step != first.check.step and EXECUTION_RANK[key.quantity] < EXECUTION_RANK[first.quantity])
            or (first.quantity == "stat" and key.quantity in ("loss", "tower_grad"))
        )
        if check.run != "lockstep" or check.verdict != "different" or not independent or key.quantity in seen:
            continue
        # The first tensor of a quantity stands for the others, which follow from it.
        seen.add(key.quantity)
        yield _difference(key, check, evidence), evidence
        if first.check.run != "lockstep":
            return


def _after(first: FirstDifference, evidence: Evidence) -> Iterator[tuple[FirstDifference, Evidence]]:
    if first.check.run != "lockstep":
        return
    for step in evidence.steps:
        for quantity in STAGES:
            # A stage in front of the first difference is the same; one behind it is judged by what the candidate gave
            # into it.
            if EXECUTION_RANK[quantity] < EXECUTION_RANK[first.quantity]:
                continue
            if quantity == "clip" != first.quantity:
                yield from _unclipped(evidence, step)
            for own in evidence.by_optimizer(step) if quantity in ("slot", "var") else [evidence]:
                yield from _after_stage(first, own, step, quantity)


def _after_stage(
    first: FirstDifference, evidence: Evidence, step: int, quantity: str
) -> Iterator[tuple[FirstDifference, Evidence]]:
    basis = OwnInputs(
        evidence.join,
        evidence.reference,
        evidence.candidate,
        evidence.states,
        evidence.towers,
        quantity,
        section=evidence.section,
    )
    of_first = evidence.is_whole or evidence.whole.of_optimizer(first).section == evidence.section
    for slot in evidence.slots(step) if quantity == "slot" else [""]:
        same_stage = of_first and quantity == first.quantity and parse_key(first.check.key).slot == slot
        if not same_stage and rule_of(evidence, step, quantity, slot) is not None:
            yield from _first_of(basis, step, quantity, slot)


def _unclipped(evidence: Evidence, step: int) -> Iterator[tuple[FirstDifference, Evidence]]:
    clipped = next(iter(evidence.reference.step(step).keys("clip")), None)
    if clipped is not None and not any(True for _ in evidence.pairs(step, "clip")):
        check = Check("lockstep", step, str(clipped), "incomparable", note="the candidate has no such tensor")
        yield FirstDifference(check, "clip", clipped.name, "", None), evidence


def _first_of(basis: OwnInputs, step: int, quantity: str, slot: str) -> Iterator[tuple[FirstDifference, Evidence]]:
    found = first_beyond("lockstep", _of_stage(basis, step, quantity, slot), _beside_rounding)
    if found is not None:
        check, (_, key, _, made, other, *_) = found
        yield FirstDifference(check, key.quantity, key.name, "", worst(made, other)), basis


def _of_stage(basis: OwnInputs, step: int, quantity: str, slot: str) -> Iterator[TensorPair]:
    for name, made, other in basis.pairs(step, quantity, slot):
        before = basis.before(step, quantity, name, slot) if quantity in ("var", "ema") else None
        key = key_of(quantity, name, slot=slot, section=(basis.section or "") if slot else "")
        yield TensorPair(step, key, str(key), made, other, before)


def _beside_rounding(pair: MeasuredPair) -> Allowed:
    # A weight that hardly moves is rounded by some u64 of its own size, whatever its move: 1e-14 of it is `ROUNDING`.
    return Allowed(TOLD * pair.moved + 1e-14 * pair.size, pair.moved)


def _difference(key: TensorKey, check: Check, evidence: Evidence) -> FirstDifference:
    one = evidence.reference.step(check.step).read(check.key)
    other = evidence.join.read(key, evidence.candidate.step(check.step))
    shown = worst(one, other) if other is not None and other.shape == one.shape else None
    return FirstDifference(check, key.quantity, key.name, key.tower, shown)
