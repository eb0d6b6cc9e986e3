"""A joint model of the towers' gradients: factors, decay, stale, clipped and missing ones, several at once."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from parity.diagnose.agreement import EMPTY_GRADIENT, LEFT, ROUNDING, is_close
from parity.diagnose.catalogue import build_cause
from parity.diagnose.detectors.aggregation import (
    cause_of_factor,
    cause_of_towers,
    follow_other_losses,
    has_scaler,
    other_reduction,
)
from parity.diagnose.detectors.weight_decay import cause_of_decay, decay_of_the_reference
from parity.diagnose.evidence import Evidence
from parity.diagnose.fitting import BITS, CLOSE_DERIVED, FEW_ELEMENTS, Partly, counts, fit_partly, narrow_format
from parity.judge.metrics import norm
from parity.judge.result import Cause
from parity.trace.arrays import Array

# Reads off several bugs in the gradients of the towers at once. Every gradient of the candidate is fitted by ``a_t
# b_n (g + d w)``, g the reference's gradient of variable n in tower t, w the weight; beside it the combined
# gradient of the step before. Several bugs leave each other's numbers alone there, which none of the hypotheses
# about a single one does.

# Of a gradient, by the model: it is recorded itself, with no slot or weight between, so that the fit may ask for a
# decade more than `RESIDUAL_OF_RULE` does of what an optimizer made of it. docs/method.md, "Several bugs at once".
RESIDUAL_OF_TOWER_GRADIENT = 1e-8
# To which amounts of decay, fitted beside something else, are one number: d w is often a thousandth of g, and its
# coefficient known to as many digits fewer.
CLOSE_AMOUNT = 1e-3
Place = tuple[str, str]  # a variable and a tower


class Share(NamedTuple):
    """How one gradient of the candidate is made up.

    Fields:
      of: what it is made of ("gradient", "weight", "earlier") and how often; what is not there is 0.
      fit: what was left out of the fit, and why.
    """

    of: dict[str, float]
    fit: Partly


class Rules(NamedTuple):
    """What turns the reference's gradients of a step into the candidate's.

    Fields:
      towers: how much each tower counts.
      variables: the factor of each variable beside that, 1 for most.
      decay: the decay of each variable that has one of its own.
      earlier: how often the combined gradient of the step before is in them.
      narrow: the narrower float that they go through, or "".
      limits: the variables of which some elements are at a limit.
      rows: by variable the rows without a gradient.
      close: how exactly all of this is known, relative.
    """

    towers: dict[str, float]
    variables: dict[str, float]
    decay: dict[str, float]
    earlier: float
    narrow: str
    limits: tuple[str, ...]
    rows: dict[str, tuple[int, ...]]
    close: float


def gradient_rules(evidence: Evidence, step: int) -> Rules | None:
    """Returns what turns the reference's gradients into the candidate's, or None where they do not follow such rules."""
    towers = evidence.tower_names(step, "tower_grad")
    pairs = _telling(
        {(n, t): (one, other) for t in towers for n, one, other in evidence.pairs(step, "tower_grad", "", t)}
    )
    if not pairs:
        return None
    # (values,): one vector of all gradients of both sides, for the bits that are used.
    flat = [np.concatenate([pair[side].reshape(-1) for pair in pairs.values()]) for side in (1, 0)]
    narrow = narrow_format(*flat)
    # Each value through a narrower float is off by at most u = 2^-bits of itself, the reference's and what the fit
    # makes of it.
    # Twice u: both the reference's value and what the fit makes of it were rounded, each by half a unit of its last
    # bit.
    close = 2 * 2.0 ** -BITS[narrow] if narrow else RESIDUAL_OF_TOWER_GRADIENT
    shares: dict[Place, Share] = {}
    for place, pair in pairs.items():
        share = _simplest(_columns(evidence, step, place[0], pair[0]), pair[1], close)
        if share is not None:
            shares[place] = share
        elif pair[0].size > FEW_ELEMENTS:
            # Of a few elements too few may be left beside a limit or an empty row; then it refutes nothing, but proves
            # nothing.
            return None
    if not narrow and not _explained(shares, pairs):
        return None
    # 4 close: a factor of all towers times one of a variable, each known to `close`, and compared with another such
    # product.
    rules = _assembled(_of_all_towers(shares, towers), narrow, 4 * close)
    return None if rules is None else _with_decay_alone(rules, pairs, evidence, step)


def _with_decay_alone(rules: Rules, pairs: dict[Place, tuple[Array, Array]], evidence: Evidence, step: int) -> Rules:
    # A bias in front of a batch norm has no gradient but its decay, c w: there f c w is c w + (f - 1) c w too.
    amount = _agreed(list(rules.decay.values()), CLOSE_AMOUNT) if rules.decay else None
    if amount is None:
        return rules
    variables, decay = dict(rules.variables), dict(rules.decay)
    # f c w is linear in the weight alone: with one weight there is no telling the factor from the decay, but beside the
    # other variables' amount there is.
    for name, factor in rules.variables.items():
        along = [
            _along(one, evidence.before(step, "var", name)) for (each, _), (one, _) in pairs.items() if each == name
        ]
        added = (factor - 1) * (along[0] or 0.0)
        if name not in decay and None not in along and abs(added - amount) <= CLOSE_AMOUNT * abs(amount):
            variables[name], decay[name] = 1.0, added
    return rules._replace(variables=variables, decay=decay)


def _along(gradient: Array, weight: Array | None) -> float | None:
    if weight is None or not weight.any():
        return None
    # The gradient's share of the weight: c = <w, g> / <w, w>, where g is c w and rounding of what a norm takes out
    # again.
    # w c = g: least squares along one direction, and its residual says whether anything else is in the gradient.
    share = float(np.vdot(weight, gradient)) / float(np.vdot(weight, weight))
    return share if norm(gradient - share * weight) <= CLOSE_DERIVED * norm(gradient) else None


def _explained(shares: dict[Place, Share], pairs: dict[Place, tuple[Array, Array]]) -> bool:
    # Noise too is near to any rule where it is faint: what the rules leave has to be small beside what differs.
    left, apart, size = (
        float(np.sqrt(sum(part**2 for part in parts)))
        for parts in (
            [share.fit.residual * norm(pairs[place][1]) for place, share in shares.items()],
            [norm(pairs[place][1] - pairs[place][0]) for place in shares],
            [norm(pairs[place][0]) for place in shares],
        )
    )
    return left <= LEFT * apart + ROUNDING * size


def _of_all_towers(shares: dict[Place, Share], towers: list[str]) -> dict[Place, Share]:
    # Of a few elements too few may be left to tell a rule; the rule is that of the others.
    return {place: share for place, share in shares.items() if all((place[0], tower) in shares for tower in towers)}


def _telling(pairs: dict[Place, tuple[Array, Array]]) -> dict[Place, tuple[Array, Array]]:
    # EMPTY_GRADIENT of the largest of any tower: a variable whose gradient is structurally zero has rounding in all of
    # them.
    largest = max((norm(one) for one, _ in pairs.values()), default=0.0)
    told = {name for (name, _), (one, _) in pairs.items() if norm(one) > EMPTY_GRADIENT * largest}
    return {place: pair for place, pair in pairs.items() if place[0] in told}


def _columns(evidence: Evidence, step: int, name: str, gradient: Array) -> dict[str, Array]:
    columns = {"gradient": gradient}
    weight = evidence.before(step, "var", name)
    if weight is not None and weight.any():
        columns["weight"] = weight
    if step - 1 in evidence.steps:
        # What the candidate itself had combined: its own bugs are in what it keeps.
        kept = next((other for each, _, other in evidence.pairs(step - 1, "grad") if each == name), None)
        if kept is not None and kept.any():
            columns["earlier"] = kept
    return columns


def _simplest(columns: dict[str, Array], target: Array, close: float) -> Share | None:
    for chosen in (("gradient",), ("gradient", "weight")):
        # The simplest that fits: a column that explains nothing is not one more bug.
        if not set(chosen) <= columns.keys():
            continue
        # What was kept whole is taken out first: a limit is one of the gradient without it.
        for kept in ("", "earlier") if "earlier" in columns else ("",):
            rest = target - columns[kept] if kept else target
            parts = [columns[each] for each in chosen]
            found = fit_partly(parts, rest, close)
            # What rounding to a narrower float leaves is no noise.
            if found is not None and (
                close > RESIDUAL_OF_TOWER_GRADIENT or counts(found, range(1, len(parts)), parts, rest)
            ):
                of = dict(zip(chosen, found.coefficients, strict=True))
                return Share({**of, kept: 1.0} if kept else of, found)
    return None


def _assembled(shares: dict[Place, Share], narrow: str, close: float) -> Rules | None:
    names, tower_names = (list(dict.fromkeys(place[part] for place in shares)) for part in (0, 1))
    if not shares:
        return None
    towers = {t: _most([shares[n, t].of["gradient"] for n in names], close) for t in tower_names}
    counting = [t for t in tower_names if abs(towers[t]) > close]
    variables, decay = {}, {}
    # The gradient of n in t is fitted by a_t b_n g: b_n is the fit's factor over a_t, one number over all towers that
    # count. A variable enters once all its towers agree; what is left out is counted below, and most have to be in.
    for name in names:
        # A tower that does not count has no share of any variable: else a variable of it trains where the tower does
        # not.
        silent = all(abs(shares[name, t].of["gradient"]) <= close for t in tower_names if t not in counting)
        factor = _agreed([shares[name, t].of["gradient"] / towers[t] for t in counting], close)
        if not silent or factor is None:
            continue  # what else is done to this one is not told here
        variables[name] = factor
        # c = s / (a_t b_n): the fit's coefficient of w over what the gradient itself is multiplied by, where that is not
        # nothing but for rounding.
        reached = abs(factor) > close
        amounts = [shares[name, t].of.get("weight", 0.0) / (towers[t] * factor) for t in counting] if reached else [0.0]
        if any(amounts):
            amount = _agreed(amounts, CLOSE_AMOUNT)
            if amount is None:
                return None
            decay[name] = amount
    earlier = _agreed([shares[n, t].of.get("earlier", 0.0) for n in variables for t in tower_names], CLOSE_AMOUNT)
    # Most of them, more than half: fewer are not what is done to the gradients, but to some variables.
    if earlier is None or 2 * len(variables) <= len(names):
        return None
    limits = tuple(name for name in variables if any(shares[name, t].fit.limit for t in tower_names))
    rows = {name: empty for name in variables if (empty := shares[name, tower_names[0]].fit.empty)}
    return Rules(towers, variables, decay, earlier, narrow, limits, rows, close)


def _most(values: list[float], close: float) -> float:
    """Returns the value that most others agree with."""
    return max(values, key=lambda value: sum(abs(other - value) <= close * abs(value) for other in values))


def _agreed(values: list[float], close: float) -> float | None:
    """Returns the middle of values that are one number but for `close`, relative to the largest or to 1; else None."""
    middle = float(np.median(values)) if values else 1.0
    # close of the middle, or of EMPTY_GRADIENT where the middle is nothing: amounts of 0 are equal to rounding.
    return middle if all(abs(value - middle) <= close * max(abs(middle), EMPTY_GRADIENT) for value in values) else None


# Names several bugs in the gradients of the towers at once.

ALL = "every variable"
FITTED_GRADIENTS = "fitted together with what else is wrong with the gradients"


def gradients_at_once(evidence: Evidence, step: int) -> list[Cause]:
    """Returns what is wrong with the gradients of the towers at a step, everything at once; nothing where no rule fits."""
    rules = gradient_rules(evidence, step)
    if rules is None:
        return []
    towers = [_nearest(weight, rules.close, evidence.towers) for weight in rules.towers.values()]
    # What towers count by, relative to the number that most of them agree on: 1 each, or one of them not.
    whole, weights = split(towers, evidence.towers, rules.close)
    # A factor that does not reach a decay leaves what a decay of another size leaves: it is said once, with the factor.
    beyond = _beyond_a_factor(rules, whole, evidence, step)
    found = list(_of_the_elements(rules))
    if _unequal(weights, rules.close) and follow_other_losses(towers, evidence, step):
        whole = 1.0
    else:
        found += _of_the_towers(weights, rules.close)
    found += _of_the_factors(rules, whole, beyond, evidence, step)
    if not beyond:
        found += _of_the_decay(rules)
    return [*found, *_of_the_step_before(rules, step)]


def split(weights: list[float], towers: int, close: float) -> tuple[float, list[float]]:
    """Splits what the towers count into a factor of all and the rest.

    Most towers count 1 beside the factor; where no two agree, one that counts 1 or one over their number tells it. A factor
    cannot be told from towers that are left out: then those that count do so once.
    """
    counting = [weight for weight in weights if abs(weight) > close]
    if len(counting) < len(weights):
        whole = 1.0
    else:
        agreeing = [sum(is_close(other, weight, close) for other in weights) for weight in weights]
        likely = [weight for weight in weights if is_close(weight, 1.0, close) or is_close(weight, 1 / towers, close)]
        whole = weights[agreeing.index(max(agreeing))] if max(agreeing) > 1 else likely[0] if likely else 1.0
    return whole, [weight / whole for weight in weights]


def _nearest(value: float, close: float, towers: int) -> float:
    # What is known to a few digits only is taken for the number it is likeliest to be.
    likely = [0.0, 1.0, float(towers), 1 / towers, *(2.0**power for power in range(6, 25))]
    return next((each for each in likely if abs(value - each) <= close * max(abs(each), close)), value)


def _of_the_elements(rules: Rules) -> Iterator[Cause]:
    if rules.narrow:
        yield build_cause(
            "reduced_precision",
            "gradients",
            evidence=f"all values of them fit {rules.narrow} exactly in the candidate's float64 run, and not in "
            "the reference's",
            narrow=rules.narrow,
        )
    if rules.limits:
        yield build_cause(
            "clipping",
            "largest in every rank",
            evidence=f"the largest elements of the gradient of {', '.join(rules.limits)} are of one size, and "
            "would be larger by the "
            f"rule that the others follow, {FITTED_GRADIENTS}",
        )
    for name, rows in rules.rows.items():
        yield build_cause(
            "rows_without_gradient",
            evidence=f"{len(rows)} rows have the gradient zero in the candidate alone, "
            f"the others follow one rule, {FITTED_GRADIENTS}",
            rows=", ".join(map(str, rows[:8])),
            name=name,
        )


def _beyond_a_factor(rules: Rules, whole: float, evidence: Evidence, step: int) -> str:
    # f (g - c w) + c w = f g + (1 - f) c w: a factor of the data's loss alone leaves what decay of another size would
    # leave.
    amounts = list(rules.decay.values())
    if not amounts or is_close(whole, 1.0, rules.close):
        return ""
    missed = whole * amounts[0] / (1 - whole)
    if missed <= 0 or not all(is_close(amount, amounts[0], CLOSE_AMOUNT) for amount in amounts):
        return ""
    known = decay_of_the_reference(evidence, step, rules.decay)
    if known is None:
        return (
            f"; the factor does not reach a decay of {missed:.6g}, or weights decay by {abs(amounts[0]):.6g} otherwise"
        )
    return f"; the factor does not reach the decay of {known:.6g}" if is_close(missed, known, CLOSE_AMOUNT) else ""


def _of_the_towers(weights: list[float], close: float) -> Iterator[Cause]:
    if _unequal(weights, close):
        yield cause_of_towers(weights, close)


def _unequal(weights: list[float], close: float) -> bool:
    return max(weights) - min(weights) > close * max(abs(each) for each in weights)


def _of_the_factors(rules: Rules, whole: float, beyond: str, evidence: Evidence, step: int) -> Iterator[Cause]:
    if not is_close(whole, 1.0, rules.close):
        text = f"the candidate's gradients are {whole:.9g} times the reference's, {FITTED_GRADIENTS}{beyond}"
        reduced = other_reduction(whole, text, evidence, step) if _loss_differs(evidence, step) else None
        scaled = has_scaler(evidence, step)
        yield reduced or cause_of_factor(whole, ALL, True, text, evidence.towers, rules.close, scaled)
    wrong = {name: factor for name, factor in rules.variables.items() if not is_close(factor, 1.0, rules.close)}
    factor = next(iter(wrong.values()), 1.0)
    if wrong and all(abs(other - factor) <= rules.close * max(abs(factor), 1.0) for other in wrong.values()):
        where = ", ".join(wrong)
        text = (
            f"the candidate's gradient of {where} is {factor:.9g} times as large beside the others', {FITTED_GRADIENTS}"
        )
        yield cause_of_factor(factor, where, False, text, evidence.towers, rules.close)


def _of_the_decay(rules: Rules) -> Iterator[Cause]:
    amounts = list(rules.decay.values())
    if amounts and all(is_close(amount, amounts[0], CLOSE_AMOUNT) for amount in amounts):
        amount, where = amounts[0], ", ".join(rules.decay)
        yield cause_of_decay(
            amount, where, f"the gradient of {where} is off by {amount:.9g} times the weight, {FITTED_GRADIENTS}"
        )


def _of_the_step_before(rules: Rules, step: int) -> Iterator[Cause]:
    if abs(rules.earlier) > rules.close:
        yield build_cause(
            "stale_gradient",
            evidence=f"the candidate's gradients at step {step} hold {rules.earlier:.6g} times what it had combined at step "
            f"{step - 1}, {FITTED_GRADIENTS}",
        )


def _loss_differs(evidence: Evidence, step: int) -> bool:
    towers = evidence.tower_names(step, "loss")
    pairs = [pair for tower in towers for _, *pair in evidence.pairs(step, "loss", "", tower)]
    return any(abs(float(other - one)) > evidence.close * abs(float(one)) for one, other in pairs)
