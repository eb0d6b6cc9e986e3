"""Weight decay: what differs is proportional to the weights."""

from collections.abc import Collection

import numpy as np

from parity.causes.evidence import Evidence, Fit, alike, fit
from parity.causes.optimizer_input import optimizer_inputs
from parity.judge.numbers import Array, norm
from parity.judge.result import Cause, FirstDifference

TELLING = 1e-10
ALONE = 1e-13  # relative, between gradients over weights that are nothing but decay
FEW, RARE = 4, 1000  # so many elements, and one in so many, have to have one gradient over weight


def weight_decay(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """The gradient, or the update beside it, is off by a multiple of the weight: decay missing, extra or of another size."""
    step = first.check.step
    if first.quantity in ("loss", "tower_grad"):
        tower = first.tower or (evidence.tower_names(step, "tower_grad") or [""])[0]
        apart = _apart(evidence, step, [*evidence.pairs(step, "tower_grad", "", tower)])
        where, per_weight = "gradient", 1.0
    elif first.quantity == "grad":
        apart, where, per_weight = _apart(evidence, step, [*evidence.pairs(step, "grad")]), "gradient", 1.0
    elif first.quantity == "slot" or (first.quantity == "var" and not evidence.slots(step)):
        inputs = optimizer_inputs(evidence, step) or []
        apart = _apart(evidence, step, [(each.name, each.gradient, each.used) for each in inputs])
        where, per_weight = "gradient that the optimizer works with", 1.0
    elif first.quantity == "var":
        apart = _apart(evidence, step, [*evidence.pairs(step, "var")])
        rate = evidence.learning_rate(step)
        if not rate:
            return None
        where, per_weight = "update", -rate
    else:
        return None
    found, decayed = _proportional(apart, evidence)
    if found is None:
        return None
    amount = found.coefficients[0] / per_weight
    whole = len(decayed) == len(apart)
    where_it_is = "every variable" if whole else ", ".join(decayed)
    text = f"the {where} of {where_it_is} is off by {amount:.9g} times the weight, and nothing else"
    return cause_of_decay(amount, where_it_is, text)


def cause_of_decay(amount: float, where: str, text: str) -> Cause:
    """Returns what it is called that weights decay otherwise.

    Args:
      amount: the candidate's coefficient minus the reference's.
      where: the variables, in words.
      text: the evidence.
    """
    who, other = ("candidate", "reference") if amount > 0 else ("reference", "candidate")
    return Cause(
        "weight_decay",
        f"weight decay of {abs(amount):.4g} in the {who} that the {other} does not have",
        text,
        f"decay what the graph decays, once: {where} by {abs(amount):.4g}"
        + ("" if amount < 0 else " less in the port"),
    )


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
    if (ratios == 0).any():
        return 0.0
    count = max(FEW, gradient.size // RARE)
    first, last = ratios[: len(ratios) - count + 1], ratios[count - 1 :]
    alike = np.flatnonzero(last - first <= ALONE * np.abs(last))
    return float(first[alike[0]]) if len(alike) else None


def _proportional(
    apart: list[tuple[str, Array, Array | None]], evidence: Evidence
) -> tuple[Fit | None, dict[str, tuple[Array, Array]]]:
    # What is a sum of several in the port, such as a bias and a frozen forget bias, decays by one of its terms alone.
    every = {name: (weight, difference) for name, weight, difference in apart if difference is not None}
    whole = {name: pair for name, pair in every.items() if not evidence.join.is_sum(name)}
    for decayed in (every, whole):
        found = fit([[w] for w, _ in decayed.values()], [d for _, d in decayed.values()]) if decayed else None
        # Weights that are all one number may as well have got something added to their gradients, as L1 decay does.
        if found is not None and found.residual <= 1e-5 and not alike([weight for weight, _ in decayed.values()]):
            return found, decayed
    return None, {}


def _apart(
    evidence: Evidence, step: int, pairs: list[tuple[str, Array, Array]]
) -> list[tuple[str, Array, Array | None]]:
    found = []
    largest = max((norm(other - one) for _, one, other in pairs), default=0.0)
    for name, one, other in pairs:
        weight = evidence.before(step, "var", name)
        if weight is None or not np.any(weight):
            continue
        difference = other - one
        telling = norm(difference) > 1e-6 * largest and norm(difference) > TELLING * norm(one)
        found.append((name, weight, difference if telling else None))
    return found
