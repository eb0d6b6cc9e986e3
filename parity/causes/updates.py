"""Causes in the update rule, given the same gradient."""

import numpy as np

from parity.causes.evidence import CLOSE, Evidence, common_factor, fit
from parity.causes.optimizer_input import EXACT, linear_slot, slot_rule
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
    )


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


def bias_correction(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """Adam without the correction of its moments' bias."""
    reference, _ = evidence.optimizers
    step = first.check.step
    if first.quantity != "var" or "beta1" not in reference or evidence.counter(step, "beta1_power") is None:
        return None
    seen = 0
    for name, one, other in evidence.pairs(step, "var"):
        before = evidence.before(step, "var", name)
        predicted = _adam_step(evidence, step, name, reference["epsilon"], inside=False, corrected=False)
        if before is None or predicted is None:
            return None
        if norm(other - before - predicted) > 1e-6 * norm(one - before):
            return None
        seen += 1
    if not seen:
        return None
    return Cause(
        "bias_correction",
        "Adam without bias correction",
        f"lr m / (sqrt(v) + epsilon) gives the candidate's update of all {seen} variables at step {step}",
        "use torch_ddp.like_tf.Adam, or restore its step count (beta powers) with its moments",
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


def adam_epsilon(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """Adam adds epsilon to another term than TensorFlow does, or another epsilon."""
    reference, candidate = evidence.optimizers
    if first.quantity != "var" or "epsilon" not in reference or "beta1" not in reference:
        return None
    epsilon = candidate.get("eps", candidate.get("epsilon"))
    step = first.check.step
    if epsilon is None or evidence.counter(step, "beta1_power") is None:
        return None
    inside = "eps" in candidate  # torch's name, and torch's place
    apart, largest = 0.0, 0.0
    for name, one, other in evidence.pairs(step, "var"):
        before = evidence.before(step, "var", name)
        predicted = _adam_step(evidence, step, name, epsilon, inside)
        if before is None or predicted is None or norm(other - before - predicted) > 1e-6 * norm(one - before):
            return None
        apart = max(apart, norm(other - one))
        with np.errstate(divide="ignore", invalid="ignore"):
            relative = np.abs(other - one) / np.abs(one - before)
        largest = max(largest, float(np.max(relative[np.isfinite(relative)], initial=0.0)))
    if apart == 0.0:
        return None
    same_value = abs(epsilon - reference["epsilon"]) <= 1e-6 * reference["epsilon"]
    place = "to the bias-corrected root (torch's rule)" if inside else "to the uncorrected root (TensorFlow's rule)"
    if same_value and inside:
        name, title = "adam_epsilon_placement", "Adam's epsilon inside the bias correction"
        fix = "use torch_ddp.like_tf.Adam, whose epsilon is TensorFlow's"
    else:
        name, title = "adam_epsilon", f"Adam's epsilon is {epsilon:g} where the reference has {reference['epsilon']:g}"
        fix = f"use torch_ddp.like_tf.Adam(epsilon={reference['epsilon']:g})"
    return Cause(
        name,
        title,
        f"the candidate adds {epsilon:g} {place}; TensorFlow adds {reference['epsilon']:g} before correcting the bias. "
        f"Replaying that rule on the same gradients gives the candidate's update of every variable. "
        f"Size of the effect at step {step}: up to {largest:.2g} of a weight's update",
        fix,
    )


def rmsprop_epsilon(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """RMSProp adds epsilon outside the root, as torch does, where TensorFlow adds it inside."""
    reference, candidate = evidence.optimizers
    if first.quantity not in ("slot", "var") or not {"decay", "momentum", "epsilon"} <= set(reference):
        return None
    step = first.check.step
    rate, seen = evidence.learning_rate(step), 0
    epsilon = candidate.get("eps", candidate.get("epsilon"))
    squares = {name: other for name, _, other in evidence.pairs(step, "slot", "rms")}
    gradients = {name: other for name, _, other in evidence.pairs(step, "grad")}
    for name, one, other in evidence.pairs(step, "var"):
        before = evidence.before(step, "var", name)
        if before is None or name not in squares or name not in gradients or not rate or not epsilon:
            return None
        momentum = evidence.before(step, "slot", name, "momentum")
        carried = reference["momentum"] * momentum if momentum is not None else 0.0
        predicted = carried + rate * gradients[name] / (np.sqrt(squares[name]) + epsilon)
        if norm(before - other - predicted) > 1e-6 * norm(one - before):
            return None
        seen += 1
    return (
        Cause(
            "rmsprop_epsilon",
            "RMSProp's epsilon outside the root",
            f"lr g / (sqrt(rms) + {epsilon:g}) gives the candidate's update of all {seen} variables at step {step}; "
            "TensorFlow's is "
            f"lr g / sqrt(rms + {reference['epsilon']:g})",
            "use torch_ddp.like_tf.RMSProp",
        )
        if seen
        else None
    )


def learning_rate_factor(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """Every update is the same but for one factor."""
    if first.quantity != "var" and first.check.key != "state/learning_rate":
        return None
    step = first.check.step
    moves: list[tuple[str, Array, Array]] = []
    for name, one, other in evidence.pairs(step, "var"):
        before = evidence.before(step, "var", name)
        if before is None:
            return None
        # Storing a weight rounds its update: what is left of it beside the weight decides what can be told.
        if norm(one - before) > 1e-4 * norm(before):
            moves.append((name, one - before, other - before))
    wrong = [each for each in moves if norm(each[2] - each[1]) > CLOSE * norm(each[1])]
    factor = common_factor([(one, other) for _, one, other in wrong], 10 * CLOSE)
    if factor is None:
        return None
    all_of_them = len(wrong) == len(moves)
    return Cause(
        "learning_rate",
        f"learning rate off by the factor {factor:.6g}"
        + ("" if all_of_them else f" for {', '.join(name for name, _, _ in wrong)}"),
        f"the candidate's update of {len(wrong)} of {len(moves)} variables is {factor:.9g} times the reference's "
        f"at step {step}, "
        "from the same gradients and slots",
        "give the port the learning rate of the graph, and check the schedule's unit",
    )


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


def _adam_step(
    evidence: Evidence, step: int, name: str, epsilon: float, inside: bool, corrected: bool = True
) -> Array | None:
    reference, _ = evidence.optimizers
    gradient = next((other for each, _, other in evidence.pairs(step, "grad") if each == name), None)
    m, v = evidence.before(step, "slot", name, "m"), evidence.before(step, "slot", name, "v")
    power1, power2 = evidence.counter(step, "beta1_power"), evidence.counter(step, "beta2_power")
    if gradient is None or m is None or v is None or power1 is None or power2 is None:
        return None
    m = m + (gradient - m) * (1 - reference["beta1"])
    v = v + (gradient**2 - v) * (1 - reference["beta2"])
    rate = evidence.learning_rate(step)
    if rate is None:
        return None
    if not corrected:
        return np.asarray(-rate * m / (np.sqrt(v) + epsilon))
    if inside:
        return np.asarray(-rate / (1 - power1) * m / (np.sqrt(v) / np.sqrt(1 - power2) + epsilon))
    return np.asarray(-rate * np.sqrt(1 - power2) / (1 - power1) * m / (np.sqrt(v) + epsilon))
