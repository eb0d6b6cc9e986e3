"""Causes in clipping, of gradients and of weights: another limit, another norm, another place, or none."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from parity.diagnose.agreement import EMPTY_GRADIENT, LEFT, common_factor, explained
from parity.diagnose.catalogue import build_cause
from parity.diagnose.evidence import Evidence
from parity.diagnose.fitting import CLOSE_DERIVED
from parity.diagnose.optimizer_input import optimizer_inputs
from parity.judge.metrics import norm
from parity.judge.result import Cause, FirstDifference
from parity.trace.arrays import Array

OF_TORCH = 1e-6  # what clip_grad_norm_ adds to the norm that it divides by (torch/nn/utils/clip_grad.py)
PAIRS = list[tuple[Array, Array]]


class Rule(NamedTuple):
    """What was done to gradients.

    Fields:
      text: in words, for "the candidate ...".
      fully: whether the numbers leave no other reading.
      by: "global norm", "norm" or "value"; "" where nothing was.
      value: the limit; of several the largest.
    """

    text: str
    fully: bool
    by: str = ""
    value: float = 0.0


NONE = Rule("leaves the gradients as they are", True)


def clipping_rule(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """The two sides clip the combined gradients otherwise, or only one of them clips."""
    if first.quantity != "clip":
        return None
    step = first.check.step
    # By variable; `own` and `clipped` below are cut down to those that have both, in the same order.
    gradients = {name: (one, other) for name, one, other in evidence.pairs(step, "grad")}
    clipped = {name: (one, other) for name, one, other in evidence.pairs(step, "clip") if name in gradients}
    if first.check.verdict == "incomparable":
        return _never_clipped(step, evidence)
    # Each side by its own gradients, so that a gradient that differs already is no clipping.
    reference, candidate = (how([(gradients[n][side], pair[side]) for n, pair in clipped.items()]) for side in (0, 1))
    own = [gradients[name][1] for name in clipped]
    # Nothing to say where both follow the same rule, or where one is unknown while the other one clips too.
    if candidate == reference or (NONE not in (reference, candidate) and None in (reference, candidate)):
        return None
    if reference is not None and candidate is not None and reference.by == candidate.by:
        made = _made(candidate, {name: gradients[name][1] for name in clipped})
        if not all(explained(other - made[name], other - one, one) for name, (one, other) in clipped.items()):
            return None  # the limits are alike, and what differs is something else
    if reference is not None and candidate is not None and _adds_a_millionth(reference, candidate, own):
        return build_cause(
            "clipping",
            "epsilon",
            evidence=f"the candidate clips by global norm to {candidate.value:.12g} where the reference clips to "
            f"{reference.value:.12g}: norm / (norm + 1e-6) of it",
        )
    scaled = _one_factor(evidence)
    # Only against a global norm: by norm and by value each variable or element has a factor of its own.
    if scaled is not None and candidate is not None and candidate.by == "global norm":
        text = f"multiplies the combined gradients by {scaled:.6g} at every step, whatever their norm"
        if reference == NONE:
            evidence_of = f"the candidate {text}"
            return build_cause("gradient_factor", "in place of clipping", evidence=evidence_of, factor=scaled)
        candidate = Rule(text, True)
    if reference is not None and candidate is not None and reference.text == candidate.text:
        # Limits that are alike in the usual digits are told with all of them.
        reference, candidate = (r._replace(text=f"{r.text} ({r.value:.12g})") for r in (reference, candidate))
    otherwise = Rule("changes them by a rule of its own", False)
    return build_cause(
        "clipping",
        "rule",
        evidence=f"that is what turns the combined gradients of all {len(clipped)} variables into the clipped "
        "ones on either side; "
        "the combined gradients are the same",
        candidate=(candidate or otherwise).text,
        reference=(reference or otherwise).text,
    )


def clipped_before_combining(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """The candidate clips the gradient of every rank by itself, where the reference does not."""
    if first.quantity != "tower_grad":
        return None
    pairs = [(one, other) for _, one, other in evidence.pairs(first.check.step, "tower_grad", "", first.tower)]
    largest = max((norm(one) for one, _ in pairs), default=0.0)
    pairs = [(one, other) for one, other in pairs if norm(one) > EMPTY_GRADIENT * largest]
    # Those that are below the limit stay as they are to the last bit: they say nothing of the rule.
    changed = [(one, other) for one, other in pairs if norm(other - one) > CLOSE_DERIVED * norm(one)]
    rule = how(changed) if changed else None
    # One variable that is cut by its own norm has one factor, as any factor of its gradient has: not told.
    if rule is None or not rule.fully:
        return None
    return build_cause(
        "clipping",
        "in every rank",
        evidence=f"rank {first.tower}'s gradients of {len(changed)} of {len(pairs)} variables are the "
        "reference's, cut off so",
        rule=rule.text,
    )


def weight_limit(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """One side cuts its weights off at a limit after the update, as a WGAN's critic does, where the other's go further."""
    # Graphs hold learning rates in float32: what is not cut off may be some 1e-8 of its move apart.
    step, close = first.check.step, max(evidence.close, CLOSE_DERIVED)
    found = evidence.pairs(step, "var") if first.quantity == "var" else ()
    differing = {name: (one, other) for name, one, other in found if norm(other - one) > close * norm(one)}
    for side in ("port", "graph") if first.name in differing else ():
        changed = {name: (one, other) if side == "port" else (other, one) for name, (one, other) in differing.items()}
        rule, inside = by_value(list(changed.values()), close) or NONE, 0
        for name, (free, cut) in changed.items() if rule.by and rule.fully else ():
            # Every value on the cut side lies within the limit, those beyond it on the other side lie at the limit:
            # that is clip(w, -c, c), and no other rule leaves w where it is and cuts the rest at one size.
            start, limit = evidence.before(step, "var", name), rule.value
            if start is None or not explained(cut - np.clip(free, -limit, limit), cut - free, free):
                break
            # Elements that both sides move alike show that the rate is the same: else the limit could be another rate.
            moves_equally = np.abs(cut - free) < LEFT * np.abs(cut - start)
            inside += int((moves_equally & (np.abs(cut) < (1 - close) * limit)).sum())
        else:
            # Where all that moves ends at one distance, as zeros do by Adam's first update, the rate may be another.
            if inside:
                text = f"in {', '.join(changed)} what differs is that number on one side and beyond it on the other"
                text += f"; {inside} weights that move within it are the same"
                return build_cause("weight_limit", side, evidence=text, limit=limit)
    return None


def how(pairs: PAIRS) -> Rule | None:
    """Returns what turns gradients into clipped ones, or None where it is none of the usual rules.

    Args:
      pairs: for each variable its gradient before and after.
    """
    # By global norm all gradients are multiplied by one number, limit / sqrt(sum |g|^2) < 1; what comes out has the
    # limit for its norm. By norm each has a factor of its own and comes out with the limit; by value single elements
    # do.
    factor = common_factor(pairs, 1e-7)
    # 1e-9: gradients of right ports are 6e-12 apart at most, so that a factor nearer to 1 than this is rounding.
    if factor is not None and abs(factor - 1) <= 1e-9:
        return NONE
    # Of one variable alone a global norm is its own norm: `_by_norm` says that, and is as exact.
    if factor is not None and 0 < factor < 1 and len(pairs) > 1:
        total = float(np.sqrt(sum(norm(after) ** 2 for _, after in pairs)))
        return Rule(f"clips by global norm to {total:.6g}", False, "global norm", total)
    changed = [(before, after) for before, after in pairs if norm(after - before) > CLOSE_DERIVED * norm(before)]
    return _by_norm(changed) or by_value(changed)


def limit_of(pairs: PAIRS) -> Rule | None:
    """Returns the rule by which gradients are clipped, or None where none of them is, or by none of the usual rules."""
    rule = how(pairs) if pairs else None
    return rule if rule is not None and rule.by else None


def _one_factor(evidence: Evidence) -> float | None:
    # A limit makes another factor of every norm: one factor at all steps, of gradients of several norms, is none's.
    factors, norms = [], []
    for step in evidence.steps:
        gradients = {name: other for name, _, other in evidence.pairs(step, "grad")}
        pairs = [(gradients[name], other) for name, _, other in evidence.pairs(step, "clip") if name in gradients]
        factors.append(common_factor(pairs, 1e-7))
        norms.append(float(np.sqrt(sum(norm(before) ** 2 for before, _ in pairs))))
    known = [factor for factor in factors if factor is not None]
    # One step tells none: there every limit is a factor. With one norm at all steps neither can be told from the other.
    if len(known) < max(len(factors), 2) or max(norms) - min(norms) <= LEFT * max(norms):
        return None
    return known[0] if max(known) - min(known) <= CLOSE_DERIVED * abs(known[0]) else None


def _made(rule: Rule, gradients: dict[str, Array]) -> dict[str, Array]:
    if rule.by == "value":
        return {name: np.clip(value, -rule.value, rule.value) for name, value in gradients.items()}
    total = float(np.sqrt(sum(norm(value) ** 2 for value in gradients.values())))
    sizes = {name: total if rule.by == "global norm" else norm(value) for name, value in gradients.items()}
    # min(1, limit / size): what is smaller is left alone. 1e-300 for a gradient that is exactly zero, whose factor is
    # 1.
    return {name: value * min(1.0, rule.value / max(sizes[name], 1e-300)) for name, value in gradients.items()}


def _by_norm(changed: PAIRS) -> Rule | None:
    factors = [common_factor([pair], 1e-7) for pair in changed]
    norms = [norm(after) for _, after in changed]
    if not norms or any(factor is None or not 0 < factor < 1 for factor in factors):
        return None
    if max(norms) - min(norms) > CLOSE_DERIVED * max(norms):
        return None
    # Of one variable any factor below 1 is a norm: several that end at the same norm do not do that by chance.
    return Rule(f"clips each gradient by its own norm to {norms[0]:.6g}", len(norms) > 1, "norm", norms[0])


def by_value(changed: PAIRS, close: float = 1e-9) -> Rule | None:
    """Returns the rule where elements of gradients are cut off at a limit, or at one for each, and else None.

    Args:
      changed: for each variable that is touched its gradient before and after.
      close: what the gradients are known to, relative.
    """
    limits: list[float] = []
    elements = 0
    # After each variable `limits` holds what its elements are cut off at, and `elements` how many were, over all so
    # far.
    for before, after in changed:
        cut = np.abs(after - before) > close * np.abs(before).max()
        # Relative to the largest, so that `close` is one relative bound for variables of any size.
        sizes = np.sort(np.abs(after[cut]) / max(float(np.abs(after).max()), 1e-300))
        # Equal sizes merged: each that is left is a limit of its own.
        sizes = sizes[np.diff(sizes, prepend=-1.0) > close]
        # One variable of the graph may be two of the port, each with a limit of its own.
        if (
            not 0 < len(sizes) <= 2
            # Clipped values are smaller than they were, and keep their sign: a value that grew is no clipping.
            or (np.abs(before[cut]) <= np.abs(after[cut])).any()
            or (before[cut] * after[cut] < 0).any()
            or sizes[-1] < 1 - CLOSE_DERIVED  # what is not cut is larger than the limit
        ):
            return None
        elements += int(cut.sum())
        limits += [float(size * np.abs(after).max()) for size in sizes]
    if not limits or not min(limits) > 0.0:
        return None
    # Any number is the limit of the one element that it is read off.
    distinct = 1 + int((np.diff(np.sort(limits)) > CLOSE_DERIVED * max(limits)).sum())
    fully = elements > distinct
    span = (
        f"{min(limits):.4g}"
        if max(limits) <= min(limits) * (1 + CLOSE_DERIVED)
        else f"{min(limits):.4g} to {max(limits):.4g}"
    )
    doubt = "" if fully else f" (as far as {elements} of their elements can say)"
    return Rule(f"clips the gradients by value to {span}{doubt}", fully, "value", max(limits))


def _adds_a_millionth(reference: Rule, candidate: Rule, gradients: Sequence[Array]) -> bool:
    """Whether the candidate's limit is that of `torch.nn.utils.clip_grad_norm_`: limit / (norm + 1e-6) of the gradient."""
    if reference.by != "global norm" or candidate.by != "global norm":
        return False
    total = float(np.sqrt(sum(norm(each) ** 2 for each in gradients)))
    # limit g / (n + 1e-6) has the norm limit n / (n + 1e-6).
    wanted = reference.value * total / (total + OF_TORCH)
    # By LEFT of the effect itself, limit - limit n / (n + 1e-6), which is 1e-6 / n of the limit and so near to nothing
    # where gradients are large: then neither is told.
    return abs(candidate.value - wanted) <= LEFT * abs(reference.value - wanted)


def _never_clipped(step: int, evidence: Evidence) -> Cause | None:
    inputs = optimizer_inputs(evidence, step)
    whole = {name: other for name, _, other in evidence.pairs(step, "grad")}
    # Derived from slots or moves, and so to CLOSE_DERIVED: they are as good as the optimizer's rule could be read off.
    if not inputs or any(
        norm(each.used - whole[each.name]) > CLOSE_DERIVED * norm(whole[each.name]) for each in inputs
    ):
        return None
    return build_cause(
        "clipping",
        "never",
        evidence=f"its optimizer works with the combined gradients of all {len(inputs)} variables as they are, "
        "and it records no "
        "clipped ones",
    )
