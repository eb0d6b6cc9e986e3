"""Looks for the cause of a difference behind all layers: computes the losses again from what goes into them."""

from collections.abc import Mapping, Sequence

import numpy as np

from parity.diagnose import Evidence
from parity.diagnose.agreement import CLOSE_OUTPUT, is_close
from parity.diagnose.catalogue import Trait, causes_with
from parity.diagnose.detectors.aggregation import loss_scale
from parity.diagnose.layers.loss import Loss, is_a_count, other_loss
from parity.diagnose.layers.loss_sums import linear_in, otherwise, sums_of, unexplained
from parity.diagnose.layers.loss_terms import other_terms
from parity.diagnose.located.losses import boundary, is_cross_entropy
from parity.diagnose.located.ops import scale_of_loss
from parity.diagnose.search import told_of
from parity.judge.result import Cause, FirstDifference
from parity.locate.downstream import losses_of
from parity.locate.located import Located
from parity.locate.matching import alike, reach, tolerance_for
from parity.trace import parse_key
from parity.trace.arrays import Array


def causes_of_loss(located: Located, evidence: Evidence, known: Sequence[Cause]) -> list[Cause]:
    """Returns the cause that the losses show, computed again otherwise, or none.

    Args:
      located: a difference behind all layers.
      evidence: the float64 lockstep traces.
      known: causes of it, best first.
    """
    losses = _losses(located, evidence)
    if losses is None:
        return []
    given, cause = _loss(located, evidence)._replace(reference=losses[0], candidate=losses[1]), None
    tries, reduced = [given], list[Array]()
    if located.passes is not None:
        one, other = located.passes
        # The nearer the losses, the nearer numbers have to be to count as the same: else the wrong term counts as
        # right.
        reached = reach(one, other, tolerance_for(abs(losses[1] / losses[0] - 1.0)))
        outputs, data = boundary(one, other, reached, losses)
        crossed = any(is_cross_entropy(op) for passed in located.passes for op in passed.ops)
        given = given._replace(outputs={**given.outputs, **outputs}, feeds={**given.feeds, **data}, crossed=crossed)
        sums = sums_of(one, other, reached, losses)
        cause = other_terms(sums) if sums is not None else None
        if sums is not None:
            given = given._replace(linear=_named(linear_in(sums, one, other), given.outputs))
            reduced = [sums.reference[key].value for key in otherwise(sums)]
        rest = unexplained(sums) if sums is not None else None
        tries = [given._replace(**rest._asdict()), given] if rest is not None else [given]
    if cause is None and not known:
        cause = next((found for each in tries if (found := other_loss(each)) is not None), None)
    # A factor of all losses has two readings: another count of what is averaged, or the loss itself multiplied.
    factors = bool(known) and known[0].name in causes_with(Trait.FACTOR_OF_LOSSES)
    if factors and (cause is None or not is_a_count(given, losses, evidence.towers, reduced)):
        cause = _scale(located, losses)  # all losses are off by one number: that says it shorter than any term does
    return [told_of(located.first, cause)] if cause is not None else []


def _scale(located: Located, losses: tuple[float, float]) -> Cause | None:
    """The loss scale that the port's loss is multiplied by."""
    scale = scale_of_loss(located.place)
    if scale is None or not is_close(losses[1] / losses[0], scale):
        return None
    line = located.place.port.line if located.place.port is not None else None
    where = f" at {line.alone}" if line is not None else ""
    return loss_scale(scale, f"the port's loss is the reference's, multiplied by {scale:g} in the end{where}")


def _named(values: Sequence[Array], outputs: Mapping[str, Array]) -> frozenset[str]:
    """The names of the outputs that hold some values, in any order."""
    ordered = [np.sort(value, axis=None) for value in values]
    return frozenset(
        name
        for name, output in outputs.items()
        if any(each.size == output.size and alike(np.sort(output, axis=None), each, CLOSE_OUTPUT) for each in ordered)
    )


def _losses(located: Located, evidence: Evidence) -> tuple[float, float] | None:
    """The losses of both sides, or the one of several that differs."""
    first = located.first
    # A metric is recorded of all towers together, and the passes end at what it is of this one; those of an output that no
    # loss hangs on end at that output.
    if parse_key(first.check.key).quantity in ("metric", "act"):
        ends = [passed.value(losses_of(passed.ops)[-1]) for passed in located.place.passes]
        one, other = (None if each is None or each.size != 1 else float(each.reshape(())) for each in ends)
        return (one, other) if one and other is not None and one != other else None
    pairs = list(evidence.pairs(first.check.step, "loss", "", first.tower))
    own = [each for each in pairs if first.quantity == "loss" and each[0] == first.name] or pairs[:1]
    return next(((float(one), float(other)) for _, one, other in own if one.size == 1 and one.any()), None)


def _loss(located: Located, evidence: Evidence) -> Loss:
    return Loss(located.place.inputs, feeds_of(located.first, evidence), 0.0, 0.0, evidence.close_losses)


def feeds_of(first: FirstDifference, evidence: Evidence) -> dict[str, Array]:
    """Returns the inputs of the tower that differs first, by name."""
    file = evidence.reference.step(first.check.step)
    tower = evidence.tower_of(first)
    keys = {text: parse_key(text) for text in file.names()}
    return {key.name: file.read(text) for text, key in keys.items() if (key.quantity, key.tower) == ("feed", tower)}
