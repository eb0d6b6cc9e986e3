"""Causes in the formula of an update: each side's is solved for from its own gradients, slots and weights, and compared.

A cause is named only where the reference's formula gives the reference's update and another one the candidate's, in all of
the first steps, and what is left of the difference is small beside it.
"""

from collections.abc import Iterator, Sequence

from parity.diagnose.detectors.updates.formula_names import name_formula
from parity.diagnose.detectors.updates.sides import Sides, select_moves, sides_of
from parity.diagnose.detectors.updates.solver import GRADIENT, Form, Formula, Move, forms, holds, solve
from parity.diagnose.evidence import Evidence
from parity.judge.result import Cause, FirstDifference


def other_update(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """The candidate's update has another formula, or other numbers in it: epsilon, rate, decay, a look ahead, a root."""
    missing = first.quantity == "slot" and first.check.verdict == "incomparable"
    if first.quantity != "var" and not missing:
        return None
    sides = sides_of(first, evidence)
    # The move of this variable must differ itself: what follows from another slot differs without another formula.
    if not sides.names or (not missing and first.name not in sides.names):
        return None
    own = _own_formula(sides)
    if own is None:
        return None
    for form, epsilons, decays in _tried(own.form, list(sides.candidate[0].values()), sides.known):
        found = formulas_of(sides, form, epsilons, decays)
        if found is not None:
            return name_formula(first, evidence, sides, own, found)
    return None


def _own_formula(sides: Sides) -> Formula | None:
    # In all of the steps: in the first one a slot may still be empty, and then it is the gradient but for a factor.
    moves = [list(each.values()) for each in sides.reference]
    # Terms of the first variable: all variables of an optimizer have the same slots.
    slots = [term for term in moves[0][0].terms if term != GRADIENT]
    for form in forms(slots):
        # The epsilon that the facts know, then whatever one fits: a known one leaves a number fewer to solve for.
        for known in (True, False) if form.root else (True,):
            # One epsilon for each step: with a corrected bias it changes from step to step.
            epsilons = [each[0] if known else None for each in sides.known]
            solved = [solve(form, each, epsilon) for each, epsilon in zip(moves, epsilons, strict=True)]
            # One form and one formula in all steps, or the reference's rule is not known and nothing can be said of the
            # candidate's.
            if all(holds(formula, each) for formula, each in zip(solved, moves, strict=True)):
                return solved[0]
    return None


def _tried(
    own: Form, moves: Sequence[Move], known: list[list[float]]
) -> Iterator[tuple[Form, list[float | None], bool]]:
    # The reference's form with another number in it; then what else it may be.
    slots = [term for term in moves[0].terms if term != GRADIENT] if moves else []
    others = [form for form in forms(slots) if form != own]
    # What has fewer numbers, and fits, comes before what has more: a share of 0 beside the slot is none.
    fewer = [form for form in others if form.root == own.root and len(form.numerators) < len(own.numerators)]
    # Without decay first: with it there is one unknown more, and more forms fit.
    for decays in (False, True):
        for form in (*fewer, own, *others):
            # Each known epsilon in turn, in all steps together; last, where nothing decays, one that is solved for.
            for place in range(len(known[0]) if form.root else 1):
                yield form, [each[place] for each in known], decays
            if form.root and not decays:
                yield form, [None] * len(known), decays


def formulas_of(sides: Sides, form: Form, epsilons: list[float | None], decays: bool) -> list[Formula] | None:
    """Returns the candidate's formula of each step, None where the form is not the candidate's in one of them.

    Args:
      sides: what both did.
      form: the shape.
      epsilons: for each step the epsilon, None where it is solved for.
      decays: whether the weights shrink beside.
    """
    found: list[Formula] = []
    for reference, candidate, epsilon in zip(sides.reference, sides.candidate, epsilons, strict=True):
        # Fitted to the variables that differ alone: what is the same follows both formulas.
        names = [name for name in sides.names if name in reference and name in candidate]
        one, other = select_moves(reference, names), select_moves(candidate, names)
        formula = solve(form, other, epsilon, decays)
        # The difference has to be explained in the first step; later ones have differing inputs too.
        if formula is None or not holds(formula, other, None if found else one):
            return None
        found.append(formula)
    return found
