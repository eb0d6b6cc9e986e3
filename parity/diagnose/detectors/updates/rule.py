"""Causes in the update rule, given the same gradient."""

from collections.abc import Collection, Iterator, Sequence

import numpy as np

from parity.diagnose.agreement import CLOSE, common_factor, explained_together, is_close, share_explained, told_factor
from parity.diagnose.catalogue import build_cause
from parity.diagnose.evidence import Evidence
from parity.diagnose.fitting import RESIDUAL_OF_RULE
from parity.diagnose.optimizer_input import SlotRule, slot_rule
from parity.judge.metrics import norm
from parity.judge.result import Cause, FirstDifference
from parity.trace import parse_key
from parity.trace.arrays import Array

SUMS_TO_ONE = 1e-6  # the shares of an average: a beta rounded to float32 leaves 6e-8
SAME_FACTOR = 1e-6  # of updates, from step to step: each is known to 10 CLOSE, and storing weights rounds them
# Of sqrt(1 - beta2^t) / (1 - beta1^t), where a beta may be known in float32 alone: float32(0.999) is 1.3e-8 off, which
# is 1.3e-5 of 1 - beta2 and 6.4e-6 of its root.
CLOSE_CORRECTION = 1e-5
MOST_FACTORS_SHOWN = 6


def not_updated(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """Some variables stay as they were, slots and all, though they have a gradient."""
    if first.quantity not in ("slot", "var"):
        return None
    # Which variables stay is asked of all that trains: an optimizer that is never called leaves every one of its own.
    step, evidence = first.check.step, evidence.whole
    gradients = {name: one for name, one, _ in evidence.pairs(step, "grad")}
    still, moved = [], 0
    for name, one, other in evidence.pairs(step, "var"):
        before = evidence.before(step, "var", name)
        # A reference that does not move either, or a gradient of zeros, says nothing of the candidate.
        if before is None or norm(one - before) <= 1e-12 * norm(before) or not gradients.get(name, one).any():
            continue
        # 1e-12 of the weight: 9,000 roundings, far below any move that a rate of training makes.
        if norm(other - before) <= 1e-12 * norm(before):
            still.append(name)
        else:
            moved += 1
    # The variable of the difference has to be one of them, or another detector's cause would be named here.
    if first.name not in still:
        return None
    if not moved and evidence.candidate_rate(step) == 0.0:
        return build_cause(
            "learning_rate",
            "zero",
            evidence=f"at step {step} the candidate's learning rate is 0: all {len(still)} variables that move in the "
            "reference stay as they were",
            step=step,
        )
    if not moved:
        return build_cause(
            "not_updated",
            "all",
            evidence=f"the candidate leaves all {len(still)} variables that move in the reference as they were, though "
            "their gradients are not zero",
            step=step,
        )
    return build_cause(
        "not_updated",
        "variables",
        evidence=f"the candidate leaves {', '.join(still)} as it was at step {step}, though its gradient is not zero; "
        f"{moved} others move",
        variables=", ".join(still),
    )


def slot_decay(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """A slot keeps, or takes up, another share than the reference's: momentum, beta1, beta2, decay; or it starts anew."""
    if first.quantity != "slot":
        return None
    step = first.check.step
    slot = parse_key(first.check.key).slot
    wrong = [name for name, one, other in evidence.pairs(step, "slot", slot) if norm(other - one) > CLOSE * norm(one)]
    wanted = slot_rule(evidence, step, slot, candidate=False)
    # Of all variables first; then of those that differ, where others keep the right share.
    got = slot_rule(evidence, step, slot, candidate=True) or slot_rule(evidence, step, slot, candidate=True, only=wrong)
    if wanted is None or got is None or wanted.power != got.power or _same_rule(wanted, got) or _stands_still(got):
        return None
    made = list(_made(evidence, step, slot, got, wrong))
    if not explained_together(made):
        return None
    # All variables that have the slot, of every optimizer: else the ones that follow the rule are listed.
    every = evidence.is_whole and len(made) == sum(1 for _ in evidence.pairs(step, "slot", slot))
    where = "" if every else f" for {', '.join(wrong)}"
    # Nine digits: the share of a fit to RESIDUAL_OF_RULE = 1e-7, without the digits that nobody set. + 0.0: no "-0".
    kept, took = ([round(share, 9) + 0.0 for share in shares] for shares in zip(got[:2], wanted[:2], strict=True))
    text = (
        f"slot' = {kept[0]:.9g} slot + {took[0]:.9g} gradient{'^2' if got.power == 2 else ''} fits "
        f"{'every variable' if every else ', '.join(wrong)} of the candidate, where the reference has {kept[1]:.9g} and "
        f"{took[1]:.9g}"
    )
    explains = share_explained(first, made)
    # keep is 0 and take the reference's: a slot that is made anew, and not one of another rule.
    if abs(got.keep) <= RESIDUAL_OF_RULE and abs(got.take - wanted.take) <= RESIDUAL_OF_RULE * abs(wanted.take):
        return build_cause("slot_reset", evidence=text, explains=explains, slot=slot, where=where)
    # Adagrad adds squares up and keeps all of them; RMSProp and Adam keep 1 - decay of theirs.
    if wanted.power == 2 and _sums(wanted) != _sums(got):
        here, there = _of_squares(got), _of_squares(wanted)
    # take = 1 and keep what it was: an average in whose place the gradient is added whole.
    elif _averages(wanted) and abs(got.take - 1) <= RESIDUAL_OF_RULE < abs(got.keep):
        here, there = "sums gradients up, as momentum does", "averages them"
    else:
        here, there = "", ""
    if here:
        return build_cause(
            "optimizer_rule", "slot", evidence=text, explains=explains, slot=slot, here=here, there=there
        )
    times = _times(wanted, got)
    if times and _all_of_them(evidence, step, slot, times):
        return build_cause(
            "updated_twice",
            evidence=f"{text}: {wanted.keep:.6g} to the power of {times}, as after {times} steps with the same gradient",
            explains=explains,
            times=times,
        )
    name, variant = _share_of(evidence, slot, wanted)
    return build_cause(name, variant, evidence=text, explains=explains, where=where, got=kept[0], wanted=kept[1])


def _same_rule(wanted: SlotRule, got: SlotRule) -> bool:
    # A gradient that enters otherwise while the slot keeps as much is another gradient, unless it enters whole.
    averages = _averages(wanted) and abs(wanted.take - 1) > RESIDUAL_OF_RULE
    return abs(got.keep - wanted.keep) <= RESIDUAL_OF_RULE and not (averages and abs(got.take - 1) <= RESIDUAL_OF_RULE)


def _stands_still(rule: SlotRule) -> bool:
    # No optimizer keeps all, and takes up nothing.
    return abs(rule.take) <= RESIDUAL_OF_RULE and abs(rule.keep - 1) <= RESIDUAL_OF_RULE


def _averages(rule: SlotRule) -> bool:
    return abs(rule.keep + rule.take - 1) <= SUMS_TO_ONE


def _of_squares(rule: SlotRule) -> str:
    if _sums(rule):
        return "sums squares up, as Adagrad does"
    averages = "averages squares, as RMSProp does" if _averages(rule) else "sums squares up"
    return f"{averages}, and keeps {round(rule.keep, 9):.6g} of itself"


def _sums(rule: SlotRule) -> bool:
    return abs(rule.keep - 1) <= RESIDUAL_OF_RULE and abs(rule.take - 1) <= RESIDUAL_OF_RULE


def _share_of(evidence: Evidence, slot: str, rule: SlotRule) -> tuple[str, str]:
    # Shares that do not add up to 1 are no average's: what keeps a share and takes the gradient whole is a momentum.
    if not _averages(rule):
        return "momentum", "other"
    settings = evidence.optimizers[0]
    if "rho" in settings:
        return "decay_rate", "Adadelta's rho"
    if slot in ("rms", "mg") or ("decay" in settings and "beta1" not in settings):
        return "decay_rate", "RMSProp's decay"
    return "adam_beta", "beta1" if rule.power == 1 else "beta2"


def _times(wanted: SlotRule, got: SlotRule) -> int:
    # After n steps with one gradient a slot has kept keep^n, and taken up take (1 + keep + ... + keep^(n - 1)).
    for times in range(2, 5):
        taken = wanted.take * sum(wanted.keep**k for k in range(times))
        if abs(got.keep - wanted.keep**times) <= RESIDUAL_OF_RULE and abs(got.take - taken) <= RESIDUAL_OF_RULE * abs(
            taken
        ):
            return times
    return 0


def _all_of_them(evidence: Evidence, step: int, slot: str, times: int) -> bool:
    # Of an average the one share follows from the other: only that all slots agree tells another beta from more steps.
    for other in evidence.slots(step):
        rules = [slot_rule(evidence, step, other, candidate=side) for side in (False, True)]
        if other != slot and (rules[0] is None or rules[1] is None or _times(rules[0], rules[1]) != times):
            return False
    rule = slot_rule(evidence, step, slot, candidate=False)
    return rule is not None and (len(evidence.slots(step)) > 1 or abs(rule.keep + rule.take - 1) > SUMS_TO_ONE)


def _made(
    evidence: Evidence, step: int, slot: str, rule: SlotRule, names: Collection[str]
) -> Iterator[tuple[Array, Array, Array]]:
    gradients = evidence.applied(step)
    for name, one, other in evidence.pairs(step, "slot", slot):
        before = evidence.before(step, "slot", name, slot)
        if before is not None and name in gradients and name in names:
            # slot' = keep slot + take g^p of the fitted rule, beside what each side has of it.
            yield rule.keep * before + rule.take * gradients[name][1] ** rule.power, other, one


def slot_initial_value(first: FirstDifference) -> Cause:
    """The optimizers start with other values in a slot."""
    return build_cause(
        "slot_initial_value", evidence=f"{first.check.key} {first.check.note}, before anything is loaded"
    )


def own_value(first: FirstDifference) -> Cause:
    """A buffer or constant of the port is another than what is written into it."""
    return build_cause(
        "own_value",
        evidence=f"{first.check.key}: {first.check.note}; all else was compared with the reference's in its place",
        tensor=first.name,
    )


def learning_rate_factor(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """Every update is the same but for one factor."""
    if first.quantity != "var":
        return None
    step = first.check.step
    moves = _moves(evidence, step)
    if moves is None:
        return None
    # What differs of the reference's moves; told_factor asks for one number over all of these and for no other.
    wrong = [each for each in moves if norm(each[2] - each[1]) > CLOSE * norm(each[1])]
    factor = told_factor([(one, other) for _, one, other in wrong], 10 * CLOSE)
    # Over the steps too: a rate is one number in each of them, and other rules are one only at the first.
    factors = _factors(evidence, {name for name, *_ in wrong})
    if factor is None or factors is None:
        return None
    every = evidence.is_whole and len(wrong) == len(moves)
    where = "" if every else f" for {', '.join(name for name, _, _ in wrong)}"
    # Before a factor: an update of another count is a factor in every single step.
    counted = _other_count(evidence, factors)
    if counted is not None or any(not is_close(each, factor, SAME_FACTOR) for each in factors.values()):
        return counted or _varying(factors, where)
    # Every variable with the other sign: a sign of some of them is a bug of theirs.
    if abs(factor + 1) <= 10 * CLOSE and len(wrong) == len(moves):
        return build_cause(
            "sign",
            "update",
            evidence=f"the candidate's update of all {len(moves)} variables is the reference's with the other "
            f"sign at step {step}",
        )
    return build_cause(
        "learning_rate",
        "factor",
        evidence=f"the candidate's update of {len(wrong)} of {len(moves)} variables is {factor:.9g} times the reference's "
        f"at step {step}, "
        "from the same gradients and slots",
        explains=share_explained(first, [(factor * one, other, one) for _, one, other in wrong]),
        factor=factor,
        where=where,
    )


def _moves(evidence: Evidence, step: int) -> list[tuple[str, Array, Array]] | None:
    # Name and both sides' updates of every weight; None where it is not known where one began.
    moves = []
    for name, one, other in evidence.pairs(step, "var"):
        before = evidence.before(step, "var", name)
        if before is None:
            return None
        # Storing a weight rounds its update: what is left of it beside the weight decides what can be told.
        # A move of 1e-4 of the weight is stored to 1e-12 of itself, far below the 1e-8 that a factor is asked for.
        if norm(one - before) > 1e-4 * norm(before):
            moves.append((name, one - before, other - before))
    return moves


def _factors(evidence: Evidence, names: set[str]) -> dict[int, float] | None:
    """Returns by step the factor of the updates of some variables; None where there is none in a step that tells.

    A rate scales an update in every step. At the first step slots are empty, and other rules are a factor there too:
    momentum without a look ahead is 1 / (1 + momentum) of it.
    """
    factors: dict[int, float] = {}
    for step in evidence.steps:
        if any(not _same_inputs(evidence, step, name) for name in names):
            continue  # what it makes of other gradients says nothing
        moves = [(one, other) for name, one, other in _moves(evidence, step) or () if name in names]
        if not moves:
            continue
        factor = common_factor(moves, 1e-6)
        if factor is None:
            return None
        factors[step] = factor
    return factors


def _varying(factors: dict[int, float], where: str) -> Cause:
    listed = ", ".join(f"{factor:.6g}" for factor in list(factors.values())[:MOST_FACTORS_SHOWN])
    return build_cause(
        "learning_rate",
        "varying",
        evidence=f"from the same gradients and slots the candidate's updates are {listed} times the reference's, "
        "step by step",
        where=where,
    )


def _other_count(evidence: Evidence, factors: dict[int, float]) -> Cause | None:
    """Adam's correction of its bias, by another count of steps than the reference's."""
    said = [evidence.optimizers[0].get(name) for name in ("beta1", "beta2")]
    # A beta that a graph or a file does not say cannot be raised to a power here.
    betas = [beta for beta in said if isinstance(beta, float) and 0.0 < beta < 1.0]
    powers = {step: evidence.counter(step, "beta1_power") for step in factors}
    # beta1^t is what the graph counts: t = log power / log beta1, at least 1.
    own = {step: _count(power, betas[0]) for step, power in powers.items() if power and power < 1.0 and len(betas) == 2}
    if not own or len(own) < len(factors):
        return None
    # One step too many, one too few, two of either; and 1 or 2 in every step, as where the count is never kept.
    tries = [{step: count + more for step, count in own.items()} for more in (1, -1, 2, -2)]
    for tried in [*tries, dict.fromkeys(own, 1), dict.fromkeys(own, 2)]:
        wanted = {step: _correction(n, betas) / _correction(own[step], betas) for step, n in tried.items() if n > 0}
        # The ratio of two corrections is what a wrong count multiplies every move by, at these steps and no others.
        if len(wanted) == len(own) and all(is_close(factors[step], wanted[step], CLOSE_CORRECTION) for step in own):
            step = min(own)
            return build_cause(
                "bias_correction",
                "count",
                evidence="sqrt(1 - beta2^t) / (1 - beta1^t) for t = "
                f"{', '.join(str(tried[each]) for each in own)} in place of "
                f"{', '.join(map(str, own.values()))} is what the candidate's updates are off by in these steps",
                counted=tried[step],
                wanted=own[step],
            )
    return None


def _count(power: float, beta: float) -> int:
    # The power is beta^t to rounding, so that the nearest whole number is the count.
    return max(1, round(float(np.log(power) / np.log(beta))))


def _correction(count: int, betas: Sequence[float]) -> float:
    return float(np.sqrt(1 - betas[1] ** count) / (1 - betas[0] ** count))


def _same_inputs(evidence: Evidence, step: int, name: str) -> bool:
    pairs = [(one, other) for own, one, other in evidence.pairs(step, "grad") if own == name]
    for slot in evidence.slots(step):
        pairs += [(one, other) for own, one, other in evidence.pairs(step, "slot", slot) if own == name]
    # Same gradients and slots to 1e-6: only then does a factor of the move belong to the update itself.
    return all(norm(other - one) <= 1e-6 * norm(one) for one, other in pairs)
