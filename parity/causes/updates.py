"""Causes in the update rule, given the same gradient."""

from collections.abc import Iterator

from parity.causes.evidence import CLOSE, Evidence, common_factor, explained_together, fit, share_explained, told_factor
from parity.causes.optimizer_input import EXACT, SlotRule, linear_slot, slot_rule
from parity.judge.numbers import Array, norm
from parity.judge.result import Cause, FirstDifference


def not_updated(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """Some variables stay as they were, slots and all, though they have a gradient."""
    if first.quantity not in ("slot", "var"):
        return None
    step = first.check.step
    gradients = {name: one for name, one, _ in evidence.pairs(step, "grad")}
    still, moved = [], 0
    for name, one, other in evidence.pairs(step, "var"):
        before = evidence.before(step, "var", name)
        if before is None or norm(one - before) <= 1e-12 * norm(before) or not gradients.get(name, one).any():
            continue
        if norm(other - before) <= 1e-12 * norm(before):
            still.append(name)
        else:
            moved += 1
    if first.name not in still:
        return None
    return Cause(
        "not_updated",
        f"{', '.join(still)} gets no update",
        f"the candidate leaves {', '.join(still)} as it was at step {step}, though its gradient is not zero; "
        f"{moved} others move",
        "give the optimizer all of model.parameters(), after the last of them is made",
    )


def slot_decay(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """A slot keeps, or takes up, another share than the reference's: momentum, beta1, beta2, decay; or it starts anew."""
    if first.quantity != "slot":
        return None
    step = first.check.step
    slot = next((s for s in evidence.slots(step) if f"slot/{s}/{first.name}" == first.check.key), "")
    wanted = slot_rule(evidence, step, slot, candidate=False)
    got = slot_rule(evidence, step, slot, candidate=True)
    if wanted is None or got is None or wanted.power != got.power or abs(got.keep - wanted.keep) <= EXACT:
        return None
    if not explained_together(_made(evidence, step, slot, got)):
        return None
    text = (
        f"slot' = {got.keep:.9g} slot + {got.take:.9g} gradient{'^2' if got.power == 2 else ''} fits every variable of the "
        f"candidate, where the reference has {wanted.keep:.9g} and {wanted.take:.9g}"
    )
    if abs(got.keep) <= EXACT:
        return Cause(
            "slot_reset",
            f"the slot {slot} is forgotten in every step",
            text,
            "make the optimizer once, before the loop, and load its state with the weights",
        )
    averaging = abs(wanted.keep + wanted.take - 1) <= 1e-6
    if averaging and wanted.power == 1:
        name, what = "adam_beta", "beta1"
    elif averaging:
        name, what = "adam_beta", "beta2"
    else:
        name, what = "momentum", "the momentum"
    return Cause(
        name,
        f"{what} is {got.keep:.6g} where the reference has {wanted.keep:.6g}",
        text,
        f"give the port's optimizer {wanted.keep:.6g}",
        share_explained(first, _made(evidence, step, slot, got)),
    )


def _made(evidence: Evidence, step: int, slot: str, rule: SlotRule) -> Iterator[tuple[Array, Array, Array]]:
    gradients = evidence.applied(step)
    for name, one, other in evidence.pairs(step, "slot", slot):
        before = evidence.before(step, "slot", name, slot)
        if before is not None and name in gradients:
            yield rule.keep * before + rule.take * gradients[name][1] ** rule.power, other, one


def nesterov(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """One side's update looks a step ahead, the other's does not."""
    step = first.check.step
    found = linear_slot(evidence, step) if first.quantity == "var" else None
    if found is None:
        return None
    slot, _ = found
    ahead = [_looks_ahead(evidence, step, slot, side) for side in (False, True)]
    if None in ahead or ahead[0] == ahead[1]:
        return None
    whose = "candidate" if ahead[1] else "reference"
    return Cause(
        "nesterov",
        f"Nesterov momentum in the {whose} only",
        f"the {whose}'s update is a combination of the gradient and the slot {slot}, the other side's of the slot alone",
        f"use_nesterov={ahead[0]} (torch: nesterov={ahead[0]}), as the graph has it",
    )


def slot_initial_value(first: FirstDifference) -> Cause:
    """The optimizers start with other values in a slot."""
    return Cause(
        "slot_initial_value",
        "the optimizers start with other values in their slots",
        f"{first.check.key} {first.check.note}, before anything is loaded",
        "give the port's optimizer TensorFlow's initial value (Adagrad: initial_accumulator_value, RMSProp: 1), as "
        "torch_ddp.like_tf's have it",
    )


def own_value(first: FirstDifference) -> Cause:
    """A buffer or constant of the port is another than what is written into it."""
    return Cause(
        "own_value",
        f"the port's own {first.name} is another than the reference's",
        f"{first.check.key}: {first.check.note}; all else was compared with the reference's in its place",
        "have the port make the value that the graph has: elsewhere than here nobody writes it into the port",
    )


def learning_rate_factor(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """Every update is the same but for one factor."""
    if first.quantity != "var" and first.check.key != "state/learning_rate":
        return None
    step = first.check.step
    moves = _moves(evidence, step)
    if moves is None:
        return None
    wrong = [each for each in moves if norm(each[2] - each[1]) > CLOSE * norm(each[1])]
    factor = told_factor([(one, other) for _, one, other in wrong], 10 * CLOSE)
    if factor is None or not all(
        _proportional(evidence, each, {name for name, *_ in wrong}) for each in evidence.steps
    ):
        return None
    if abs(factor + 1) <= 10 * CLOSE and len(wrong) == len(moves):
        return Cause(
            "sign",
            "the update goes uphill",
            f"the candidate's update of all {len(moves)} variables is the reference's with the other sign at step {step}",
            "minimise: check maximize=True and the loss's sign",
        )
    all_of_them = len(wrong) == len(moves)
    return Cause(
        "learning_rate",
        f"learning rate off by the factor {factor:.6g}"
        + ("" if all_of_them else f" for {', '.join(name for name, _, _ in wrong)}"),
        f"the candidate's update of {len(wrong)} of {len(moves)} variables is {factor:.9g} times the reference's "
        f"at step {step}, "
        "from the same gradients and slots",
        "give the port the learning rate of the graph, and check the schedule's unit",
        share_explained(first, [(factor * one, other, one) for _, one, other in wrong]),
    )


def _moves(evidence: Evidence, step: int) -> list[tuple[str, Array, Array]] | None:
    # Name and both sides' updates of every weight; None where it is not known where one began.
    moves = []
    for name, one, other in evidence.pairs(step, "var"):
        before = evidence.before(step, "var", name)
        if before is None:
            return None
        # Storing a weight rounds its update: what is left of it beside the weight decides what can be told.
        if norm(one - before) > 1e-4 * norm(before):
            moves.append((name, one - before, other - before))
    return moves


def _proportional(evidence: Evidence, step: int, names: set[str]) -> bool:
    # A rate scales an update in every step. At the first step slots are empty, and other rules are a factor there too:
    # momentum without a look ahead is 1 / (1 + momentum) of it.
    if any(not _same_inputs(evidence, step, name) for name in names):
        return True  # what it makes of other gradients says nothing
    moves = [(one, other) for name, one, other in _moves(evidence, step) or () if name in names]
    return not moves or common_factor(moves, 1e-6) is not None


def _same_inputs(evidence: Evidence, step: int, name: str) -> bool:
    pairs = [(one, other) for own, one, other in evidence.pairs(step, "grad") if own == name]
    for slot in evidence.slots(step):
        pairs += [(one, other) for own, one, other in evidence.pairs(step, "slot", slot) if own == name]
    return all(norm(other - one) <= 1e-6 * norm(one) for one, other in pairs)


def _looks_ahead(evidence: Evidence, step: int, slot: str, candidate: bool) -> bool | None:
    gradients = {name: pair[candidate] for name, *pair in evidence.pairs(step, "grad")}
    slots = {name: pair[candidate] for name, *pair in evidence.pairs(step, "slot", slot)}
    columns, targets = [], []
    for name, *pair in evidence.pairs(step, "var"):
        before = evidence.before(step, "var", name)
        if before is None or name not in gradients or name not in slots:
            return None
        columns.append([gradients[name], slots[name]])
        targets.append(pair[candidate] - before)
    found = fit(columns, targets) if targets else None
    if found is None or found.residual > EXACT:
        return None
    return abs(found.coefficients[0]) > 1e-6 * abs(found.coefficients[1])
