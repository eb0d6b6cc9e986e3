"""Computes a loss again from what goes into it, by other rules: forms of it, what counts in it, reductions.

For towers whose layers are all the same. A rule is named only where it gives the candidate's loss down to rounding, and
the reference's own rule, computed the same way, the reference's; of a loss with further terms, such as decay, where the
difference of the two rules is the difference of the losses.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from parity.diagnose.agreement import LEFT
from parity.diagnose.catalogue import build_cause
from parity.diagnose.layers.loss_forms import BY_LABELS, HALF_OF, OTHER_ORDERS, Form, forms
from parity.judge.result import Cause
from parity.trace.arrays import Array

# How near two rules of two losses with further terms have to be, relative to the loss: a decade below what one rule has
# to hold to, as there are pairs of rules, and up to MOST_RULES of them.
CLOSE_RULES = 1e-11
# What usual losses ignore: torch's -100, -1, the padding 0, and 255 of segmentation maps.
IGNORED = (-100, -1, 0, 255)
# Pairs are tried in every reduction, so that rules are bounded where many inputs fit.
MOST_RULES = 40_000
MOST_CLASSES = 1000
# How many numbers become one.
WAYS = {
    "mean": "the mean{weighted}",
    "sum": "the sum{weighted}",
    "over all": "the sum{weighted} over all",
    "over counted": "the sum{weighted} over those with a weight,",
    "over examples": "the sum{weighted} over the number of examples",
    "means": "the mean over the examples of each one's mean{weighted}",
}


SMOOTHED = " smoothed "  # as forms say it
OF_EACH_LABEL = " of each label"
_CUT = re.compile(r"\[:, \d+:\d+\]$")


class Loss(NamedTuple):
    """The loss of one tower.

    Fields:
      outputs: dict of name to what the layers give it, the same on both sides.
      feeds: dict of name to the tower's inputs, and what is made of them alone.
      reference, candidate: the losses.
      close: how near losses are that count as one, relative.
      shares: what both losses may be divided by: what a loss is multiplied by on both sides.
      linear: names of the outputs in which both losses are no more than sums.
      crossed: whether a side calls it a cross entropy: without labels that is but a function of scores.
    """

    outputs: Mapping[str, Array]
    feeds: Mapping[str, Array]
    reference: float
    candidate: float
    close: float
    shares: tuple[float, ...] = (1.0,)
    linear: frozenset[str] = frozenset()
    crossed: bool = True


def is_a_count(loss: Loss, losses: tuple[float, float], towers: int, reduced: Sequence[Array] = ()) -> bool:
    """Returns whether one loss is the other times a number of what goes into it: a sum for a mean.

    Args:
      loss: what goes into it: the lengths of its axes and its sizes may be such a number.
      losses: of the reference and of the candidate.
      towers: their number. All of a loss may be divided by it: it tells a sum only of what both losses add up otherwise.
      reduced: that.
    """
    ratio = abs(losses[1] / losses[0]) if losses[0] else 0.0
    # Whichever side is the sum: the count is the ratio or 1 over it.
    count = max(ratio, 1.0 / ratio) if ratio else 0.0
    counts = _lengths([*loss.outputs.values(), *loss.feeds.values()]) - {towers} | _lengths(reduced)
    # 1e-9, as CLOSE: two counts up to a million differ by a millionth and more.
    return any(abs(count - each) <= 1e-9 * each for each in counts)


# Lengths of single axes and of all of them: examples, steps, elements, whatever is counted.
def _lengths(arrays: Sequence[Array]) -> set[int]:
    return {length for array in arrays for length in (*array.shape, array.size) if length > 1}


class _Rule(NamedTuple):
    # A way to compute a loss: what of each example, which of them count, and how they become one number.
    form: str
    of: str
    over: str
    way: str
    value: float
    cross_entropy: bool

    @property
    def words(self) -> str:
        weighted = f", weighted by {self.over}," if self.over else ""
        return f"{WAYS[self.way].format(weighted=weighted)} of {self.form}"

    def unlike(self, other: "_Rule") -> list[str]:
        """What two rules differ in."""
        return [name for name in ("form", "of", "over", "way") if getattr(self, name) != getattr(other, name)]


def other_loss(loss: Loss) -> Cause | None:
    """Returns the cause where another rule gives the candidate's loss, or None."""
    # Forms take logarithms and roots of whatever fits by its shape: what is no number is left out in `_rules`.
    with np.errstate(all="ignore"):
        rules = list(islice(_rules(loss), MOST_RULES))
    # Both losses over what they are weighted by, since rules have the values of before any weight.
    for share in loss.shares:
        divided = loss._replace(reference=loss.reference / share, candidate=loss.candidate / share)
        pairs, exact = _exact(rules, divided)
        if pairs:
            return _cause(*_nearest(pairs), exact)
    return None


def _exact(rules: list[_Rule], loss: Loss) -> tuple[list[tuple[_Rule, _Rule]], bool]:
    # To what losses are known to, and to LEFT of what differs: a rule that is near to both losses explains neither.
    near = loss.close * max(abs(loss.reference), abs(loss.candidate))
    near = min(near, LEFT * abs(loss.candidate - loss.reference))
    owns = [rule for rule in rules if abs(rule.value - loss.reference) <= near]
    others = [rule for rule in rules if abs(rule.value - loss.candidate) <= near]
    if owns and others:
        return [(own, other) for own in owns for other in others], True
    # Only where neither loss is a rule's own value: else one has no further terms, and the other has to be one too.
    return (_beside_terms(rules, loss) if not owns and not others else []), False


def _nearest(pairs: list[tuple[_Rule, _Rule]]) -> tuple[_Rule, _Rule]:
    """The pair that differs in least; of several the first, for what is simplest comes first."""
    return min(pairs, key=lambda pair: len(pair[0].unlike(pair[1])) or len(pair[0]))


def _beside_terms(rules: list[_Rule], loss: Loss) -> list[tuple[_Rule, _Rule]]:
    """Pairs of rules that differ in one thing, and by as much as the losses do."""
    apart = loss.candidate - loss.reference
    allowed = min(CLOSE_RULES * max(abs(loss.reference), abs(loss.candidate)), LEFT * abs(apart))
    # Up to MOST_RULES squared pairs: in sorted values the partners of a rule are found by bisection.
    order = np.argsort([rule.value for rule in rules], kind="stable")
    values = np.array([rules[place].value for place in order])
    pairs = []
    for own in rules:
        begin, end = np.searchsorted(values, [own.value + apart - allowed, own.value + apart + allowed])
        found = sorted(int(place) for place in order[begin:end])
        unlike = [(rules[place], own.unlike(rules[place])) for place in found]
        pairs += [
            (own, rule)
            for rule, names in unlike
            # In one thing: two rules may differ in two by two bugs, but then nearly any pair would do.
            if len(names) == 1 and not _tells_no_form(own, rule, names[0], loss.feeds)
        ]
    return pairs


def _tells_no_form(own: _Rule, rule: _Rule, name: str, feeds: Collection[str]) -> bool:
    """Whether what two rules differ in tells no form beside terms that are not seen: which input is label or weight.

    By other labels many forms differ alike, by what the output is times the labels. So do two that smooth their labels in
    two ways; where one of them takes labels as they are, that is the smoothing of the other.
    """
    if name == "form":
        both = SMOOTHED in own.form and SMOOTHED in rule.form
        return both and own.form.rpartition(" ")[0] != rule.form.rpartition(" ")[0]
    if name == "over":
        return own.over in feeds and rule.over in feeds
    labels, others = own.of.rpartition(" and ")[2], rule.of.rpartition(" and ")[2]
    return name == "of" and labels != others and labels in feeds and others in feeds


def _cause(own: _Rule, rule: _Rule, exact: bool) -> Cause | None:
    unlike = own.unlike(rule)
    if not unlike:
        return None
    what = f"{rule.words} in the candidate, {own.words} in the reference"
    if own.of and own.of == rule.of:
        what += f", of {own.of}"
    elif own.of != rule.of:
        what = f"{rule.words} of {rule.of} in the candidate, {own.words} of {own.of} in the reference"
    rest = "" if exact else ", but for terms that both sides have"
    name = "loss_reduction"
    reduced_otherwise = own.form.replace(BY_LABELS, "") == rule.form.replace(BY_LABELS, "")
    # A mean for half a sum: the half goes with it, as a loss function of one library has it and that of another has not.
    reduced_otherwise = reduced_otherwise or (
        "way" in unlike and own.form.replace(HALF_OF, "") == rule.form.replace(HALF_OF, "")
    )
    of_classes = OF_EACH_LABEL in own.over + rule.over and own.over != rule.over
    if "of" in unlike or of_classes or ("form" in unlike and not reduced_otherwise):
        name = "cross_entropy" if own.cross_entropy and rule.cross_entropy else "loss_function"
    if unlike == ["of"] and own.of != rule.of and _CUT.sub("", own.of) == _CUT.sub("", rule.of):
        name = "labels_shifted"  # the same labels from another position on
    if unlike == ["of"] and _in_one_order(own.of) == _in_one_order(rule.of):
        name = "moved_values"  # the same labels and the same rows, put together in another order
    evidence = f"computed from what goes into it, which is the same on both sides, these are the two losses{rest}"
    return build_cause(name, "form", evidence=evidence, what=what)


def _in_one_order(of: str) -> str:
    return of.removesuffix(OTHER_ORDERS[0]).removesuffix(OTHER_ORDERS[1])


def _rules(loss: Loss) -> Iterator[_Rule]:
    for form in forms(loss.outputs, loss.feeds, loss.linear, loss.crossed):
        for over, way, value in _reduced(form, loss.feeds):
            if np.isfinite(value) and value:
                yield _Rule(form.name, form.of, over, way, value, form.cross_entropy)


def _reduced(form: Form, feeds: Mapping[str, Array]) -> Iterator[tuple[str, str, float]]:
    for name, weights in [("", np.ones(form.values.shape)), *_weights(form, feeds)]:
        for way, value in _ways(form.values, np.asarray(weights, np.float64)):
            yield name, way, value


def _weights(form: Form, feeds: Mapping[str, Array]) -> Iterator[tuple[str, Array]]:
    """Yields what may say which of the values count, and how much: words, and weights of the values' shape."""
    values, masks = form.values, list[tuple[str, Array]]()
    if form.labels.size == values.size:
        masks += _of_labels("labels", form.labels.reshape(values.shape))
    for name, given in feeds.items():
        if given.size == values.size and given.dtype.kind == "f":
            weights = given.reshape(values.shape).astype(np.float64)
            # Of a sigmoid's no form says which of the inputs its labels are.
            of_classes = any(_is_of_each_label(weights, each) for each in (form.labels, *feeds.values()))
            yield f"{name}{OF_EACH_LABEL}" if of_classes else name, weights
        elif given.dtype.kind in "iub" and given.size == values.size != form.labels.size:
            masks += _of_labels(name, given.reshape(values.shape))
        elif given.dtype.kind in "iub" and values.ndim > 1 and given.size == values.size // values.shape[-1]:
            # A mask of rows, repeated for each element of its row.
            rows = _of_labels(name, given.reshape(-1))
            masks += [(words, np.repeat(mask, values.shape[-1]).reshape(values.shape)) for words, mask in rows]
        if values.ndim == 2 and given.shape == values.shape[:1] and given.dtype.kind in "iu":
            # Steps up to a length, or up to one before it, as where the labels are the inputs of the next step.
            for less, words in ((0, "what lies within"), (1, "what lies one before the end of")):
                masks.append((f"{words} {name}", np.arange(values.shape[1]) < given[:, None] - less))
    yield from masks
    yield from _of_classes(form, masks, feeds)


def _is_of_each_label(weights: Array, labels: Array) -> bool:
    """Whether weights are another number for other labels, and one for each: they weigh classes, and not examples.

    Where some are 0 they are a mask, of labels that do not count.
    """
    if labels.size != weights.size or labels.dtype.kind not in "fiub" or not weights.all():
        return False
    if (labels != np.floor(labels)).any():  # no labels
        return False
    classes, of = np.unique(labels.reshape(-1), return_inverse=True)
    if not 1 < len(classes) <= MOST_CLASSES:
        return False
    own = [weights.reshape(-1)[of.reshape(-1) == each] for each in range(len(classes))]
    return all(np.ptp(each) == 0.0 for each in own) and len({float(each[0]) for each in own}) > 1


def _of_labels(name: str, labels: Array) -> list[tuple[str, Array]]:
    found = [(f"{name} that are not {value}", labels != value) for value in IGNORED if (labels == value).any()]
    found += [(f"{name} that are positive", labels > 0)] if (labels <= 0).any() else []
    # A mask that leaves nothing would divide by 0.
    return [(words, mask) for words, mask in found if mask.any()]


def _of_classes(form: Form, masks: list[tuple[str, Array]], feeds: Mapping[str, Array]) -> Iterator[tuple[str, Array]]:
    """Weights of classes, by a vector of them, or by what was picked from one for those that count."""
    if form.labels.size != form.values.size:
        return
    labels = form.labels.reshape(form.values.shape)
    for name, given in feeds.items():
        if given.dtype.kind != "f" or given.ndim != 1 or not given.size:
            continue
        for words, mask in [("", np.ones(form.values.shape, bool)), *masks]:
            both = f"weights of {name}, over {words}" if words else f"weights of {name}"
            picked = labels[mask]
            # A weight for each label that counts, as of labels that were filtered before they were looked up.
            if given.size == picked.size != labels.size:
                weights = np.zeros(form.values.shape)
                # Back in the places of all labels, 0 where a label does not count.
                weights[mask] = given
                yield both, weights
                yield from _by_class(name, given, labels, mask)
            elif picked.min() >= 0 and picked.max() < given.size <= MOST_CLASSES:
                yield both, np.where(mask, given[np.where(mask, labels, 0)], 0.0)


def _by_class(name: str, given: Array, labels: Array, mask: Array) -> Iterator[tuple[str, Array]]:
    """Weights of the classes that were picked for what counts, given to all: those that do not count as another class."""
    classes = np.unique(labels[mask])
    weights = {int(each): np.unique(given[labels[mask] == each]) for each in classes}
    # Of a class one weight: else it is no table of classes.
    if any(len(found) != 1 for found in weights.values()):
        return
    # What does not count is often replaced by one class before the weights are looked up.
    for each in classes[:2]:
        replaced = np.where(mask, labels, each)
        # float64 (labels,): the weight of each label's class.
        table = np.array([weights[int(label)][0] for label in replaced.reshape(-1)])
        yield f"weights of {name}, the others as class {int(each)}", table.reshape(labels.shape)


def _ways(values: Array, w: Array) -> Iterator[tuple[str, float]]:
    """Yields the numbers that become of the values of examples: how, as in `WAYS`, and what."""
    if not w.any():
        return
    # values and w: float64 of one shape, a number for each example or element.
    total = float((values * w).sum())
    weighted = not (w == 1.0).all()
    yield "mean", total / float(w.sum() or np.nan)
    yield "sum", total
    # With weights of 1 these would be the mean again, in other words.
    if weighted:
        yield "over all", total / values.size
        if not np.isin(w, (0.0, 1.0)).all():
            yield "over counted", total / float((w != 0).sum())
    if values.ndim > 1:
        yield "over examples", total / len(values)
        rows = w.reshape(len(values), -1).sum(1)
        # An example without any weight has no mean.
        if weighted and rows.all():
            yield "means", float(((values * w).reshape(len(values), -1).sum(1) / rows).mean())
