"""Causes in the update rule, given the same gradient."""

import numpy as np

from parity.causes.evidence import CLOSE, Evidence, common_factor
from parity.judge.numbers import Array, norm
from parity.judge.result import Cause, FirstDifference


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


def learning_rate_factor(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """Every update is the same but for one factor."""
    if first.quantity != "var" and first.check.key != "state/learning_rate":
        return None
    step = first.check.step
    moves = []
    for name, one, other in evidence.pairs(step, "var"):
        before = evidence.before(step, "var", name)
        if before is None:
            return None
        # Storing a weight rounds its update: what is left of it beside the weight decides what can be told.
        if norm(one - before) > 1e-4 * norm(before):
            moves.append((one - before, other - before))
    factor = common_factor(moves)
    if factor is None or abs(factor - 1) <= CLOSE:
        return None
    return Cause(
        "learning_rate",
        f"learning rate off by the factor {factor:.6g}",
        f"the candidate's update of {len(moves)} variables is {factor:.9g} times the reference's at step {step}, "
        "from the same gradients and slots",
        "give the port the learning rate of the graph, and check the schedule's unit",
    )


def _adam_step(evidence: Evidence, step: int, name: str, epsilon: float, inside: bool) -> Array | None:
    reference, _ = evidence.optimizers
    gradient = next((other for each, _, other in evidence.pairs(step, "grad") if each == name), None)
    m, v = evidence.before(step, "slot", name, "m"), evidence.before(step, "slot", name, "v")
    power1, power2 = evidence.counter(step, "beta1_power"), evidence.counter(step, "beta2_power")
    if gradient is None or m is None or v is None or power1 is None or power2 is None:
        return None
    m = m + (gradient - m) * (1 - reference["beta1"])
    v = v + (gradient**2 - v) * (1 - reference["beta2"])
    rate = reference["learning_rate"]
    if inside:
        return np.asarray(-rate / (1 - power1) * m / (np.sqrt(v) / np.sqrt(1 - power2) + epsilon))
    return np.asarray(-rate * np.sqrt(1 - power2) / (1 - power1) * m / (np.sqrt(v) + epsilon))
