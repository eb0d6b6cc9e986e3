"""Weight decay: what differs is proportional to the weights."""

from collections.abc import Collection

import numpy as np

from parity.causes.evidence import Evidence, Fit, alike, fit
from parity.causes.optimizer_input import optimizer_inputs
from parity.judge.numbers import Array, norm
from parity.judge.result import Cause, FirstDifference

TELLING = 1e-10
ALONE = 1e-13  # relative, between gradients over weights that are nothing but decay
FITS = 1e-5  # of what differs
LEAST = 4  # elements that tell an amount of their own
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
        return _by_variable(apart, where, per_weight)
    amount = found.coefficients[0] / per_weight
    whole = len(decayed) == len(apart)
    where_it_is = "every variable" if whole else ", ".join(decayed)
    text = f"the {where} of {where_it_is} is off by {amount:.9g} times the weight, and nothing else"
    known = decay_of_the_reference(evidence, step, decayed)
    if known:
        text += f": {known + amount:.6g} where the reference has {known:.6g}"
    return cause_of_decay(amount, where_it_is, text)


def _by_variable(apart: list[tuple[str, Array, Array | None]], where: str, per_weight: float) -> Cause | None:
    # Each variable by an amount of its own: groups of other coefficients, norms in place of squares, sizes, single rows.
    told = {name: (weight, difference / per_weight) for name, weight, difference in apart if difference is not None}
    if not told or any(weight.size < LEAST or alike([weight]) for weight, _ in told.values()):
        return None
    for columns, name in ((_of_weights, ""), (_of_signs, "sign")):
        fits = {variable: fit([columns(weight)], [left]) for variable, (weight, left) in told.items()}
        known = {variable: each.coefficients for variable, each in fits.items() if each and each.residual <= FITS}
        if len(known) == len(told):
            return _of_sizes(known, where) if name else _of_amounts({v: c[0] for v, c in known.items()}, told, where)
    return _of_rows(told, where)


def _of_weights(weight: Array) -> list[Array]:
    return [weight]


def _of_signs(weight: Array) -> list[Array]:
    return [weight, np.sign(weight)]


def _of_amounts(amounts: dict[str, float], told: dict[str, tuple[Array, Array]], where: str) -> Cause:
    norms = {name: norm(weight) for name, (weight, _) in told.items()}
    text = f"the {where} is off by {_listed(amounts)} times the weight, and nothing else"
    # c w / |w| of a norm less c' w of half a square: linear in both.
    columns = [np.array([1 / norms[name] for name in amounts]), -np.ones(len(amounts))]
    squares = fit([columns], [np.array(list(amounts.values()))]) if len(amounts) > 2 else None
    if squares is not None and squares.residual <= FITS and squares.coefficients[0] > 0.0:
        return Cause(
            "weight_decay",
            "the penalty takes the norms of the weights where the reference takes half their squares",
            f"{text}: {squares.coefficients[0]:.6g} over the norm of the variable less {squares.coefficients[1]:.6g}",
            "tf.nn.l2_loss is sum(w ** 2) / 2, without a root",
        )
    return Cause(
        "weight_decay",
        f"weight decay off by {_listed(amounts)}",
        text,
        "decay what the graph decays, each variable by its coefficient, once",
    )


def _of_sizes(known: dict[str, tuple[float, ...]], where: str) -> Cause:
    signs = {name: each[1] for name, each in known.items()}
    return Cause(
        "weight_decay",
        "the penalty takes the sizes of the weights where the reference takes none or their squares"
        if next(iter(signs.values())) > 0.0
        else "the penalty takes the squares of the weights, or none, where the reference takes their sizes",
        f"the {where} is off by {_listed(signs)} times the sign of the weight, and by "
        f"{_listed({name: each[0] for name, each in known.items()})} times the weight, and nothing else",
        "penalise what the graph penalises: l1 by sum(|w|), l2 by sum(w ** 2) / 2",
    )


def _of_rows(told: dict[str, tuple[Array, Array]], where: str) -> Cause | None:
    # Of a table decay may reach some rows only, or each as often as it is looked up.
    if any(weight.ndim != 2 or weight.shape[1] < LEAST for weight, _ in told.values()):
        return None
    shown = {}
    for name, (weight, left) in told.items():
        shares = (left * weight).sum(axis=1) / np.maximum((weight**2).sum(axis=1), 1e-300)
        if norm(left - shares[:, None] * weight) > FITS * norm(left):
            return None
        shown[name] = shares
    spans = ", ".join(f"{shares.min():.6g} to {shares.max():.6g} in {name}" for name, shares in shown.items())
    return Cause(
        "weight_decay",
        f"the rows of {', '.join(shown)} decay otherwise, each by an amount of its own",
        f"every row of the {where} is off by a multiple of the row of the weight, {spans}, and by nothing else",
        "decay the rows that the graph decays: those that are looked up, each as often as the graph counts it, or all",
    )


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
        if found is not None and found.residual <= FITS and not alike([weight for weight, _ in decayed.values()]):
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
