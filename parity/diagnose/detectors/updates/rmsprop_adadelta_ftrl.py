"""Causes in the update rules of RMSProp, Adadelta and Ftrl, whose numbers are solved for from what their slots became.

RMSProp's momentum moves by a formula of its own, as weights do: it is solved for as theirs is, in `formula.py`.
Source: tensorflow/core/kernels/training_ops.cc, `ApplyRMSProp`, `ApplyAdadelta` and `ApplyFtrl`.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from parity.diagnose.agreement import fit, is_close
from parity.diagnose.catalogue import build_cause
from parity.diagnose.detectors.updates.formula import formulas_of
from parity.diagnose.detectors.updates.formula_names import name_formula
from parity.diagnose.detectors.updates.sides import Moves, Sides, differs, explained_fully, select_moves, sides_of
from parity.diagnose.detectors.updates.solver import GRADIENT, Form, Formula, Move, forms, holds, solve
from parity.diagnose.evidence import Evidence
from parity.diagnose.fitting import CLOSE_SOLVED, RESIDUAL_OF_RULE
from parity.diagnose.optimizer_input import slot_rule
from parity.judge.result import Cause, FirstDifference
from parity.trace import parse_key
from parity.trace.arrays import Array

# A strength or rate that is not next to nothing. What is solved for is absolute to CLOSE_SOLVED times this: a strength
# of 0 comes out as rounding, of which no part can be asked.
LEAST_SETTING = 1e-3
SLOT_OF_UPDATES = "momentum"  # RMSProp's: it takes the update up, learning rate and all


class _Own(NamedTuple):
    # One side's tensors of one variable: what its optimizer was given, its slots before and after, its weight.
    gradient: Array
    before: tuple[Array, Array]
    after: tuple[Array, Array]
    weight: Array
    moved: Array


def adadelta_epsilon(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """Adadelta adds another epsilon inside its two roots."""
    step = first.check.step
    if first.quantity not in ("slot", "var") or not {"accum", "accum_update"} <= set(evidence.slots(step)):
        return None
    # The epsilon is solved for with rho taken as known: another rho would be fitted by another epsilon.
    shares = [slot_rule(evidence, step, "accum", candidate=side) for side in (False, True)]
    if shares[0] is None or shares[1] is None or abs(shares[0].keep - shares[1].keep) > RESIDUAL_OF_RULE:
        return None
    keep = shares[0].keep

    def of(own: _Own) -> tuple[list[Array], Array]:
        # update ** 2 (accum' + e) = (accum_update + e) g ** 2, and accum_update' = rho accum_update + (1 - rho) update
        # ** 2.
        # update^2, by element: the slot takes up 1 - rho of it, so that another rate, which multiplies the move alone,
        # is not in it.
        squares = (own.after[1] - keep * own.before[1]) / (1 - keep)
        # Linear in e: e (g^2 - update^2) = update^2 accum' - accum_update g^2, one unknown over all elements of all
        # variables.
        return [own.gradient**2 - squares], squares * own.after[0] - own.before[1] * own.gradient**2

    solved = [_solve(evidence, step, ("accum", "accum_update"), side, of) for side in (False, True)]
    # 1e-3 of the larger: e is the difference of two squares that are often alike, and comes out to few digits.
    if solved[0] is None or solved[1] is None or is_close(solved[1][0], solved[0][0], 1e-3):
        return None
    wanted, got = solved[0][0], solved[1][0]
    return build_cause(
        "optimizer_epsilon",
        evidence=f"each side's slots and gradients at step {step} follow Adadelta's rule with its own epsilon "
        "inside both roots",
        got=got,
        wanted=wanted,
    )


def ftrl_setting(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """Ftrl penalises weights otherwise, or has another learning rate."""
    step, slots = first.check.step, ("accum", "linear")
    if first.quantity not in ("slot", "var") or not set(slots) <= set(evidence.slots(step)):
        return None
    # TensorFlow stores the power of the learning rate, negative: -0.5 is the root of the sum of squares.
    power = -float(evidence.optimizers[0].get("learning_rate_power", -0.5))

    def of(own: _Own) -> tuple[list[Array], Array]:
        # w' (accum' ** p / rate + 2 l2) = sign(linear') l1 - linear', where w' is not zero.
        # Where |linear'| <= l1 the rule sets the weight to 0, whatever the rate: those elements tell nothing.
        live = own.moved != 0.0
        columns = [own.moved * own.after[0] ** power, 2 * own.moved, -np.sign(own.after[1])]
        return [column[live] for column in columns], -own.after[1][live]

    solved = [_solve(evidence, step, slots, side, of) for side in (False, True)]
    if solved[0] is None or solved[1] is None:
        return None
    names = ("learning_rate", "l2_regularization_strength", "l1_regularization_strength")
    # The first coefficient is 1 / rate; 0 would be a rate without end, which no optimizer has.
    values = [(1 / each[0] if each[0] else 0.0, *each[1:]) for each in solved if each is not None]
    size = [max(abs(values[0][k]), abs(values[1][k]), LEAST_SETTING) for k in range(3)]
    # Each setting relative to the larger of the two sides', or where both are next to nothing to LEAST_SETTING.
    wrong = [k for k in range(3) if abs(values[1][k] - values[0][k]) > CLOSE_SOLVED * size[k]]
    if not wrong:
        return None
    text = ", ".join(f"{names[k]} {_shown(values[1][k])} where the reference has {_shown(values[0][k])}" for k in wrong)
    # The rate alone has a cause of its own: it is usually the port's schedule, and not a penalty.
    name, variant = ("learning_rate", "ftrl") if wrong == [0] else ("optimizer_setting", "")
    return build_cause(
        name,
        variant,
        evidence=f"each side's weights at step {step} are what Ftrl's rule makes of its slots with these numbers",
        text=text,
    )


def _shown(value: float) -> str:
    return f"{round(value, 12) + 0.0:.6g}"  # what is solved for is 0 but for rounding


def _solve(
    evidence: Evidence,
    step: int,
    slots: tuple[str, str],
    candidate: bool,
    of: Callable[[_Own], tuple[list[Array], Array]],
) -> tuple[float, ...] | None:
    columns, targets = [], []
    gradients = evidence.applied(step)
    # By slot and variable, of one side: what the rule has to give from the state before and that side's own gradient.
    after = {slot: {name: pair[candidate] for name, *pair in evidence.pairs(step, "slot", slot)} for slot in slots}
    for name, *pair in evidence.pairs(step, "var"):
        before = [evidence.before(step, "slot", name, slot) for slot in slots]
        weight = evidence.before(step, "var", name)
        if name not in gradients or weight is None or before[0] is None or before[1] is None:
            return None
        if any(name not in after[slot] for slot in slots):
            return None
        made = (after[slots[0]][name], after[slots[1]][name])
        own = _Own(gradients[name][candidate], (before[0], before[1]), made, weight, pair[candidate])
        parts, target = of(own)
        columns.append(parts)
        targets.append(target)
    # One fit over all variables: each has its own slots, but they share the settings that are solved for.
    found = fit(columns, targets) if targets else None
    return found.coefficients if found is not None and found.residual <= RESIDUAL_OF_RULE else None


def other_slot_of_updates(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """RMSProp's momentum takes the update up by another formula: another momentum, rate, epsilon or root."""
    slots = evidence.slots(first.check.step)
    if first.quantity != "slot" or SLOT_OF_UPDATES not in slots or len(slots) < 2:
        return None
    missing = first.check.verdict == "incomparable"
    if not missing and parse_key(first.check.key).slot != SLOT_OF_UPDATES:
        return None
    sides = _of_a_slot(sides_of(first, evidence))
    moves = select_moves(sides.reference[0], sides.names)
    if not moves:
        return None
    # Most terms first, so that a centred RMSProp is not taken for a plain one with a strange epsilon.
    for form in _roots_of([each for each in moves[0].terms if each not in (SLOT_OF_UPDATES, GRADIENT)]):
        own = solve(form, moves, sides.known[0][0], decays=True)
        if own is not None and holds(own, moves):
            return _of_the_slot(first, evidence, sides, own)
    return None


def _of_a_slot(sides: Sides) -> Sides:
    # A slot that takes updates up moves as weights do: by its formula, and by what it keeps of itself as by a decay.
    slot = SLOT_OF_UPDATES

    def own(moves: Moves) -> Moves:
        return {
            # As its weight the slot before the step, and as its move the slot after it.
            name: Move(move.before[slot], move.terms[slot], move.terms, move.before)
            for name, move in moves.items()
            if slot in move.before and slot in move.terms
        }

    reference, candidate = [own(each) for each in sides.reference], [own(each) for each in sides.candidate]
    names = [name for name in reference[0] if differs(reference[0], candidate[0], name)]
    return sides._replace(reference=reference, candidate=candidate, names=names)


def _of_the_slot(first: FirstDifference, evidence: Evidence, sides: Sides, own: Formula) -> Cause | None:
    found = formulas_of(sides, own.form, [each[0] for each in sides.known], decays=True)
    if found is not None:
        kept, factor = round(found[0].decay, 9), found[0].shares[0] / own.shares[0]
        if abs(kept - own.decay) > CLOSE_SOLVED:
            return build_cause(
                "momentum",
                "other",
                evidence=f"momentum' = {kept:g} momentum + {found[0]._replace(decay=0.0).words()} gives that of "
                f"{sides.which}",
                explains=explained_fully(first),
                got=kept,
                wanted=own.decay,
            )
        if is_close(factor, 1.0, CLOSE_SOLVED):
            return None
        if is_close(found[0].shares[0], 1.0, CLOSE_SOLVED):
            return build_cause(
                "optimizer_rule",
                "rate outside the momentum",
                evidence=f"momentum' = {own.decay:g} momentum + {found[0]._replace(decay=0.0).words()} gives "
                f"{sides.which}', "
                f"{own.shares[0]:.6g} in place of the 1 gives the reference's",
                explains=explained_fully(first),
            )
        return build_cause(
            "learning_rate",
            "factor",
            evidence=f"what the momentum takes up is {factor:.9g} times the reference's for {sides.which}",
            explains=explained_fully(first),
            factor=factor,
        )
    taken, plain = _taken_up(sides, own.decay), own._replace(decay=0.0)
    slots = [
        each
        for each in select_moves(sides.candidate[0], sides.names)[0].terms
        if each not in (SLOT_OF_UPDATES, GRADIENT)
    ]
    for form in (own.form, own.form._replace(inside=not own.form.inside), *_roots_of(slots)):
        for place in (0, 1, None):
            epsilons = [None if place is None else each[place] for each in sides.known]
            found = formulas_of(taken, form, epsilons, decays=False)
            if found is not None:
                return name_formula(first, evidence, taken, plain, found)
    return None


def _taken_up(sides: Sides, kept: float) -> Sides:
    def taken(moves: Moves) -> Moves:
        return {name: move._replace(move=move.move - kept * move.weight) for name, move in moves.items()}

    return sides._replace(
        reference=[taken(each) for each in sides.reference], candidate=[taken(each) for each in sides.candidate]
    )


def _roots_of(slots: Sequence[str]) -> Iterator[Form]:
    # A root of more slots first: RMSProp that is not centered has no second one.
    found = [form for form in forms(slots) if form.numerators == (GRADIENT,) and form.root]
    yield from sorted(found, key=lambda form: -len(form.root))
