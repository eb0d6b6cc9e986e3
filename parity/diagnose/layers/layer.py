"""Computes one layer again, from what goes into it, by other rules: which of them gives what the candidate has?

For a layer whose inputs and weights are the same on both sides. A rule is named only where it gives the candidate's output
down to rounding, and the reference's own rule, computed the same way, gives the reference's.
"""

import numpy as np

from parity.diagnose.agreement import common_factor
from parity.diagnose.catalogue import build_cause
from parity.diagnose.fitting import is_written
from parity.diagnose.layers.normalization import normalised, norms_behind, softmax_axis, softmax_scale
from parity.diagnose.layers.rules import Layer, Rule, explains_all, functions, gives, number
from parity.diagnose.ops.activations import softmax
from parity.judge.result import Cause
from parity.trace.arrays import Array

# Values that have to differ before a rule is believed. Chosen: of some dozens of rules none gives eight values to 1e-9
# by chance, but one or two, as a scale and a shift always do.
FEWEST_DIFFERING = 8


def other_rule(layer: Layer) -> Cause | None:
    """Returns the cause where another rule gives the candidate's output, or None."""
    if (layer.reference != layer.candidate).sum() < FEWEST_DIFFERING:
        return None
    # First, since it compares the outputs alone and asks nothing of what goes in.
    scaled = softmax_scale(layer)
    if scaled is not None:
        return scaled
    for given in layer.inputs:
        # Only of as many numbers as come out: these rules give one for one, or mix along axes of one shape.
        if given.size != layer.reference.size:
            continue
        # float64 in the output's shape, channels last, so that an axis means the same to all rules.
        x = np.asarray(given, np.float64).reshape(layer.reference.shape)
        for rule in (_activation, _scaled, softmax_axis, normalised, _left_out, _other_mask):
            cause = rule(layer, x)
            if cause is not None:
                return cause
    return None


def extra_op(layer: str, calls: str, before: Array, after: Array) -> Cause | None:
    """Returns the cause where the candidate does something to what goes into a layer that the reference does not.

    Args:
      layer: its name.
      calls: the candidate's function.
      before: what it takes, which the reference has too and gives to the layer as it is.
      after: what it makes of it.
    """
    for name, function in functions():
        # "no activation" would be named wherever nothing is done.
        if name != "no activation" and gives(function, before, after):
            text = f"{name} of it is what {calls} gives, to the last digits"
            return build_cause("activation_function", "extra", evidence=text, layer=layer, calls=calls, function=name)
    # bool, of one shape: what is not zero before and after, and what only the candidate sets to 0.
    kept, dropped = (after != 0.0) & (before != 0.0), (after == 0.0) & (before != 0.0)
    factor = common_factor([(before[kept], after[kept])]) if kept.any() else None
    if factor is None or factor == 1.0:
        return None
    # Dropout divides what it keeps by its probability p < 1: a mask alone has the factor 1.
    if dropped.sum() >= 2 and factor > 1.0:
        text = f"{int(dropped.sum())} of {int(dropped.sum() + kept.sum())} values are dropped, the others {factor:.6g} times"
        return build_cause("dropout_active", "before a layer", evidence=text, layer=layer)
    text = f"every value that {calls} gives is {factor:.9g} times what it takes, to the last digits"
    return build_cause("extra_scale", evidence=text, layer=layer, calls=calls, factor=factor)


def _activation(layer: Layer, x: Array) -> Cause | None:
    # The reference's own function first: only where one gives its output does another one say what differs.
    for name, function in functions():
        if not gives(function, x, layer.reference):
            continue
        for other, rule in functions():
            if other != name and explains_all(rule(x), layer):
                return build_cause(
                    "activation_function",
                    "layer",
                    evidence=f"{other} of what goes in, which is the same on both sides, gives the candidate's "
                    "output to the last "
                    f"digits, {name} the reference's",
                    layer=layer.name,
                    other=other,
                    function=name,
                )
    return None


def _scaled(layer: Layer, x: Array) -> Cause | None:
    # Either side as a multiple of what goes in: the ratio of the outputs alone fits whatever is scaled behind them too.
    own, other = common_factor([(x, layer.reference)]), common_factor([(x, layer.candidate)])
    if own is None or other is None or not explains_all(other * x, layer) or number(own) == number(other):
        return None
    # Of a weight either side makes its factor: it is scaled where somebody would write the number, or its square.
    if layer.learned and not any(is_written(each) for each in (other / own, (other / own) ** 2)):
        return None
    return build_cause(
        "scale",
        evidence=f"each value is what goes in, which is the same on both sides, times {other:.9g} and {own:.9g}, "
        "to the last digits",
        layer=layer.name,
        other=number(other),
        own=number(own),
    )


def _left_out(layer: Layer, x: Array) -> Cause | None:
    """The reference's first op that differs is missing in the candidate, whatever comes behind it."""
    if not _comes_of(layer, x):
        return None
    return build_cause(
        "op_left_out",
        evidence="what comes behind it, given what goes into it, gives the candidate's output, to the last digits",
        left_out=layer.op,
        kind=layer.kind,
    )


def _other_mask(layer: Layer, x: Array) -> Cause | None:
    """What the reference adds to scores is added along another axis, or to what it leaves, in the candidate."""
    if layer.output is None or layer.output.size != x.size or x.ndim < 2 or not layer.kind.startswith("Add"):
        return None
    # What the reference adds, by subtraction: 0 where a score stays, a large negative number where it is masked.
    mask = np.asarray(layer.output, np.float64).reshape(x.shape) - x
    turned = mask.swapaxes(-1, -2) if x.shape[-1] == x.shape[-2] else mask
    # What is kept and what is masked exchanged: above half of the negative number a place counts as kept.
    inverted = np.where(mask > mask.min() / 2, mask.min(), 0.0)
    for other, words in ((turned, "along the other of the two last axes"), (inverted, "where the reference adds none")):
        if _comes_of(layer, x + other):
            return build_cause(
                "mask",
                evidence="the scores with that mask, which are the same without it, give the candidate's output, "
                "to the last digits",
                masked=layer.op,
                words=words,
            )
    return None


def _comes_of(layer: Layer, x: Array) -> bool:
    """Whether one rule makes the reference's output of what its op gives, and the candidate's of x."""
    if layer.output is None or layer.output.size != x.size:
        return False
    # What may follow at once: a function of each value, a softmax over any axis, a norm with the reference's epsilon.
    behind: list[Rule] = [function for _, function in functions()]
    behind += [lambda x, axis=axis: softmax(x, axis) for axis in range(x.ndim)]  # type: ignore[misc]
    behind += list(norms_behind(layer, x.shape))
    own = np.asarray(layer.output, np.float64).reshape(x.shape)
    with np.errstate(all="ignore"):
        # One rule for both sides, on what the reference's op gives and on what goes into it: then the op is what is
        # missing.
        return any(gives(rule, own, layer.reference) and explains_all(rule(x), layer) for rule in behind)
