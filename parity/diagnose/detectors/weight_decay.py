"""Weight decay: what differs is proportional to the weights."""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from parity.diagnose.agreement import CLOSE, Fit, alike, fit
from parity.diagnose.catalogue import build_cause
from parity.diagnose.evidence import Evidence
from parity.diagnose.optimizer_input import optimizer_inputs
from parity.judge.metrics import norm
from parity.judge.result import Cause, FirstDifference
from parity.trace.arrays import Array

LEAST_DIFFERENCE = 1e-10  # of a gradient: less may be rounding, 6e-12 of it in 40 layers
CLOSE_RATIO = 1e-13  # relative, between gradients over weights that are nothing but decay: 900 roundings of float64
# Of what differs, by a multiple of the weight. A decay of 1e-4 moves a gradient by about as much of itself; 1e-5 of
# that, 1e-9 of the gradient, is `CLOSE`.
RESIDUAL_OF_DIFFERENCE = 1e-5
RESIDUAL_ELSEWHERE = 1e-4  # of what differs in another step or tower, by the same multiple: ten times the above
FROM_WHOLE_MULTIPLE = 1e-3  # of a coefficient: how far a multiple of it may lie from a whole one
MOST_LOOKUPS = 100  # of a row: above, FROM_WHOLE_MULTIPLE on either side of each makes any amount near some multiple
FEWEST_ELEMENTS = 4  # that tell an amount of their own: one is some multiple of any weight
FEWEST_RATIOS, ONE_RATIO_IN = 4, 1000  # so many elements, and one in so many, have to have one gradient over weight


Law = Callable[[str, Array], Array]  # of a variable and its weight: what differs


class Apart(NamedTuple):
    """What differs at one step, in one tower, over what one unit of decay makes of it.

    Fields:
      where: what it is that differs, in words.
      every: name, weight before the step, and difference, None where it is nothing but rounding.
    """

    where: str
    every: list[tuple[str, Array, Array | None]]

    @property
    def told(self) -> dict[str, tuple[Array, Array]]:
        """Weight and difference of what differs."""
        return {name: (weight, left) for name, weight, left in self.every if left is not None}


def weight_decay(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """The gradient, or the update beside it, is off by a multiple of the weight: decay missing, extra or of another size.

    A gradient that is not let through a norm of the weight is off by a multiple of it too, by another one in every step and
    tower: what is named holds in all of them.
    """
    step = first.check.step
    # A decay inside the loss shows in the loss first, and in the towers' gradients as a multiple of the weight.
    quantity = "tower_grad" if first.quantity in ("loss", "tower_grad") else first.quantity
    tower = first.tower
    own = _apart_in(quantity, evidence, step, tower)
    if own is None:
        return None
    # A generator: other towers and steps are read only until one of them refutes the amount.
    others = _elsewhere(quantity, evidence, step, tower)
    found, decayed = _proportional(own, evidence)
    if found is None:
        return _by_variable(own, others)
    amount = found.coefficients[0]
    if not _holds(lambda name, weight: amount * weight, decayed, others):
        return None
    # Every variable, or the ones that decay: a bias often does not.
    whole = evidence.is_whole and len(decayed) == len(own.every)
    where_it_is = "every variable" if whole else ", ".join(decayed)
    text = f"the {own.where} of {where_it_is} is off by {amount:.9g} times the weight, and nothing else"
    known = decay_of_the_reference(evidence, step, decayed)
    # Nothing is added where the reference decays nothing, or where it is not known by how much.
    if known:
        text += f": {known + amount:.6g} where the reference has {known:.6g}"
    return cause_of_decay(amount, where_it_is, text)


def _apart_in(quantity: str, evidence: Evidence, step: int, tower: str) -> Apart | None:
    where, per_weight = "gradient", 1.0
    if quantity in ("tower_grad", "grad"):
        pairs = list(evidence.pairs(step, quantity, "", tower if quantity == "tower_grad" else ""))
    elif quantity == "slot" or (quantity == "var" and not evidence.slots(step)):
        pairs = [(each.name, each.gradient, each.used) for each in optimizer_inputs(evidence, step) or []]
        where = "gradient that the optimizer works with"
    elif quantity == "var":
        # A script that writes its updates by hand has its rate in no slot or counter; what else differs is not named here.
        rate = evidence.learning_rate(step) or evidence.candidate_rate(step)
        if not rate:
            return None
        # w' = w - rate (u + c w): where c differs, weights after the step are off by -rate c w.
        pairs, where, per_weight = list(evidence.pairs(step, "var")), "update", -rate
    else:
        return None
    return Apart(where, _apart(evidence, step, pairs, per_weight))


def _elsewhere(quantity: str, evidence: Evidence, step: int, tower: str) -> Iterator[Apart]:
    """Yields what differs in the other towers of a step, and in all towers of other steps, where something does."""
    for each in evidence.steps:
        towers = evidence.tower_names(each, "tower_grad") if quantity == "tower_grad" else [tower]
        # Without the place that was asked about: it has already agreed with itself.
        for name in towers:
            apart = _apart_in(quantity, evidence, each, name) if (each, name) != (step, tower) else None
            if apart is not None and apart.told:
                yield apart


def _holds(law: Law, names: Collection[str], others: Iterable[Apart]) -> bool:
    return all(_agrees(law, names, apart.told) for apart in others)


def _agrees(law: Law, names: Collection[str], told: dict[str, tuple[Array, Array]]) -> bool:
    # What the law leaves of what differs; tested over all variables together, as it was found.
    parts = [(left, left - law(name, weight)) for name, (weight, left) in told.items() if name in names]
    apart, rest = (float(np.sqrt(sum(norm(each[place]) ** 2 for each in parts))) for place in (0, 1))
    return rest <= RESIDUAL_ELSEWHERE * apart


def _by_variable(own: Apart, others: Iterable[Apart]) -> Cause | None:
    # Each variable by an amount of its own: groups of other coefficients, norms in place of squares, sizes, single
    # rows.
    told, where = own.told, own.where
    if not told or any(weight.size < FEWEST_ELEMENTS or alike([weight]) for weight, _ in told.values()):
        return None
    for columns, signed in ((_of_weights, False), (_of_signs, True)):
        fits = {variable: fit([columns(weight)], [left]) for variable, (weight, left) in told.items()}
        known = {
            variable: each.coefficients
            for variable, each in fits.items()
            if each and each.residual <= RESIDUAL_OF_DIFFERENCE
        }
        if len(known) < len(told):
            continue
        if signed:
            return _of_sizes(known, where) if _holds(_law_of(known), told, others) else None
        return _of_amounts({v: c[0] for v, c in known.items()}, told, where, others)
    return _of_rows([own, *others])


def _law_of(known: dict[str, tuple[float, ...]]) -> Law:
    return lambda name, weight: known[name][0] * weight + known[name][1] * np.sign(weight)


def _of_weights(weight: Array) -> list[Array]:
    return [weight]


def _of_signs(weight: Array) -> list[Array]:
    return [weight, np.sign(weight)]


def _of_amounts(
    amounts: dict[str, float], told: dict[str, tuple[Array, Array]], where: str, others: Iterable[Apart]
) -> Cause | None:
    norms = {name: norm(weight) for name, (weight, _) in told.items()}
    text = f"the {where} is off by {_listed(amounts)} times the weight, and nothing else"
    # c w / |w| of a norm less c' w of half a square: linear in both.
    columns = [np.array([1 / norms[name] for name in amounts]), -np.ones(len(amounts))]
    # Two unknowns: with two variables they fit whatever the amounts are.
    squares = fit([columns], [np.array(list(amounts.values()))]) if len(amounts) > 2 else None
    # Positive where the candidate decays by norms, as a sum of p.norm() does, and the reference by squares.
    if squares is not None and squares.residual <= RESIDUAL_OF_DIFFERENCE and squares.coefficients[0] > 0.0:
        of_norm, of_square = squares.coefficients
        if not _holds(lambda name, weight: (of_norm / norm(weight) - of_square) * weight, told, others):
            return None
        return build_cause(
            "weight_decay",
            "norms",
            evidence=f"{text}: {of_norm:.6g} over the norm of the variable less {of_square:.6g}",
        )
    # Amounts of each variable by itself, which hold in every other step and tower too.
    if not _holds(lambda name, weight: amounts[name] * weight, told, others):
        return None
    return build_cause("weight_decay", "amounts", evidence=text, amounts=_listed(amounts))


def _of_sizes(known: dict[str, tuple[float, ...]], where: str) -> Cause:
    signs = {name: each[1] for name, each in known.items()}
    # Next to nothing beside the other share is rounding of the fit: said as 0.
    amounts = {name: each[0] if abs(each[0]) > CLOSE * abs(each[1]) else 0.0 for name, each in known.items()}
    return build_cause(
        "weight_decay",
        "sizes" if next(iter(signs.values())) > 0.0 else "squares",
        evidence=f"the {where} is off by {_listed(signs)} times the sign of the weight, and by {_listed(amounts)} times the "
        "weight, and nothing else",
    )


def _of_rows(every: list[Apart]) -> Cause | None:
    # Of a table decay may reach some rows only, or each as often as it is looked up: by whole multiples of one
    # coefficient.
    shown: dict[str, list[Array]] = {}
    for name, (weight, left) in ((name, pair) for apart in every for name, pair in apart.told.items()):
        if weight.ndim != 2 or weight.shape[1] < FEWEST_ELEMENTS:
            return None
        # Row by row <left, w> / <w, w>, float64 [rows]: the multiple of the row that lies nearest to what differs.
        shares = (left * weight).sum(axis=1) / np.maximum((weight**2).sum(axis=1), 1e-300)
        if norm(left - shares[:, None] * weight) > RESIDUAL_OF_DIFFERENCE * norm(left):
            return None
        # Rows that are all zero have no share: they decay by nothing whatever their coefficient.
        shown.setdefault(name, []).append(shares[weight.any(axis=1)])
    if not all(_are_counts(np.concatenate(shares)) for shares in shown.values()):
        return None
    first = {name: shown[name][0] for name in every[0].told}
    spans = ", ".join(f"{shares.min():.6g} to {shares.max():.6g} in {name}" for name, shares in first.items())
    return build_cause(
        "weight_decay",
        "rows",
        evidence=f"every row of the {every[0].where} is off by a multiple of the row of the weight, {spans}, all "
        "of them whole "
        "multiples of one coefficient apart, and by nothing else",
        variables=", ".join(first),
    )


def _are_counts(shares: Array) -> bool:
    """Whether amounts lie whole multiples of one coefficient apart, as counts of lookups make them."""
    # Sorted, the multiples are next to one another: the smallest step between two is one lookup, or a part of one.
    ordered = np.sort(shares)
    close = FROM_WHOLE_MULTIPLE * float(np.abs(ordered).max(initial=0.0))
    gaps = np.diff(ordered)
    gaps = gaps[gaps > close]
    if len(ordered) < FEWEST_ELEMENTS or not len(gaps):
        return False
    # The smallest gap may be one lookup, two or three, where no two rows differ by one.
    for part in (1, 2, 3):
        counts = (ordered - ordered[0]) / (gaps.min() / part)
        if counts.max() < MOST_LOOKUPS and (np.abs(counts - np.round(counts)) <= FROM_WHOLE_MULTIPLE).all():
            return True
    return False


def _listed(amounts: dict[str, float]) -> str:
    # Variables of one amount together.
    groups: dict[str, list[str]] = {}
    for name, amount in amounts.items():
        groups.setdefault(f"{amount:.4g}", []).append(name)
    return "; ".join(f"{amount} for {', '.join(names)}" for amount, names in groups.items())


def cause_of_decay(amount: float, where: str, text: str) -> Cause:
    """Returns what it is called that weights decay otherwise.

    Args:
      amount: the candidate's coefficient minus the reference's.
      where: the variables, in words.
      text: the evidence.
    """
    # The sign says which side decays further; the amount is named without it.
    who, other = ("candidate", "reference") if amount > 0 else ("reference", "candidate")
    return build_cause("weight_decay", who, evidence=text, amount=abs(amount), who=who, other=other, variables=where)


def decay_of_the_reference(evidence: Evidence, step: int, names: Collection[str]) -> float | None:
    """Returns the coefficient by which the reference decays some variables, 0 where it does not; None where it is not told.

    It is what the plan of the towers says, or else the gradient over the weight of elements that the data does not reach,
    such as a unit that is never active.
    """
    plan = evidence.reference.facts.get("plan", {})
    table, where = plan.get("weight_decay"), plan.get("regularization")
    if table:
        # "once" adds it to the combined gradients: those of the towers hold none.
        share = {"once": 0.0, "divided": 1 / evidence.towers}.get(where, 1.0)
        return float(table["coefficient"]) * share
    read = [
        found
        for tower in evidence.tower_names(step, "tower_grad")
        for name, one, _ in evidence.pairs(step, "tower_grad", "", tower)
        if name in names and (found := _of_no_data(one, evidence.before(step, "var", name))) is not None
    ]
    return min(read, default=None)


def _of_no_data(gradient: Array, weight: Array | None) -> float | None:
    if weight is None:
        return None
    ratios = np.sort(gradient[weight != 0] / weight[weight != 0])
    # A gradient of exactly 0 beside a weight that is not: the data does not reach it, and no decay does.
    if (ratios == 0).any():
        return 0.0
    count = max(FEWEST_RATIOS, gradient.size // ONE_RATIO_IN)
    if len(ratios) < count:
        return None  # most of the weights are 0, and what is left is too little to tell
    first, last = ratios[: len(ratios) - count + 1], ratios[count - 1 :]
    # `count` ratios in a row that are one number: elements of the data's gradient do not line up like that.
    alike = np.flatnonzero(last - first <= CLOSE_RATIO * np.abs(last))
    return float(first[alike[0]]) if len(alike) else None


def _proportional(own: Apart, evidence: Evidence) -> tuple[Fit | None, dict[str, tuple[Array, Array]]]:
    # What is a sum of several in the port, such as a bias and a frozen forget bias, decays by one of its terms alone.
    every = own.told
    whole = {name: pair for name, pair in every.items() if not evidence.join.is_sum(name)}
    for decayed in (every, whole):
        found = fit([[w] for w, _ in decayed.values()], [d for _, d in decayed.values()]) if decayed else None
        # Weights that are all one number may as well have got something added to their gradients, as L1 decay does.
        if (
            found is not None
            and found.residual <= RESIDUAL_OF_DIFFERENCE
            and not alike([weight for weight, _ in decayed.values()])
        ):
            return found, decayed
    return None, {}


def _apart(
    evidence: Evidence, step: int, pairs: list[tuple[str, Array, Array]], per_weight: float
) -> list[tuple[str, Array, Array | None]]:
    found = []
    largest = max((norm(other - one) for _, one, other in pairs), default=0.0)
    for name, one, other in pairs:
        weight = evidence.before(step, "var", name)
        if weight is None or not np.any(weight):
            # Of a weight of zeros nothing is a multiple.
            continue
        difference = other - one
        # Beside what differs most, and beside the gradient itself: what is less is rounding.
        telling = norm(difference) > 1e-6 * largest and norm(difference) > LEAST_DIFFERENCE * norm(one)
        found.append((name, weight, difference / per_weight if telling else None))
    return found
