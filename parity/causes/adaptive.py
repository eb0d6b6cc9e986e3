"""Causes in the update rules of Adam and RMSProp: epsilons and the correction of the bias."""

import numpy as np

from parity.causes.evidence import ROUNDING, Evidence, explained, explained_together
from parity.judge.numbers import Array, norm
from parity.judge.result import Cause, FirstDifference


def bias_correction(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """Adam without the correction of its moments' bias."""
    reference, _ = evidence.optimizers
    step = first.check.step
    if first.quantity != "var" or "beta1" not in reference or evidence.counter(step, "beta1_power") is None:
        return None
    made = []
    for name, one, other in evidence.pairs(step, "var"):
        before = evidence.before(step, "var", name)
        predicted = _adam_step(evidence, step, name, reference["epsilon"], inside=False, corrected=False)
        if before is None or predicted is None:
            return None
        if not _fits(other - before - predicted, one - before, before):
            return None
        made.append((before + predicted, other, one))
    if not made or not explained_together(made):  # late in training the correction is next to nothing
        return None
    return Cause(
        "bias_correction",
        "Adam without bias correction",
        f"lr m / (sqrt(v) + epsilon) gives the candidate's update of all {len(made)} variables at step {step}",
        "use torch_ddp.like_tf.Adam, or restore its step count (beta powers) with its moments",
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
        by_the_reference = _adam_step(evidence, step, name, reference["epsilon"], inside=False)
        if before is None or predicted is None or by_the_reference is None:
            return None
        # That both rules fit is not enough where an epsilon makes little difference: this difference has to be it.
        if not _fits(other - before - predicted, one - before, before) or not explained(
            other - one - (predicted - by_the_reference), other - one, before
        ):
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
        if not _fits(before - other - predicted, one - before, before) or not explained(
            before - other - predicted, other - one, before
        ):
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


def _fits(left: Array, moved: Array, before: Array) -> bool:
    # A bias in front of a batch norm moves by rounding alone, of which no rule can predict a millionth.
    return norm(left) <= 1e-6 * norm(moved) + ROUNDING * norm(before)


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
