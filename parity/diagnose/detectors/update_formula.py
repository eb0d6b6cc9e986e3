"""Causes in the formula of an update: each side's is solved for from its own gradients, slots and weights, and compared.

A cause is named only where the reference's formula gives the reference's update and another one the candidate's, in all of
the first steps, and what is left of the difference is small beside it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from parity.diagnose.catalogue import build_cause
from parity.diagnose.detectors.update_solver import GRADIENT, Form, Formula, Move, forms, holds, moves_of, solve
from parity.diagnose.detectors.weight_decay import cause_of_decay
from parity.diagnose.evidence import ROUNDING, Evidence, is_close, rounds_to_one
from parity.diagnose.fitting import CLOSE_SOLVED
from parity.diagnose.optimizer_input import slot_rule
from parity.judge.metrics import norm
from parity.judge.result import Cause, Explained, FirstDifference

MOST_STEPS = 3  # that a formula has to hold in: slots that start empty make many rules alike in the first
# Of the share that a gradient has beside a slot: both point the same way in early steps, and a fit tells them apart by
# what is left of that.
CLOSE_SHARE = 1e-4
# of a move, from which on it differs: 9,000 roundings of float64
LEAST_DIFFERENCE_OF_MOVES = 1e-12

Moves = Mapping[str, Move]


class Sides(NamedTuple):
    """What both sides did in some steps.

    Fields:
      steps: their numbers, that of the first difference first.
      reference, candidate: for each step name to `Move`.
      names: the variables whose updates differ.
      known: epsilons that are written somewhere, the reference's first.
    """

    steps: list[int]
    reference: Sequence[Moves]
    candidate: Sequence[Moves]
    names: list[str]
    known: list[list[float]]

    @property
    def which(self) -> str:
        """The variables whose updates differ, in words."""
        whole = len(self.names) == len(self.reference[0])
        return f"all {len(self.names)} variables" if whole else ", ".join(self.names)


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


def sides_of(first: FirstDifference, evidence: Evidence) -> Sides:
    """Returns what both sides did in the step of the first difference and those behind it."""
    step = first.check.step
    # From the first difference on, the steps that follow it: earlier ones agree, and hold for any formula.
    steps = [step, *(each for each in evidence.steps if each > step)][:MOST_STEPS]
    reference = [moves_of(evidence, each, candidate=False) for each in steps]
    candidate = [moves_of(evidence, each, candidate=True) for each in steps]
    # Any step: in the first one slots are empty, and two rules may give the same move.
    names = [
        name for name in reference[0] if any(differs(r, c, name) for r, c in zip(reference, candidate, strict=True))
    ]
    return Sides(steps, reference, candidate, names, [_known_epsilons(evidence, each) for each in steps])


def differs(reference: Moves, candidate: Moves, name: str) -> bool:
    """Returns whether both sides move a variable, and not alike."""
    if name not in reference or name not in candidate:
        return False
    one, other = reference[name], candidate[name]
    # Of the move, and beside it ROUNDING of the weight: a move is what storing two weights leaves.
    return norm(other.move - one.move) > LEAST_DIFFERENCE_OF_MOVES * norm(one.move) + ROUNDING * norm(one.weight)


def _known_epsilons(evidence: Evidence, step: int) -> list[float]:
    reference, candidate = evidence.optimizers
    # The reference's first (`known[0]` below), then the candidate's: TensorFlow calls it epsilon, torch eps.
    values = [reference.get("epsilon", 0.0), candidate.get("eps", candidate.get("epsilon", 0.0))]
    plain = [float(each) for each in values if isinstance(each, int | float)]
    second = evidence.counter(step, "beta2_power")
    # torch's epsilon stands beside a root whose bias is corrected: seen from the uncorrected root it is epsilon sqrt(1
    # - beta2^t).
    inside = [each * float(np.sqrt(1 - second)) for each in plain] if second is not None else []
    return [*plain, *inside]


def select_moves(moves: Moves, names: Sequence[str]) -> list[Move]:
    """Returns the moves of some variables, of those that have one."""
    return [moves[name] for name in names if name in moves]


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


def name_formula(
    first: FirstDifference, evidence: Evidence, sides: Sides, own: Formula, found: list[Formula]
) -> Cause | None:
    """Returns what the candidate's formula differs from the reference's by; None where nothing of that has a name.

    Args:
      first: the first difference.
      evidence: the traces.
      sides: what both did.
      own: the reference's formula.
      found: the candidate's, of each step.
    """
    formula = found[0]
    # Decay before form and rate: it was fitted beside them, so that they are known without it.
    if formula.decay:
        return _of_the_decay(first, evidence, sides, own, formula)
    if formula.form != own.form:
        return _of_the_form(first, evidence, sides, own, formula)
    # One factor of all shares is a rate; several would be another rule, which the forms have tried.
    rates = [other / one for one, other in zip(own.shares, formula.shares, strict=True)]
    if not all(is_close(rate, rates[0], CLOSE_SOLVED) for rate in rates):
        return None
    if not rounds_to_one(rates[0]) and not is_close(rates[0], 1.0, CLOSE_SOLVED):
        return _of_the_rate(first, evidence, sides, found, rates[0])
    return _of_the_epsilon(first, evidence, sides, own, formula)


def _of_the_rate(
    first: FirstDifference, evidence: Evidence, sides: Sides, found: list[Formula], factor: float
) -> Cause | None:
    powers = [evidence.counter(sides.steps[0], f"beta{k}_power") for k in (1, 2)]
    if powers[0] is not None and powers[1] is not None and found[0].form.root:
        corrections = {
            # The factor by which Adam's first moves are off where a correction is left out: sqrt(1 - beta2^t) / (1 -
            # beta1^t) of both, or of one of them.
            "missing": float(np.sqrt(1 - powers[1]) / (1 - powers[0])),
            "first moment": 1 / (1 - powers[0]),
            "second moment": float(np.sqrt(1 - powers[1])),
        }
        for variant, corrected in corrections.items():
            # A correction that is 1 at this step, as late in training, is corrected or not alike.
            if is_close(factor * corrected, 1.0, CLOSE_SOLVED) and not is_close(corrected, 1.0, CLOSE_SOLVED):
                text = (
                    f"{found[0].words()} gives the candidate's update of {sides.which} at step {sides.steps[0]}, "
                    f"{factor:.6g} times the reference's"
                )
                return build_cause("bias_correction", variant, evidence=text, explains=explained_fully(first))
    return None  # by the factor alone it is named


def _of_the_epsilon(
    first: FirstDifference, evidence: Evidence, sides: Sides, own: Formula, formula: Formula
) -> Cause | None:
    got, wanted = formula.epsilon, own.epsilon
    # Without a root there is no epsilon; 1e-3 of it, as it is what the fit leaves beside a root that is much larger.
    if not own.form.root or is_close(got, wanted, 1e-3):
        return None
    # Adam's numerator is m, the gradient's average; RMSProp, Adagrad and the like have the gradient itself.
    of_adam = own.form.numerators[0] != GRADIENT
    second = evidence.counter(sides.steps[0], "beta2_power")
    text = (
        f"the candidate's update of {sides.which} is {formula.words()}, the reference's {own.words()}, "
        f"each of its own gradients and slots at step {sides.steps[0]}"
    )
    # got = wanted sqrt(1 - beta2^t): lr m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon), multiplied through by the
    # correction.
    if of_adam and second is not None and is_close(got, wanted * float(np.sqrt(1 - second)), 1e-4):
        return build_cause(
            "adam_epsilon_placement",
            evidence=f"{text}: the candidate adds {wanted:g} to the bias-corrected root (torch's rule); "
            f"TensorFlow adds {wanted:g} "
            "before correcting the bias",
            explains=explained_fully(first),
        )
    candidate = evidence.optimizers[1].get("eps")
    after = (
        isinstance(candidate, float)
        and second is not None
        and is_close(got, candidate * float(np.sqrt(1 - second)), 1e-4)
    )
    shown = f"{candidate:g}" if after and of_adam else f"{got:.6g}"
    text += f", which is {shown} beside the bias-corrected root (torch's rule)" if after and of_adam else ""
    return build_cause(
        _epsilon_of(own.form, evidence),
        "value" if wanted else "zero",
        evidence=text,
        explains=explained_fully(first),
        shown=shown,
        wanted=wanted,
    )


def _epsilon_of(form: Form, evidence: Evidence) -> str:
    if form.numerators[0] != GRADIENT:
        return "adam_epsilon"
    if "rms" in form.root or ("decay" in evidence.optimizers[0] and "accumulator" not in form.root):
        return "rmsprop_epsilon"
    return "optimizer_epsilon"


def _of_the_form(
    first: FirstDifference, evidence: Evidence, sides: Sides, own: Formula, formula: Formula
) -> Cause | None:
    text = (
        f"the candidate's update of {sides.which} is {formula.words()}, the reference's {own.words()}, each of its own "
        f"gradients and slots at steps {', '.join(map(str, sides.steps))}"
    )
    mine, theirs = own.form, formula.form
    # One side has the gradient beside the slot and the other does not: a look ahead, or the slot of before the step.
    ahead = [len(form.numerators) == 2 for form in (mine, theirs)]
    if ahead[0] != ahead[1] and mine.root == theirs.root and mine.numerators[0] == theirs.numerators[0]:
        cause = _of_two_terms(first, evidence, sides, ahead[1], formula if ahead[1] else own, text)
        if cause is not None:
            return cause
    # Same terms, another place of the same epsilon: sqrt(v) + e against sqrt(v + e).
    if mine.numerators == theirs.numerators and mine.root == theirs.root and not theirs.plain and not mine.plain:
        inside, outside = "inside the root", "outside the root"
        name = _epsilon_of(mine, evidence)
        place = (inside, outside) if theirs.inside else (outside, inside)
        # No epsilon on the reference's side: then it is one that is added, not one that moved.
        if not own.epsilon:
            return build_cause(
                name, "added", evidence=text, explains=explained_fully(first), epsilon=formula.epsilon, place=place[0]
            )
        name = "adam_epsilon_placement" if name == "adam_epsilon" else name
        return build_cause(
            name, "root", evidence=text, explains=explained_fully(first), place=place[0], wanted=place[1]
        )
    # Without a root: the slot alone is momentum, and the gradient alone is none.
    if not theirs.root and not mine.root and GRADIENT in (theirs.numerators[0], mine.numerators[0]):
        lost = theirs.numerators[0] == GRADIENT
        return build_cause("momentum", "lost" if lost else "added", evidence=text, explains=explained_fully(first))
    return build_cause(
        "optimizer_rule",
        "formula",
        evidence=text,
        explains=explained_fully(first),
        candidate=theirs.words(),
        reference=mine.words(),
    )


def _of_two_terms(
    first: FirstDifference, evidence: Evidence, sides: Sides, candidate: bool, formula: Formula, text: str
) -> Cause | None:
    """What it is called that one side's update is a slot and the gradient beside it: by the shares of the two.

    With ``slot' = keep slot + take gradient`` a look ahead is ``keep slot' + take gradient``, and what the slot was before
    the step ``(slot' - take gradient) / keep``: only the sign tells them apart.
    """
    slot, *_ = formula.form.numerators
    step, names = sides.steps[0], sides.names
    rule = slot_rule(evidence, step, slot, candidate, names) or slot_rule(evidence, step, slot, candidate, names, True)
    if rule is None or not rule.keep or not formula.shares[0]:
        return None
    # The gradient's share over the slot's: what tells the two rules, as the docstring derives.
    share = formula.shares[1] / formula.shares[0]
    # take / keep: slot' = keep slot + take g, and a look ahead of it is keep slot' + take g, over keep.
    if is_close(share, rule.take / rule.keep, CLOSE_SHARE):
        whose = "candidate" if candidate else "reference"
        return build_cause(
            "nesterov", evidence=text, explains=explained_fully(first), whose=whose, wanted=not candidate
        )
    if is_close(share, -rule.take, CLOSE_SHARE):
        who, other = ("candidate", "reference") if candidate else ("reference", "candidate")
        return build_cause(
            "optimizer_rule",
            "slot before the step",
            evidence=f"{text}: {slot} less what the gradient has added to it",
            explains=explained_fully(first),
            who=who,
            slot=slot,
            other=other,
        )
    return None


def _of_the_decay(
    first: FirstDifference, evidence: Evidence, sides: Sides, own: Formula, formula: Formula
) -> Cause | None:
    rate = evidence.learning_rate(sides.steps[0])
    if not rate:
        return None
    moves = select_moves(sides.candidate[0], sides.names)
    plain = formula._replace(decay=0.0)
    # Of a rule and a decay that are fitted together the one that moves the weights further is named.
    of_the_rule = sum(norm(plain.of(move) - own.of(move)) ** 2 for move in moves)
    of_the_decay = sum(norm(formula.decay * move.weight) ** 2 for move in moves)
    if of_the_rule > of_the_decay:
        return name_formula(first, evidence, sides, own, [plain])
    # Over the rate: decoupled decay is rate times coefficient times weight.
    amount = formula.decay / rate
    where = sides.which
    text = f"the update of {where} is off by {amount:.9g} times the learning rate and the weight"
    return cause_of_decay(amount, where, text)


def explained_fully(first: FirstDifference) -> Explained:
    """Returns that a cause explains all of the first difference."""
    return Explained(first.check.step, first.check.key, 1.0)
