"""Causes between the combined gradient and the optimizer: what it was given is not what was computed."""

import numpy as np

from parity.diagnose.agreement import LEFT, common_factor, fit, rounds_to_one
from parity.diagnose.catalogue import build_cause
from parity.diagnose.detectors.clipping import by_value
from parity.diagnose.evidence import Evidence
from parity.diagnose.fitting import CLOSE_DERIVED
from parity.diagnose.optimizer_input import Input, linear_slot, optimizer_inputs, slot_rule
from parity.judge.metrics import norm
from parity.judge.result import Cause, FirstDifference
from parity.trace.arrays import Array


def gradients_used(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """The optimizer works with another gradient than the combined one: negated, scaled, clipped."""
    step = first.check.step
    # Where slots are recorded the difference begins in one of them: a move that differs alone is the rule's, not its
    # input's.
    if first.quantity not in ("slot", "var") or (first.quantity == "var" and evidence.slots(step)):
        return None
    inputs = optimizer_inputs(evidence, step)
    if not inputs:
        return None
    # CLOSE_DERIVED, since `used` is solved for from a slot: (slot' - keep slot) / take, one cancellation and one
    # division.
    changed = [each for each in inputs if norm(each.used - each.gradient) > CLOSE_DERIVED * norm(each.gradient)]
    found = linear_slot(evidence, step)
    # 0 without a linear slot: then no dampening of a momentum can be what a factor stands for.
    keep = found[1].keep if found else 0.0
    # One norm at all steps first: as a factor it would be another one in every step.
    cause = _to_one_norm(evidence) or _factor(inputs, changed, dampened_shares(evidence, keep), _steady(evidence))
    return cause or _clipped_by_norm(inputs, changed) or _clipped_by_value(inputs, changed)


def left_over(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """A gradient of the step before is still in this one."""
    step = first.check.step
    if first.quantity not in ("tower_grad", "grad", "slot", "var") or step - 1 not in evidence.steps:
        return None
    if first.quantity in ("slot", "var") and not _is_no_other_share(first, evidence):
        return None
    # The reference's, once combined: what a port forgets to clear is what it had, which in lockstep is that to
    # rounding.
    earlier = {name: one for name, one, _ in evidence.pairs(step - 1, "grad")}
    if first.quantity in ("tower_grad", "grad"):
        pairs = [
            (name, one, other)
            for name, one, other in evidence.pairs(step, first.quantity, "", first.tower)
            if name in earlier
        ]
    else:
        pairs = [each for each in optimizer_inputs(evidence, step) or [] if each.name in earlier]
    # used = a g + b g_before, two numbers over all elements of all variables.
    found = fit([[one, earlier[name]] for name, one, _ in pairs], [other for _, _, other in pairs]) if pairs else None
    # b = 0 leaves a factor of this step's gradient alone, which other detectors name.
    if found is None or found.residual > CLOSE_DERIVED or abs(found.coefficients[1]) <= CLOSE_DERIVED:
        return None
    # Norms over all variables together; what is left has to be small beside what differs, as in `explained`.
    apart = float(np.sqrt(sum(norm(other - one) ** 2 for _, one, other in pairs)))
    if found.residual * float(np.sqrt(sum(norm(other) ** 2 for _, _, other in pairs))) > LEFT * apart:
        return None
    now, before = found.coefficients
    return build_cause(
        "stale_gradient",
        evidence=f"the candidate's gradient at step {step} is {now:.6g} times the reference's plus {before:.6g} "
        "times that of step "
        f"{step - 1}",
    )


def _is_no_other_share(first: FirstDifference, evidence: Evidence) -> bool:
    """Whether an earlier gradient that is left over is no other share of a slot: one that began empty holds nothing else."""
    found = linear_slot(evidence, first.check.step)
    if found is None:
        return True
    # From the first difference on: earlier steps agree, and so cannot tell what a share became.
    steps = [step for step in evidence.steps if step >= first.check.step and step - 1 in evidence.steps]
    rules = [slot_rule(evidence, step, found[0], candidate=True) for step in steps]
    keeps = [rule.keep for rule in rules if rule is not None]
    # The reference's own share is no other one: then it is the gradient that is another.
    own = bool(keeps) and all(abs(each - found[1].keep) <= CLOSE_DERIVED for each in keeps)
    # A momentum keeps between 0 and 1 of itself: anything else, or no linear rule at some step, is no other share.
    return own or len(keeps) < len(rules) or not all(0.0 <= each <= 1.0 for each in keeps)


def _steady(evidence: Evidence) -> bool | None:
    # A limit makes another factor of every norm: one factor at all steps, of gradients of several norms, is none's.
    if len(evidence.steps) < 2:
        return None  # one step tells neither
    steps = [optimizer_inputs(evidence, step) or [] for step in evidence.steps]
    factors = [_rough_factor([(each.gradient, each.used) for each in inputs]) for inputs in steps]
    known = [factor for factor in factors if factor is not None]
    if len(known) < max(len(steps), 2):
        return False
    # Of what the optimizer works with: behind a limit these norms would be one number.
    norms = _norms(steps)
    return max(known) - min(known) <= CLOSE_DERIVED * max(known) and max(norms) - min(norms) > LEFT * max(norms)


def _norms(steps: list[list[Input]]) -> list[float]:
    return [float(np.sqrt(sum(norm(each.used) ** 2 for each in inputs))) for inputs in steps]


def _to_one_norm(evidence: Evidence) -> Cause | None:
    steps = [optimizer_inputs(evidence, step) or [] for step in evidence.steps]
    factors = [_rough_factor([(each.gradient, each.used) for each in inputs]) for inputs in steps]
    norms = _norms(steps)
    known = [factor for factor in factors if factor is not None and factor > 0]
    # Every step has a factor, there are two steps at least, and all that comes out has one norm: g limit / |g|.
    if len(known) < max(len(steps), 2) or max(norms) - min(norms) > CLOSE_DERIVED * max(norms):
        return None
    # One factor and one norm: the gradients themselves are of one norm, and nothing tells a limit from a factor.
    if max(known) - min(known) <= CLOSE_DERIVED * max(known):
        return None
    return build_cause(
        "clipping",
        "to one norm",
        evidence=f"at all {len(steps)} steps the candidate's optimizer works with gradients of that norm, "
        f"{min(known):.4g} to "
        f"{max(known):.4g} times the combined ones",
        norm=norms[0],
    )


def dampened_shares(evidence: Evidence, keep: float) -> list[float]:
    """Returns what share of the gradient enters a momentum that is dampened: as the candidate's settings say, or as usual.

    Args:
      evidence: the traces.
      keep: the momentum.
    """
    said = evidence.optimizers[1].get("dampening")
    # momentum' = keep momentum + (1 - dampening) g: with dampening = momentum it is an average of gradients.
    return [1 - each for each in ([said] if isinstance(said, int | float) else [keep]) if each]


def _factor(inputs: list[Input], changed: list[Input], dampened: list[float], steady: bool | None) -> Cause | None:
    factor = _rough_factor([(each.gradient, each.used) for each in changed])
    if factor is None or abs(factor - 1) <= CLOSE_DERIVED or rounds_to_one(factor):
        # A factor that is printed as 1 explains nothing that anybody could look for.
        return None
    where = "every variable" if len(changed) == len(inputs) else ", ".join(each.name for each in changed)
    text = f"the candidate's optimizer works with {factor:.9g} times the gradient of {where}"
    if abs(factor + 1) <= CLOSE_DERIVED:
        return build_cause("sign", "update", evidence=text)
    # Before clipping and factors: 1 - momentum is such a number, and says where it comes from.
    if len(changed) == len(inputs) and any(abs(factor - share) <= CLOSE_DERIVED for share in dampened):
        return build_cause("momentum", "dampened", evidence=text, factor=factor)
    # Below 1 and of all variables: so clips a global norm. Of one variable a factor is a factor.
    if 0 < factor < 1 and len(changed) == len(inputs) and len(inputs) > 1 and not steady:
        norms = float(np.sqrt(sum(norm(each.used) ** 2 for each in changed)))
        rule = "by clipping by global norm or by a factor" if steady is None else "as clipping by global norm does"
        return build_cause(
            "clipping",
            "before the update",
            evidence=f"{text}; their global norm is then {norms:.6g}",
            factor=factor,
            rule=rule,
        )
    return build_cause("gradient_factor", "update", evidence=text, factor=factor)


def _clipped_by_norm(inputs: list[Input], changed: list[Input]) -> Cause | None:
    # Directions stay, and lengths become the limit. What the reference's optimizer itself scales all gradients by, as one
    # does that clips a global norm, is in its rule: what is not clipped here is larger than there by one factor then.
    factors = [_rough_factor([(each.gradient, each.used)]) for each in inputs]
    if not changed or any(factor is None or factor <= 0 for factor in factors):
        return None
    limit = max(norm(each.used) for each in changed)
    clipped = [norm(each.used) >= (1 - CLOSE_DERIVED) * limit for each in inputs]
    known = [factor for factor in factors if factor is not None]
    shorter = [factor for factor, cut in zip(known, clipped, strict=True) if cut]
    left = [factor for factor, cut in zip(known, clipped, strict=True) if not cut]
    whole = max(left, default=1.0)
    # Two lengths are not equal by chance; of one variable alone all that is left has to be as it was.
    if left and (min(left) < (1 - CLOSE_DERIVED) * whole or max(shorter) > (1 - CLOSE_DERIVED) * whole):
        return None
    if len(shorter) < 2 and (abs(whole - 1) > CLOSE_DERIVED or max(shorter) >= 1):
        return None
    own = "" if abs(whole - 1) <= CLOSE_DERIVED else f"; the reference's with {1 / whole:.9g} times all of them"
    return build_cause(
        "clipping",
        "by variable",
        evidence=f"the candidate's optimizer works with gradients of norm {limit / whole:.9g} for {len(shorter)} of "
        f"{len(inputs)} variables, in the direction of the combined ones{own}",
        norm=limit / whole,
    )


def _clipped_by_value(inputs: list[Input], changed: list[Input]) -> Cause | None:
    # Elements that are cut off to one size, the rest the same: `fully` asks for more elements than limits.
    rule = by_value([(each.gradient, each.used) for each in changed], CLOSE_DERIVED)
    if rule is None or not rule.fully:
        return None
    return build_cause(
        "clipping",
        "by value",
        evidence=f"in {len(changed)} of {len(inputs)} variables the larger elements of the gradient are cut off, "
        "no others differ",
        rule=rule.text,
    )


def _rough_factor(pairs: list[tuple[Array, Array]]) -> float | None:
    factor = common_factor(pairs)
    if factor is not None or not pairs:
        # 1e-9 first (`common_factor`); then CLOSE_DERIVED, where a slot's division has moved rounding up by some
        # decades.
        return factor
    found = fit([[one] for one, _ in pairs], [other for _, other in pairs])
    return found.coefficients[0] if found is not None and found.residual <= CLOSE_DERIVED else None
