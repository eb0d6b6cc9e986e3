"""Works out, from what an optimizer did, the gradient it must have been given."""

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from parity.diagnose.agreement import EMPTY_GRADIENT, Fit, fit
from parity.diagnose.evidence import Evidence, once_of_a_step
from parity.diagnose.fitting import RESIDUAL_OF_RULE
from parity.judge.metrics import norm
from parity.trace.arrays import Array

# Of what squares of a slot hold beside g^2: (g + d w)^2 - g^2 = 2 d g w + d^2 w^2 is a small part of the squares, and
# keeps fewer digits than they do.
RESIDUAL_OF_DECAY = 1e-5
# Of a weight: where it is moved by less, storing the weight (u64 = 1.1e-16 of it) rounds the move by more than 1e-10,
# too much for a rule that has to hold to RESIDUAL_OF_RULE with room for a sum of many variables.
LEAST_MOVE = 1e-6


class Input(NamedTuple):
    """The gradient of one variable.

    Fields:
      name: the variable.
      gradient: what the reference's optimizer was given, float64 of the variable's shape.
      used: what the candidate's optimizer must have been given, of the same shape.
    """

    name: str
    gradient: Array
    used: Array


class SlotRule(NamedTuple):
    """How a slot moves: ``slot' = keep * slot + take * gradient ** power``.

    Fields:
      keep, take: the coefficients.
      power: 1 or 2.
    """

    keep: float
    take: float
    power: int


def slot_rule(
    evidence: Evidence,
    step: int,
    slot: str,
    candidate: bool,
    only: Collection[str] | None = None,
    decays: bool = False,
) -> SlotRule | None:
    """Reads a slot's rule off one side, or returns None where it is no such rule, or not the same for all variables.

    Args:
      evidence: the traces.
      step: its number.
      slot: its name.
      candidate: whether of the candidate.
      only: the variables to look at; all by default.
      decays: whether a share of each weight may be added to its gradient.
    """
    gradients = evidence.applied(step)
    moved = [each for each in evidence.pairs(step, "slot", slot) if each[0] in (gradients if only is None else only)]
    moved = [each for each in moved if each[0] in gradients]
    # With a decay the square of the sum has three columns, which `_of_squares` fits: here only what is linear.
    for power in (1,) if decays else (1, 2):
        columns, targets = [], []
        for name, one, other in moved:
            before = evidence.before(step, "slot", name, slot)
            if before is None:
                return None
            weight = evidence.before(step, "var", name) if decays else None
            if decays and weight is None:
                return None
            # One row of coefficients for all variables: an optimizer has one rule, and two unknowns need many elements.
            columns.append([before, gradients[name][candidate] ** power, *([weight] if weight is not None else [])])
            targets.append(other if candidate else one)
        found = fit(columns, targets) if targets else None
        if found is not None and found.residual <= RESIDUAL_OF_RULE:
            keep, take, *_ = found.coefficients
            return SlotRule(keep, take, power)
    return None


@once_of_a_step
def linear_slot(evidence: Evidence, step: int) -> tuple[str, SlotRule] | None:
    """Returns the reference's slot that is linear in the gradient (momentum, Adam's m), with its rule."""
    for slot in evidence.slots(step):
        rule = slot_rule(evidence, step, slot, candidate=False)
        if rule is not None and rule.power == 1 and rule.take:
            return slot, rule
    return None


@once_of_a_step
def optimizer_inputs(evidence: Evidence, step: int) -> list[Input] | None:
    """Returns for every variable the gradient that explains what the candidate's optimizer did, by the reference's rule.

    Where a slot is linear in the gradient it is read off that, else off one of squares; of plain gradient descent off the
    update. Else None.
    """
    gradients = {name: one for name, (one, _) in evidence.applied(step).items()}
    largest = max((norm(one) for one in gradients.values()), default=0.0)
    # What such a gradient is, no slot can say: rounding of the slot is larger than what moved it.
    empty = {name for name, one in gradients.items() if norm(one) <= EMPTY_GRADIENT * largest}
    found = linear_slot(evidence, step)
    inputs = []
    if found is not None:
        slot, rule = found
        for name, _, other in evidence.pairs(step, "slot", slot):
            if name in empty:
                continue
            before = evidence.before(step, "slot", name, slot)
            if before is None or name not in gradients:
                return None
            # slot' = keep slot + take g, solved for g.
            inputs.append(Input(name, gradients[name], (other - rule.keep * before) / rule.take))
        return inputs
    if evidence.slots(step):
        return _of_squares(evidence, step, gradients, empty)
    rate = _rate(evidence, step, gradients)
    if rate is None:
        return None
    # By the candidate's own rate: where a schedule is another one, its gradients are not.
    mine, theirs = evidence.learning_rate(step), evidence.candidate_rate(step)
    rate *= theirs / mine if mine and theirs and theirs / mine > 0.0 else 1.0
    for name, _, other in evidence.pairs(step, "var"):
        if name in empty:
            continue
        before = evidence.before(step, "var", name)
        if before is None or name not in gradients:
            return None
        inputs.append(Input(name, gradients[name], (before - other) / rate))
    return inputs


def _of_squares(
    evidence: Evidence, step: int, gradients: dict[str, Array], empty: Collection[str]
) -> list[Input] | None:
    # A slot of squares tells the sizes; the signs are the gradient's, or those that a decay of the weights gives them.
    rules = {slot: slot_rule(evidence, step, slot, candidate=False) for slot in evidence.slots(step)}
    slot, rule = next(((s, r) for s, r in rules.items() if r is not None and r.power == 2), ("", None))
    if rule is None or not rule.take:
        return None
    inputs = []
    for name, _, other in evidence.pairs(step, "slot", slot):
        before, weight = evidence.before(step, "slot", name, slot), evidence.before(step, "var", name)
        if name in empty:
            continue
        if before is None or weight is None or name not in gradients:
            return None
        # v' = keep v + take g^2, solved for g^2; rounding may leave it just below 0 where g is 0.
        squares, gradient = np.maximum((other - rule.keep * before) / rule.take, 0.0), gradients[name]
        # (g + d w)^2 = g^2 + d 2 g w + d^2 w^2: the first coefficient is d.
        decay = fit([[2 * gradient * weight, weight**2]], [squares - gradient**2])
        added = decay.coefficients[0] * weight if decay is not None and decay.residual <= RESIDUAL_OF_DECAY else 0.0
        inputs.append(Input(name, gradient, np.sqrt(squares) * np.sign(gradient + added)))
    return inputs


def _rate(evidence: Evidence, step: int, gradients: dict[str, Array]) -> float | None:
    columns, targets = [], []
    for name, one, _ in evidence.pairs(step, "var"):
        before = evidence.before(step, "var", name)
        # Storing a weight rounds its update: what is left of it beside the weight decides what can be told.
        if before is not None and name in gradients and norm(one - before) > LEAST_MOVE * norm(before):
            columns.append([gradients[name]])
            targets.append(before - one)
    found: Fit | None = fit(columns, targets) if targets else None
    if found is None or found.residual > RESIDUAL_OF_RULE or not np.isfinite(found.coefficients[0]):
        return None
    return found.coefficients[0] or None
