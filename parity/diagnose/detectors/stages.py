"""Judges every stage of an update by its own inputs: what would the reference's rule make of what the candidate had?

So a bug in one stage does not hide one in a later stage. The rule of a stage is read off the reference's own trace.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from parity.diagnose.agreement import common_factor, fit
from parity.diagnose.detectors.clipping import limit_of
from parity.diagnose.evidence import Evidence
from parity.diagnose.optimizer_input import slot_rule
from parity.judge.metrics import norm
from parity.trace import EXECUTION_RANK
from parity.trace.arrays import Array

STAGES = ("grad", "clip", "slot", "var", "ema")
# Of what a stage gives, by the rule read off the reference. A decade above `RESIDUAL_OF_RULE`: weights are moved by as
# little as a millionth of themselves, and storing them rounds that move by 1e-10.
RESIDUAL_OF_STAGE = 1e-6
Named = dict[str, tuple[Array, Array]]


@dataclass(frozen=True)
class OwnInputs(Evidence):
    """Evidence about one stage of the update: its inputs are the candidate's on both sides.

    Its reference is what the reference's rule makes of them; where that cannot be read off, the reference's own tensors
    stand.

    Attributes:
      stage: the quantity, one of `STAGES`.
    """

    stage: str = ""

    def pairs(self, step: int, quantity: str, slot: str = "", tower: str = "") -> Iterator[tuple[str, Array, Array]]:
        """Yields name, what the reference's rule makes of the candidate's inputs, and what the candidate has."""
        plain = self._plain
        rule = (
            self.once(("rule", step, slot), lambda: rule_of(plain, step, quantity, slot))
            if quantity == self.stage
            else None
        )
        # Of what lies in front of the stage both sides are given the candidate's: differences there do not count again.
        an_input = quantity in ("tower_grad", *STAGES) and EXECUTION_RANK[quantity] < EXECUTION_RANK[self.stage]
        for name, one, other in plain.pairs(step, quantity, slot, tower):
            # A rule that gives another shape is one of another layout: the reference's own tensor stands then.
            made = other if an_input else rule(name) if rule is not None else None
            yield name, one if made is None or made.shape != one.shape else made, other

    def applied(self, step: int) -> Named:
        """Returns what the candidate's optimizer was given, for both sides; in an earlier stage each side's own."""
        # Behind clipping the optimizer's input is an input of the stage; at "grad" and "clip" it is what is judged.
        later = EXECUTION_RANK[self.stage] > EXECUTION_RANK["clip"]
        return {name: (other if later else one, other) for name, (one, other) in self._plain.applied(step).items()}

    @cached_property
    def _plain(self) -> Evidence:
        return Evidence(self.join, self.reference, self.candidate, self.states, self.towers, section=self.section)


def rule_of(evidence: Evidence, step: int, quantity: str, slot: str = "") -> Callable[[str], Array | None] | None:
    """Returns what makes a tensor of a stage of the candidate's own inputs, by the reference's rule; None if unknown."""
    if quantity == "grad":
        return _combined(evidence, step)
    if quantity == "clip":
        return _clipped(evidence, step)
    if quantity == "slot":
        return _slot(evidence, step, slot)
    if quantity == "var":
        return _moved(evidence, step)
    if quantity == "ema":
        return _averaged(evidence, step)
    return None


def _combined(evidence: Evidence, step: int) -> Callable[[str], Array | None] | None:
    towers = {t: _both(evidence, step, "tower_grad", "", t) for t in evidence.tower_names(step, "tower_grad")}
    combined = _both(evidence, step, "grad")
    names = [name for name in combined if all(name in own for own in towers.values())]
    if not towers or not names:
        return None
    # combined = sum over towers of w_t tower_grad_t, w_t one number over all variables: 1/n, 1, or another weighting.
    found = fit([[own[name][0] for own in towers.values()] for name in names], [combined[name][0] for name in names])
    if found is None or found.residual > RESIDUAL_OF_STAGE:
        return None
    weights = found.coefficients
    return lambda name: (
        _combination(np.zeros_like(combined[name][0]), weights, [own[name][1] for own in towers.values()])
        if name in names
        else None
    )


def _clipped(evidence: Evidence, step: int) -> Callable[[str], Array | None] | None:
    gradients, clipped = _both(evidence, step, "grad"), _both(evidence, step, "clip")
    names = [name for name in clipped if name in gradients]
    limit = limit_of([(gradients[name][0], clipped[name][0]) for name in names])
    if limit is None:
        return None
    # The candidate's own combined gradients: a global norm is theirs, and so is the factor it makes.
    own = {name: gradients[name][1] for name in names}
    total = float(np.sqrt(sum(norm(value) ** 2 for value in own.values())))

    def made(name: str) -> Array | None:
        if name not in own:
            return None
        if limit.by == "value":
            return np.clip(own[name], -limit.value, limit.value)
        size = total if limit.by == "global norm" else norm(own[name])
        # 1e-300 for a gradient of zeros, which stays zero: 0 times min(1, large).
        return own[name] * min(1.0, limit.value / max(size, 1e-300))

    return made


def _slot(evidence: Evidence, step: int, slot: str) -> Callable[[str], Array | None] | None:
    rule = slot_rule(evidence, step, slot, candidate=False)
    own = _gradients(evidence, step)
    # Neither a momentum, an average nor a sum of squares: RMSProp's slot, which takes the update up, is left.
    if rule is None:
        return _of_rmsprop(evidence, step, slot, own)

    def made(name: str) -> Array | None:
        before = evidence.before(step, "slot", name, slot)
        if before is None or name not in own:
            return None
        # The candidate's gradient in the reference's rule, from the common state before the step.
        return np.asarray(rule.keep * before + rule.take * own[name][1] ** rule.power)

    return made


def _of_rmsprop(evidence: Evidence, step: int, slot: str, own: Named) -> Callable[[str], Array | None] | None:
    # Its momentum takes the update itself up: momentum' = keep momentum + rate gradient / sqrt(rms' + epsilon).
    squares, slots = _both(evidence, step, "slot", "rms"), _both(evidence, step, "slot", slot)
    epsilon = float(evidence.optimizers[0].get("epsilon", 0.0))
    start = {name: was for name in slots if (was := evidence.before(step, "slot", name, slot)) is not None}
    # Only variables whose root is a number: an epsilon too small leaves 0 / 0 in places that never had a gradient.
    names = [name for name in start if name in squares and name in own and (squares[name][0] + epsilon > 0).all()]
    # By variable (reference, candidate): gradient over root, the column that the momentum takes up.
    scaled = {n: [own[n][side] / np.sqrt(np.abs(squares[n][side] + epsilon)) for side in (0, 1)] for n in names}
    found = fit([[start[n], scaled[n][0]] for n in names], [slots[n][0] for n in names]) if names else None
    # "rms" itself takes no update up: its rule would have been told by slot_rule.
    if slot == "rms" or found is None or found.residual > RESIDUAL_OF_STAGE:
        return None
    keep, take = found.coefficients
    return lambda name: keep * start[name] + take * scaled[name][1] if name in scaled else None


def _moved(evidence: Evidence, step: int) -> Callable[[str], Array | None] | None:
    weights = _both(evidence, step, "var")
    start = {name: was for name in weights if (was := evidence.before(step, "var", name)) is not None}
    for columns in _directions(evidence, step):
        moves = {name: weights[name][0] - was for name, was in start.items() if name in columns}
        # A move of a millionth of the weight is stored to 1e-10 of itself; smaller ones would spoil the fit of all.
        told = [name for name, move in moves.items() if norm(move) > 1e-6 * norm(start[name])]
        found = fit([columns[name][0] for name in told], [moves[name] for name in told]) if told else None
        if found is not None and found.residual <= RESIDUAL_OF_STAGE:
            return lambda name, shares=found.coefficients, columns=columns: (  # type: ignore[misc]
                # The candidate's columns with the reference's shares: what its move should have been.
                _combination(start[name], shares, columns[name][1]) if name in moves else None
            )
    return None


def _combination(start: Array, shares: Sequence[float], columns: Sequence[Array]) -> Array:
    moved = start.copy()
    for share, column in zip(shares, columns, strict=True):
        moved += share * column
    return moved


def _directions(evidence: Evidence, step: int) -> Iterator[dict[str, tuple[list[Array], list[Array]]]]:
    # What an update may be a multiple of: for each variable the columns of the reference and those of the candidate.
    gradients = _gradients(evidence, step)
    slots = {slot: _both(evidence, step, "slot", slot) for slot in evidence.slots(step)}
    # Momentum: the move is a multiple of the slot.
    for slot in slots.values():
        yield {name: ([one], [other]) for name, (one, other) in slot.items()}
    # Nesterov: of the slot and the gradient beside it.
    for slot in slots.values():
        yield {
            name: ([gradients[name][0], one], [gradients[name][1], other])
            for name, (one, other) in slot.items()
            if name in gradients
        }
    epsilon = float(evidence.optimizers[0].get("epsilon", 0.0))
    # Adam: m / (sqrt(v) + epsilon); its rate, with the bias corrected, is the one share.
    if {"m", "v"} <= set(slots) and slots["m"].keys() == slots["v"].keys():
        yield {
            name: tuple([slots["m"][name][side] / (np.sqrt(slots["v"][name][side]) + epsilon)] for side in (0, 1))  # type: ignore[misc]
            for name in slots["m"]
        }
    for slot in slots.values():
        # Adagrad and RMSProp: g / sqrt(slot), where no element of the slot is 0.
        if all((one > 0).all() and (other > 0).all() for one, other in slot.values()):
            yield {
                name: tuple([gradients[name][side] / np.sqrt(slot[name][side])] for side in (0, 1))  # type: ignore[misc]
                for name in slot
                if name in gradients
            }
    if not slots:
        # Plain gradient descent, and only where nothing else could be meant.
        yield {name: ([one], [other]) for name, (one, other) in gradients.items()}


def _averaged(evidence: Evidence, step: int) -> Callable[[str], Array | None] | None:
    weights, averages = _both(evidence, step, "var"), _both(evidence, step, "ema")
    before = {name: evidence.before(step, "ema", name) for name in averages}
    moves = [
        (weights[name][0] - was, averages[name][0] - was)
        for name, was in before.items()
        # Averages that begin where the weights are go nowhere, whatever their decay.
        if was is not None and name in weights and norm(weights[name][0] - was) > 1e-6 * norm(was)
    ]
    # average' - average = (1 - decay)(weight' - average): the share is one number over all variables.
    share = common_factor(moves, 1e-7)
    if share is None:
        return None
    return lambda name: (
        before[name] + share * (weights[name][1] - before[name])  # type: ignore[operator]
        if name in weights and before.get(name) is not None
        else None
    )


def _gradients(evidence: Evidence, step: int) -> Named:
    return evidence.applied(step)


def _both(evidence: Evidence, step: int, quantity: str, slot: str = "", tower: str = "") -> Named:
    return {name: (one, other) for name, one, other in evidence.pairs(step, quantity, slot, tower)}
