"""What the difference of two formulas of an update is called: a rate, an epsilon and its place, a decay, a look ahead."""

import numpy as np

from parity.diagnose.agreement import is_close, rounds_to_one
from parity.diagnose.catalogue import build_cause
from parity.diagnose.detectors.updates.sides import Sides, explained_fully, select_moves
from parity.diagnose.detectors.updates.solver import GRADIENT, Form, Formula
from parity.diagnose.detectors.weight_decay import cause_of_decay
from parity.diagnose.evidence import Evidence
from parity.diagnose.fitting import CLOSE_SOLVED
from parity.diagnose.optimizer_input import slot_rule
from parity.judge.metrics import norm
from parity.judge.result import Cause, FirstDifference

# Of the share that a gradient has beside a slot: both point the same way in early steps, and a fit tells them apart by
# what is left of that.
CLOSE_SHARE = 1e-4


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
            f"TensorFlow adds {wanted:g} before correcting the bias. "
            f"Size of the effect at step {sides.steps[0]}: up to {_effect(sides):.2g} of a weight's update",
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


def _effect(sides: Sides) -> float:
    """Returns by how much of itself an element's update differs at most, in the first step: 0.05 for one that is 5% off."""
    # A port with torch's own Adam is right but for this: its user has to decide whether it matters. It does where the root
    # beside the epsilon is small, and so for single elements.
    largest = 0.0
    for one, other in (
        (sides.reference[0][name].move, sides.candidate[0][name].move)
        for name in sides.names
        if name in sides.reference[0] and name in sides.candidate[0]
    ):
        there = one != 0
        largest = max(largest, float(np.max(np.abs(other[there] - one[there]) / np.abs(one[there]), initial=0.0)))
    return largest


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
