"""Causes in the loss itself, where it is a cross entropy of recorded logits: other forms of it are tried on the numbers."""

from collections.abc import Iterator

import numpy as np

from parity.diagnose.agreement import LEFT, alike, is_close
from parity.diagnose.catalogue import build_cause
from parity.diagnose.evidence import Evidence
from parity.diagnose.ops.activations import log_softmax
from parity.judge.result import Cause, FirstDifference
from parity.trace import key_of
from parity.trace.arrays import Array


def cross_entropy_variant(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """One side's loss is another form of cross entropy than the other's: smoothed labels, a temperature, softmax twice."""
    if first.quantity != "loss":
        return None
    for ones, others, names in _seen(first.check.step, evidence):
        found = _variant(ones, others, evidence.close_losses)
        if found is not None:
            what, text = found
            return build_cause(
                "cross_entropy",
                evidence=f"the mean cross entropy of {names} is the reference's loss in every tower; {text} is "
                "the candidate's",
                what=what,
            )
    return None


def _seen(step: int, evidence: Evidence) -> Iterator[tuple[list[tuple[Array, Array, float]], list[float], str]]:
    towers = evidence.tower_names(step, "loss")
    file = evidence.reference.step(step)
    for act in sorted({name for tower in towers for name, _, _ in evidence.pairs(step, "act", "", tower)}):
        for label in sorted({name for tower in towers for name, _, _ in evidence.pairs(step, "feed", "", tower)}):
            seen, others = [], []
            # Every feed of integers is a candidate for the labels: names say nothing across frameworks.
            for tower in towers:
                keys = key_of("act", act, tower=tower), key_of("feed", label, tower=tower)
                if any(key not in file for key in keys):
                    break
                logits, labels = (file.read(key) for key in keys)
                # logits (examples, classes), labels (examples,): integers below the number of classes.
                if logits.ndim != 2 or labels.dtype.kind not in "iu" or labels.shape != logits.shape[:1]:
                    break
                # Beside the loss of a tower, which has no name, its parts may be recorded, each with one.
                losses = {name: pair for name, *pair in evidence.pairs(step, "loss", "", tower)}
                if "" not in losses:
                    break
                loss, other = losses[""]
                logp = log_softmax(np.asarray(logits, np.float64), 1)
                # The reference's own loss: only where it is the mean cross entropy of these two does another form of it
                # mean anything.
                if labels.max() >= logits.shape[1] or not is_close(
                    float(_nll(logp, labels).mean()), float(loss), evidence.close_losses
                ):
                    break
                seen.append((logp, labels, float(loss)))
                others.append(float(other))
            else:
                yield seen, others, f"{act} and {label}"


def _variant(seen: list[tuple[Array, Array, float]], others: list[float], close: float) -> tuple[str, str] | None:
    # Of each tower the mean over examples and classes of -log p: what smoothing mixes in, with weight eps.
    uniform = [float(-logp.mean(axis=1).mean()) for logp, _, _ in seen]
    plain = [loss for _, _, loss in seen]
    # Smoothing: (1 - eps) nll + eps mean_c nll. Linear in eps, one number for all towers: least squares over towers.
    base = sum((u - p) ** 2 for u, p in zip(uniform, plain, strict=True))
    if base > 0.0:
        apart = [other - loss for other, loss in zip(others, plain, strict=True)]
        # eps = sum apart (u - p) / sum (u - p)^2, apart what the losses of a tower differ by.
        share = sum(a * (u - p) for a, u, p in zip(apart, uniform, plain, strict=True)) / base
        fits = all(
            # To the losses and to what differs: either alone would be met by a number near 0 or near the loss.
            abs(loss + share * (u - loss) - other) <= min(close * abs(other), LEFT * abs(other - loss))
            for loss, u, other in zip(plain, uniform, others, strict=True)
        )
        # Towers that saw the same tell one number, of which any addition is a share.
        if fits and not alike([np.array(uniform) - plain]) and 0 < abs(share) <= 1:
            return f"labels smoothed by {share:.6g}", f"with {share:.9g} of every label spread over the classes it"
    # Of every tower, to the digits of a loss: what fits one tower by chance does not fit the others.
    twice = [float(_nll(log_softmax(np.exp(logp), 1), labels).mean()) for logp, labels, _ in seen]
    if all(is_close(loss, other, close) for loss, other in zip(twice, others, strict=True)):
        return "the softmax twice (a loss on logits, fed with probabilities)", "this form of it"
    return None


def _nll(logp: Array, labels: Array) -> Array:
    return np.asarray(-logp[np.arange(len(labels)), labels])
