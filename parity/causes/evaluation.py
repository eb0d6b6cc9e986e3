"""Causes in what is computed after training."""

from parity.causes.evidence import Evidence, same_values
from parity.judge.result import Cause, FirstDifference
from parity.trace import parse_evaluated


def averages_not_used(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """The candidate's evaluation with the averages is its evaluation with the weights."""
    if first.quantity != "eval" or not parse_evaluated(first.name).averages:
        return None
    found = {name: (one, other) for name, one, other in evidence.pairs(first.check.step, "eval")}
    pairs = [
        (found[name], found[name[len("ema/") :]])
        for name in found
        if parse_evaluated(name).averages and name[len("ema/") :] in found
    ]
    # Outputs that hang on no average, such as a batch handed through, are alike on both sides and say nothing.
    telling = [(averaged, plain) for averaged, plain in pairs if not same_values(plain[0], averaged[0], evidence.close)]
    if not telling or not all(same_values(plain[1], averaged[1], evidence.close) for averaged, plain in telling):
        return None
    return Cause(
        "averages_not_used",
        "the averages of the weights are not used in evaluation",
        f"with the averages in place of the weights, {len(telling)} outputs of the candidate are what they are with the "
        "weights themselves; the reference's change",
        "let the evaluation read the parameters anew: look for weights that are cached, folded or copied by eval()",
    )
