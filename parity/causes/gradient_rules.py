"""Reads off several bugs in the gradients of the towers at once.

Every gradient of the candidate is fitted by ``a_t b_n (g + d w)``, g the reference's gradient of variable n in tower t, w
the weight; beside it the combined gradient of the step before. Several bugs leave each other's numbers alone there, which
none of the hypotheses about a single one does.
"""

from typing import NamedTuple

import numpy as np

from parity.causes.evidence import LEFT, ROUNDING, Evidence
from parity.causes.narrow import BITS, narrow_format
from parity.causes.partly import Partly, counts, fit_partly
from parity.judge.metrics import Array, norm

EXACT = 1e-8
ROUGH = 1e-6  # of a gradient, by data that a norm takes out again but for rounding
EMPTY = 1e-8  # of the largest: zero but for rounding
FEW = 16  # elements: of so few, those that are not cut off may be none
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
    flat = [np.concatenate([pair[side].reshape(-1) for pair in pairs.values()]) for side in (1, 0)]
    narrow = narrow_format(*flat)
    close = 2 * 2.0 ** -BITS[narrow] if narrow else EXACT
    shares: dict[Place, Share] = {}
    for place, pair in pairs.items():
        share = _simplest(_columns(evidence, step, place[0], pair[0]), pair[1], close)
        if share is not None:
            shares[place] = share
        elif pair[0].size > FEW:
            return None
    if not narrow and not _explained(shares, pairs):
        return None
    rules = _assembled(_of_all_towers(shares, towers), narrow, 4 * close)
    return None if rules is None else _with_decay_alone(rules, pairs, evidence, step)


def _with_decay_alone(rules: Rules, pairs: dict[Place, tuple[Array, Array]], evidence: Evidence, step: int) -> Rules:
    # A bias in front of a batch norm has no gradient but its decay, c w: there f c w is c w + (f - 1) c w too.
    amount = _agreed(list(rules.decay.values()), 1e-3) if rules.decay else None
    if amount is None:
        return rules
    variables, decay = dict(rules.variables), dict(rules.decay)
    for name, factor in rules.variables.items():
        along = [
            _along(one, evidence.before(step, "var", name)) for (each, _), (one, _) in pairs.items() if each == name
        ]
        added = (factor - 1) * (along[0] or 0.0)
        if name not in decay and None not in along and abs(added - amount) <= 1e-3 * abs(amount):
            variables[name], decay[name] = 1.0, added
    return rules._replace(variables=variables, decay=decay)


def _along(gradient: Array, weight: Array | None) -> float | None:
    if weight is None or not weight.any():
        return None
    share = float(np.vdot(weight, gradient)) / float(np.vdot(weight, weight))
    return share if norm(gradient - share * weight) <= ROUGH * norm(gradient) else None


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
    largest = max((norm(one) for one, _ in pairs.values()), default=0.0)
    told = {name for (name, _), (one, _) in pairs.items() if norm(one) > EMPTY * largest}
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
        if not set(chosen) <= columns.keys():
            continue
        # What was kept whole is taken out first: a limit is one of the gradient without it.
        for kept in ("", "earlier") if "earlier" in columns else ("",):
            rest = target - columns[kept] if kept else target
            parts = [columns[each] for each in chosen]
            found = fit_partly(parts, rest, close)
            # What rounding to a narrower float leaves is no noise.
            if found is not None and (close > EXACT or counts(found, range(1, len(parts)), parts, rest)):
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
    for name in names:
        silent = all(abs(shares[name, t].of["gradient"]) <= close for t in tower_names if t not in counting)
        factor = _agreed([shares[name, t].of["gradient"] / towers[t] for t in counting], close)
        if not silent or factor is None:
            continue  # what else is done to this one is not told here
        variables[name] = factor
        amounts = [shares[name, t].of.get("weight", 0.0) / (towers[t] * factor) for t in counting] if factor else [0.0]
        if any(amounts):
            amount = _agreed(amounts, 1e-3)
            if amount is None:
                return None
            decay[name] = amount
    earlier = _agreed([shares[n, t].of.get("earlier", 0.0) for n in variables for t in tower_names], 1e-3)
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
    return middle if all(abs(value - middle) <= close * max(abs(middle), EMPTY) for value in values) else None
