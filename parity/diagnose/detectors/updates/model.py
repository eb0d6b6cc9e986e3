"""A joint model of one update: what was given, the slots' rules, rate, epsilon, decay, several bugs at once."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from parity.diagnose.agreement import EMPTY_GRADIENT, is_close
from parity.diagnose.catalogue import build_cause
from parity.diagnose.detectors.updates.optimizer_gradients import dampened_shares
from parity.diagnose.detectors.weight_decay import cause_of_decay
from parity.diagnose.evidence import Evidence
from parity.diagnose.fitting import CLOSE_DERIVED, FEW_ELEMENTS, RESIDUAL_OF_RULE, Partly, counts, fit_partly
from parity.diagnose.optimizer_input import Input, linear_slot, slot_rule
from parity.judge.metrics import norm
from parity.judge.result import Cause
from parity.trace.arrays import Array

# Reads off what an optimizer did in a step, several bugs at once: from its own slots before and after, and its
# weights. A slot that is linear in the gradient tells what share of itself it kept and, with that, the gradient
# that it was given. Adam's update tells its rate and its epsilon: ``m / u`` is linear in the root of v. Weights
# that shrink beside the update are one more column.

# Of the elements of a slot that have to follow one share exactly, each for itself. Chosen: the others may be cut off;
# that of 16 elements or more a third agree to 1e-7 is no chance.
LEAST_SHARE_EXACT = 0.3


class Given(NamedTuple):
    """What an optimizer was given, read off a slot.

    Fields:
      slot: its name.
      kept, wanted: the share of itself that it kept in the candidate, and in the reference.
      averages: whether it takes up the rest of that share: Adam's m, not a momentum.
      inputs: the gradient of every variable that moved: the reference's rule's input, and what it must have been.
    """

    slot: str
    kept: float
    wanted: float
    averages: bool
    inputs: list[Input]


class Moved(NamedTuple):
    """How far the weights of one variable went.

    Fields:
      rate: the factor of the direction, one learning rate where the rule is right.
      other: the epsilon of Adam, or the share of the gradient beside the slot (Nesterov).
      shrunk: the share of the weights that was taken away beside the update.
      doubt: how far what the fit leaves can move an epsilon.
    """

    rate: float
    other: float
    shrunk: float
    doubt: float = 0.0


def still(evidence: Evidence, step: int) -> set[str]:
    """Returns the variables that the candidate leaves as they were, and the reference does not."""
    found = set()
    for name, one, other in evidence.pairs(step, "var"):
        before = evidence.before(step, "var", name)
        # To 1e-12 of the weight, 9,000 roundings of float64, and where the reference goes further than that.
        if before is not None and norm(other - before) <= 1e-12 * norm(before) < norm(one - before):
            found.add(name)
    return found


def given(evidence: Evidence, step: int) -> Given | None:
    """Returns what the candidate's optimizer was given, whatever share its slot kept; None where that is not told."""
    found = linear_slot(evidence, step)
    if found is None:
        return None
    slot, rule = found
    # keep + take = 1: 1e-6 for betas that the graph holds in float32, each of them 6e-8 off.
    averages = abs(rule.keep + rule.take - 1) <= 1e-6
    left, own = still(evidence, step), evidence.applied(step)
    largest = max((norm(other) for _, other in own.values()), default=0.0)
    parts = []
    for name, _, after in evidence.pairs(step, "slot", slot):
        before = evidence.before(step, "slot", name, slot)
        # Left out: what did not move at all (another cause), and gradients that are nothing but rounding, of which no
        # share can be read.
        if before is None or name not in own or name in left or norm(own[name][1]) <= EMPTY_GRADIENT * largest:
            continue
        # (name, slot before, gradient, slot after, weight before), float64 arrays of the variable's shape.
        parts.append((name, before, own[name][1], after, evidence.before(step, "var", name)))
    shares = [share for part in parts if (share := _share_kept(*part[1:], averages)) is not None]
    # The median: a variable with a bug of its own, as one that is frozen, moves it nowhere.
    kept = float(np.median(shares)) if shares else 1.0
    agreeing = sum(abs(share - kept) <= 10 * RESIDUAL_OF_RULE for share in shares)
    # More than half of the variables have to keep that share; an average that keeps all of itself would be divided by
    # 0.
    if 2 * agreeing <= len(parts) or (averages and abs(1 - kept) <= RESIDUAL_OF_RULE):
        return None
    # What an average takes up follows from what it keeps; a momentum's share is the reference's, since it cannot be
    # told from a factor of the gradient.
    take = 1 - kept if averages else rule.take
    # slot' = kept slot + take g, solved for g: the gradient that was used, with whatever was done to it.
    inputs = [Input(name, gradient, (after - kept * before) / take) for name, before, gradient, after, _ in parts]
    return Given(slot, kept, rule.keep, averages, inputs)


def moved(evidence: Evidence, step: int, told: Given) -> dict[str, Moved] | None:
    """Returns how the weights of each variable went, by the rule of the reference's optimizer; None where it is no such.

    Args:
      evidence: the traces.
      step: its number.
      told: what the candidate's optimizer was given.
    """
    # abs: rounding may leave a square of 0 a little below it.
    roots = {name: np.sqrt(np.abs(other)) for name, _, other in evidence.pairs(step, "slot", "v")}
    slots = {name: other for name, _, other in evidence.pairs(step, "slot", told.slot)}
    used = {each.name: each.used for each in told.inputs}
    found = {}
    for name, _, after in evidence.pairs(step, "var"):
        before = evidence.before(step, "var", name)
        if before is None or name not in used:
            continue
        # Positive along the gradient, as rate times direction is.
        move = before - after
        one = (
            _of_adam(move, slots[name], roots[name], before)
            if roots
            else _of_a_slot(move, slots[name], used[name], before)
        )
        if one is not None:
            found[name] = one
        # Of FEW_ELEMENTS nearly any rule fits or none does: then a variable neither proves nor refutes.
        elif move.size > FEW_ELEMENTS:
            return None
    return found or None


def _share_kept(before: Array, gradient: Array, after: Array, weight: Array | None, averages: bool) -> float | None:
    # Without decay first; a decayed gradient is g + d w, so that the weight is one more column of the slot.
    for columns in ([before, gradient], [before, gradient, weight]):
        found = fit_partly([each for each in columns if each is not None], after, RESIDUAL_OF_RULE)
        if found is not None and not found.limit and not found.empty:
            return found.coefficients[0]
    # Where some elements of the gradient were cut off, most of the others still tell the share, each for itself.
    # Negated gradients as well: slot' - (-g) of an update that goes the other way.
    for sign in (1.0, -1.0):
        # An average: slot' = keep slot + (1 - keep) g gives keep = (slot' - g) / (slot - g), element by element; a sum:
        # keep = (slot' - g) / slot.
        part, whole = after - sign * gradient, before - (sign * gradient if averages else 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            each = (part / whole).reshape(-1)
        each = each[np.isfinite(each)]
        share = float(np.median(each)) if each.size >= FEW_ELEMENTS else np.nan
        # A limit or a mask changes some elements only: where a third of them agree to 1e-7, that is the share.
        if (np.abs(each - share) <= RESIDUAL_OF_RULE).mean() >= LEAST_SHARE_EXACT:
            return share
    return None


def _of_adam(move: Array, slot: Array, root: Array, weight: Array) -> Moved | None:
    # u = r m / (root + e) + s w, in all of its terms: m = (u - s w) (root + e) / r.
    found = fit_partly([move * root, move], slot, RESIDUAL_OF_RULE)
    if found is not None and found.coefficients[0]:
        first, second = found.coefficients
        # What the fit leaves, over the length of the second column, the move, is how far e / r may be off; times r it
        # is how far e may.
        doubt = found.residual * norm(slot) / (abs(first) * norm(move))
        return Moved(1 / first, second / first, 0.0, doubt)
    # With decay: m = u root / r + e u / r - s w root / r - s e w / r, four columns for three unknowns.
    found = fit_partly([move * root, move, weight * root, weight], slot, RESIDUAL_OF_RULE)
    # Only the third has to count: the second is the epsilon, and may be too small to show.
    if found is None or not found.coefficients[0] or not counts(found, [2], [move, move, weight * root], slot):
        return None
    first, second, third, _ = found.coefficients
    return Moved(1 / first, second / first, -third / first)


def _of_a_slot(move: Array, slot: Array, used: Array, weight: Array) -> Moved | None:
    # The plainest that fits: slot alone, with the gradient beside it (Nesterov), with decay, with both.
    for columns in ([slot], [slot, used], [slot, weight], [slot, used, weight]):
        found = fit_partly(columns, move, RESIDUAL_OF_RULE)
        further = range(1, len(columns))
        if found is not None and not found.limit and not found.empty and counts(found, further, columns, move):
            # By identity of the arrays: which columns there are changes from one try to the next.
            shares = dict(zip(map(id, columns), found.coefficients, strict=True))
            return Moved(shares[id(slot)], shares.get(id(used), 0.0), shares.get(id(weight), 0.0))
    return None


# Names several bugs in one update at once.

FITTED_UPDATES = "fitted together with what else is wrong with the update"


def updates_at_once(evidence: Evidence, step: int) -> list[Cause]:
    """Returns what is wrong with the update of a step, everything at once; nothing where no rule fits."""
    told = given(evidence, step)
    if told is None:
        return []
    found = [*_of_the_slot(told), *_of_the_gradient(evidence, step, told)]
    # The moves are read with the gradient that was used, so that a bug in front of the update is not counted again.
    went = moved(evidence, step, told)
    if went is not None:
        found += _adam_causes(evidence, step, told, went) if told.averages else _of_momentum(evidence, step, told, went)
    return found


def _of_the_slot(told: Given) -> Iterator[Cause]:
    # CLOSE_DERIVED: the share was solved for, from a slot before and after.
    if abs(told.kept - told.wanted) <= CLOSE_DERIVED:
        return
    # Nothing is kept: the slot begins anew in every step, whatever it is called.
    forgotten = abs(told.kept) <= CLOSE_DERIVED
    share = "nothing" if forgotten else f"{told.kept:.9g}"
    text = f"the slot {told.slot} of every variable keeps {share} of itself, {FITTED_UPDATES}"
    if forgotten:
        yield build_cause("slot_reset", evidence=text, slot=told.slot)
        return
    name, variant = ("adam_beta", "beta1") if told.averages else ("momentum", "other")
    yield build_cause(name, variant, evidence=text, got=told.kept, wanted=told.wanted)


def _of_the_gradient(evidence: Evidence, step: int, told: Given) -> Iterator[Cause]:
    fits: dict[str, Partly] = {}
    for each in told.inputs:
        weight = evidence.before(step, "var", each.name)
        columns = (
            [[each.gradient], [each.gradient, weight]] if weight is not None and weight.any() else [[each.gradient]]
        )
        fit = next(
            (
                # Gradient alone, then with decay; a column counts only if it puts in far more than the fit leaves.
                fit
                for chosen in columns
                if (fit := fit_partly(chosen, each.used, CLOSE_DERIVED))
                and counts(fit, range(1, len(chosen)), chosen, each.used)
            ),
            None,
        )
        if fit is not None:
            fits[each.name] = fit
        elif each.used.size > FEW_ELEMENTS:
            return
    if not fits:
        return
    factors = [fit.coefficients[0] for fit in fits.values()]
    decayed = {name: fit.coefficients[1] for name, fit in fits.items() if len(fit.coefficients) > 1}
    yield from _of_the_factors(factors, told, evidence, step)
    if any(fit.limit for fit in fits.values()):
        limits = [fit.limit for fit in fits.values() if fit.limit]
        yield build_cause(
            "clipping",
            "fitted by value",
            limit=min(limits),
            # One limit, or "or more" where variables end at different ones: clipping by value has one for all.
            more=" or more" if max(limits) > min(limits) * 1.001 else "",
            evidence=f"the largest elements of {len(limits)} of {len(fits)} variables' gradients are of one size "
            f"each, {FITTED_UPDATES}",
        )
    amounts = list(decayed.values())
    if amounts and all(is_close(amount, amounts[0], 1e-3) for amount in amounts):
        # Over the factor of the gradient: used = f (g + d w) where the decay is added before the factor.
        amount = amounts[0] / factors[0]
        yield _decay(
            amount, ", ".join(decayed), f"the gradient that the optimizer works with is off by {amount:.9g} times"
        )


def _of_the_factors(factors: list[float], told: Given, evidence: Evidence, step: int) -> Iterator[Cause]:
    text = f"the candidate's optimizer works with {factors[0]:.9g} times the gradient, {FITTED_UPDATES}"
    # All of them: a single variable with another sign is no sign of the update.
    if all(factor < 0 for factor in factors):
        yield build_cause("sign", "update", evidence=text)
    sizes = [abs(factor) for factor in factors]
    # Ten times CLOSE_DERIVED, because every factor has that error of its own.
    same = max(sizes) - min(sizes) <= 10 * CLOSE_DERIVED * max(sizes)
    if same and is_close(sizes[0], 1.0, CLOSE_DERIVED):
        return
    dampened = [] if told.averages else dampened_shares(evidence, told.wanted)
    if same and any(is_close(sizes[0], share, CLOSE_DERIVED) for share in dampened):
        yield build_cause("momentum", "dampened", evidence=text, factor=sizes[0])
    # One norm at all steps, or another factor each time: only a limit makes either of them.
    elif same and (_one_norm(evidence, step, told) or (sizes[0] < 1 and not _one_factor(evidence, step, told))):
        yield build_cause(
            "clipping",
            "fitted by global norm",
            factor=sizes[0],
            evidence=f"{text}; their global norm is then {_norm_of_all(told.inputs):.6g}",
        )
    elif same:
        yield build_cause("gradient_factor", "update", evidence=text, factor=sizes[0])


def _of_momentum(evidence: Evidence, step: int, told: Given, went: dict[str, Moved]) -> Iterator[Cause]:
    rate = evidence.learning_rate(step)
    # Where the reference itself looks ahead, slot and gradient are both its own rule.
    if not rate or any(evidence.optimizers[0].get(key) for key in ("use_nesterov", "nesterov")):
        return
    ahead = [each for each in went.values() if each.other]
    if (
        ahead
        and len(ahead) == len(went)
        and all(
            # Nesterov moves by g + momentum slot', so that the slot counts momentum times the gradient; 1e-4, since
            # early slots point along the gradient and the two shares are told apart by what is left.
            is_close(each.rate, each.other * told.wanted, 1e-4) or is_close(each.rate, each.other * told.kept, 1e-4)
            for each in ahead
        )
    ):
        yield build_cause(
            "nesterov",
            evidence=f"the candidate's update is {ahead[0].other:.6g} times the gradient and {ahead[0].rate:.6g} "
            "times the slot "
            f"{told.slot}, {FITTED_UPDATES}",
            whose="candidate",
            wanted=False,
        )
        # Beside a look ahead the rate is the gradient's share, and without one the slot's.
        yield from _of_the_rates({name: each.other / rate for name, each in went.items()}, evidence.is_whole)
    elif not ahead:
        yield from _of_the_rates({name: each.rate / rate for name, each in went.items()}, evidence.is_whole)
    yield from _of_the_shrinking(went, rate)


def _adam_causes(evidence: Evidence, step: int, told: Given, went: dict[str, Moved]) -> Iterator[Cause]:
    rate, wanted = evidence.learning_rate(step), evidence.optimizers[0].get("epsilon")
    powers = [evidence.counter(step, f"beta{k}_power") for k in (1, 2)]
    if not rate or not isinstance(wanted, float) or powers[0] is None or powers[1] is None:
        return
    first, second = powers[0], powers[1]
    # alpha = rate sqrt(1 - beta2^t) / (1 - beta1^t): what Adam multiplies m / (sqrt(v) + epsilon) by.
    corrected = float(np.sqrt(1 - second) / (1 - first))
    rates = [each.rate / rate for each in went.values()]
    # Half of the variables are enough: one whose rate is another itself has not lost the correction.
    uncorrected = sum(is_close(each, 1.0, CLOSE_DERIVED) for each in rates) * 2 >= len(rates)
    if uncorrected and not is_close(corrected, 1.0, CLOSE_DERIVED) and not _another_beta2(evidence, step):
        yield build_cause(
            "bias_correction",
            "missing",
            evidence=f"lr m / (sqrt(v) + epsilon) gives the update of most of {len(went)} variables at step "
            f"{step}, {FITTED_UPDATES}",
        )
    # The rate that is left once the correction that this side makes is taken out.
    scale = 1.0 if uncorrected else corrected
    epsilon = float(np.median([each.other for each in went.values()]))
    # Powers of another beta are the candidate's own: what they make of the rate is no rate.
    if abs(told.kept - told.wanted) <= CLOSE_DERIVED:
        yield from _of_the_rates({name: each.rate / rate / scale for name, each in went.items()}, evidence.is_whole)
    # torch's place of the same epsilon, seen from the uncorrected root, as in formula.py.
    inside = wanted * float(np.sqrt(1 - second))
    # Ten times what the fit can move it by: only then is it known at all.
    known = abs(epsilon - wanted) > 10 * float(np.median([each.doubt for each in went.values()]))
    if (
        known
        # 1e-3 of the epsilon that should be there; 1e-2 between variables, whose roots know it to different digits.
        and abs(epsilon - wanted) > 1e-3 * wanted
        and all(is_close(each.other, epsilon, 1e-2) for each in went.values())
    ):
        torchs = is_close(epsilon, inside, 1e-3)
        yield build_cause(
            "adam_epsilon_placement" if torchs else "adam_epsilon",
            "fitted",
            evidence=f"m / u of every variable is linear in the root of v, with {epsilon:.6g} beside it, {FITTED_UPDATES}",
            epsilon=epsilon,
            wanted=wanted,
        )
    yield from _of_the_shrinking(went, rate)


def _another_beta2(evidence: Evidence, step: int) -> bool:
    # Its powers are other ones, and may make any rate, even that of no correction.
    wanted, got = (slot_rule(evidence, step, "v", candidate=side) for side in (False, True))
    return wanted is not None and got is not None and abs(got.keep - wanted.keep) > CLOSE_DERIVED


def _of_the_rates(factors: dict[str, float], whole: bool) -> Iterator[Cause]:
    wrong = {name: factor for name, factor in factors.items() if not is_close(factor, 1.0, 1e-5)}
    middle = float(np.median(list(wrong.values()))) if wrong else 1.0
    if wrong and all(is_close(factor, middle, 1e-4) for factor in wrong.values()):
        where = "" if whole and len(wrong) == len(factors) else f" for {', '.join(wrong)}"
        yield build_cause(
            "learning_rate",
            "factor",
            evidence=f"the candidate's update of {len(wrong)} of {len(factors)} variables goes {middle:.9g} times "
            f"as far, {FITTED_UPDATES}",
            factor=middle,
            where=where,
        )


def _of_the_shrinking(went: dict[str, Moved], rate: float) -> Iterator[Cause]:
    shrunk = {name: each.shrunk / rate for name, each in went.items() if each.shrunk}
    amounts = list(shrunk.values())
    if amounts and all(is_close(amount, amounts[0], 1e-2) for amount in amounts):
        yield _decay(
            amounts[0], ", ".join(shrunk), f"the update is off by {amounts[0]:.9g} times the learning rate and"
        )


def _decay(amount: float, where: str, what: str) -> Cause:
    return cause_of_decay(amount, where, f"{what} the weight, in {where}, {FITTED_UPDATES}")


def _one_norm(evidence: Evidence, step: int, told: Given) -> bool:
    # Whatever the gradients are, what is made of them has the same norm in every step: no clipping either, but its
    # limit.
    others = [given(evidence, other) for other in evidence.steps if other != step]
    norms = [_norm_of_all(each.inputs) for each in others if each is not None]
    return bool(norms) and all(is_close(each, _norm_of_all(told.inputs), 1e-5) for each in norms)


def _one_factor(evidence: Evidence, step: int, told: Given) -> bool:
    # Whatever the gradients are, what is made of them has the same share of their norm in every step: no limit does
    # that.
    others = [given(evidence, other) for other in evidence.steps if other != step]
    shares = [_norm_of_all(each.inputs) / _norm_before(each.inputs) for each in others if each is not None]
    return bool(shares) and all(
        is_close(each, _norm_of_all(told.inputs) / _norm_before(told.inputs), 1e-5) for each in shares
    )


def _norm_before(inputs: list[Input]) -> float:
    return max(float(np.sqrt(sum(norm(each.gradient) ** 2 for each in inputs))), 1e-300)


def _norm_of_all(inputs: list[Input]) -> float:
    return float(np.sqrt(sum(norm(each.used) ** 2 for each in inputs)))
