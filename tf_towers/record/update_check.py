"""Checks recorded gradients against the updates that were recorded with them, where an optimizer's rule is known."""

from typing import AbstractSet, Any, Callable, Dict, List, Mapping, Optional, Tuple

import numpy as np

from parity.trace import LEARNING_RATE, parse_key, section_prefix, trace_name
from parity.trace.arrays import Array, Tensors
from tf_towers.graph.value_flow import writers_of
from tf_towers.record.hazards.types import Hazard
from tf_towers.record.plan import Section
from tf_towers.record.variables import hyper_parameters
from tf_towers.tf_types import Operation

# Of an update, its gradient and the optimizer's settings: what it gave, what it should, and what of the gradient is in that.
Rule = Callable[["_Update", Array, Dict[str, Any]], Tuple[Array, Array, float]]
# float32 rounds 2^-24 of a gradient and flips single elements; a race moves it by up to 130%
NOT_THIS_GRADIENT = 2.0**-7
# Of all gradients of the step: what is smaller may be structurally zero, mere rounding, and counts as this large.
FAINT = 1e-3
# 16 unit roundoffs of float32, of what is stored: a rule rounds a few times.
UPDATE_ROUNDING = 2.0**-20
MEANING = (
    "What is recorded under grad/ is not what was applied: the script races, or computes something else in each run. "
    "Judge the port's gradients by the float64 shadow, and do not trust the recorded ones."
)


def gradients_not_applied(
    section: Section, ops: AbstractSet[Operation], before: Tensors, tensors: Mapping[str, Any], after: Tensors
) -> List[Hazard]:
    """Returns a list with the `Hazard` of a step whose update does not follow from the recorded gradients, else empty.

    Args:
      section: a `Section`.
      ops: the set of ops that the run needs.
      before: dict of trace name to array, the state before the step.
      tensors: the same of what the step computed.
      after: the state after the step.
    """
    rule = UPDATE_RULES.get(type(section.apply.optimizer).__name__)
    if rule is None:
        return []
    settings = dict(hyper_parameters(section.apply.optimizer))
    rate = tensors.get(section.prefix + LEARNING_RATE)
    settings["learning_rate"] = settings.get("learning_rate") if rate is None else float(rate)
    applied = _applied(section, ops, tensors)
    total = np.sqrt(sum(float(np.sum(np.square(each, dtype=np.float64))) for each in applied.values()))
    for name, gradient in applied.items():
        found = _Update(section.prefix, name, before, after)
        try:
            got, wanted, of_gradient = rule(found, gradient.astype(np.float64), settings)
        except (KeyError, TypeError):
            continue  # a slot or a number that is not recorded, e.g. one that changes from step to step
        size = max(float(np.linalg.norm(gradient)), FAINT * total)
        # |got - wanted| <= of_gradient * |applied - recorded gradient| + what both rounded, in L2 over the variable.
        apart = float(np.linalg.norm(got - wanted))
        allowed = NOT_THIS_GRADIENT * of_gradient * size + UPDATE_ROUNDING * float(
            np.linalg.norm(got) + np.linalg.norm(wanted)
        )
        if apart > allowed:
            share = apart / (of_gradient * size) if of_gradient * size else float("inf")
            what = f"the update of {name} is {share:.2g} of its gradient away from what the recorded gradient gives"
            return [Hazard("gradient_not_applied", what, MEANING)]
    return []


def changed_by_clipping(section: Section, tensors: Mapping[str, Any]) -> Optional[bool]:
    """Tells whether gradients of one step came out of a script's clipping as others; None where it clips none.

    Args:
      section: a `Section`.
      tensors: dict of trace name to array, of the step.
    """
    clipped = [
        key
        for key in map(parse_key, tensors)
        if key.quantity == "clip" and section_prefix(key.section) == section.prefix
    ]
    if not clipped:
        return None
    pairs = [(tensors.get(str(key.of("grad"))), tensors[str(key)]) for key in clipped]
    return any(one is None or not _alike(np.asarray(one), np.asarray(other)) for one, other in pairs)


def _alike(one: Array, other: Array) -> bool:
    return one.shape == other.shape and bool(np.all(np.abs(one - other) <= UPDATE_ROUNDING * np.abs(one)))


class _Update:
    """One variable's state around an update."""

    def __init__(self, prefix: str, name: str, before: Tensors, after: Tensors) -> None:
        self._prefix, self._name = prefix, name
        self._before, self._after = before, after

    def weight(self) -> Tuple[Array, Array]:
        key = trace_name("var", self._name)
        return self._before[key].astype(np.float64), self._after[key].astype(np.float64)

    def slot(self, slot: str) -> Tuple[Array, Array]:
        key = self._prefix + trace_name("slot", self._name, slot=slot)
        return self._before[key].astype(np.float64), self._after[key].astype(np.float64)


def _applied(section: Section, ops: AbstractSet[Operation], tensors: Mapping[str, Any]) -> Tensors:
    """The dense gradients as the optimizer was given them, of weights that nobody else writes in the same run."""
    found = {}
    for _, variable in section.apply.pairs:
        name = variable.op.name
        # A weight that is clipped or scaled in the same run does not hold what the optimizer left.
        if len(writers_of(variable, ops)) != 1:
            continue
        # What the optimizer was given is the clipped one, where there is one.
        for quantity in ("clip", "grad"):
            value = tensors.get(section.prefix + trace_name(quantity, name))
            if value is not None:
                found[name] = np.asarray(value)
                break
    return found


def _descent(update: _Update, gradient: Array, settings: Dict[str, Any]) -> Tuple[Array, Array, float]:
    old, new = update.weight()
    return new, old - settings["learning_rate"] * gradient, abs(settings["learning_rate"])


def _momentum(update: _Update, gradient: Array, settings: Dict[str, Any]) -> Tuple[Array, Array, float]:
    # The slot and not the weight: the gradient is in it whole, not times a rate that the weight's rounding may hide.
    old, new = update.slot("momentum")
    return new, settings["momentum"] * old + gradient, 1.0


def _adam(update: _Update, gradient: Array, settings: Dict[str, Any]) -> Tuple[Array, Array, float]:
    old, new = update.slot("m")
    return new, settings["beta1"] * old + (1.0 - settings["beta1"]) * gradient, 1.0 - settings["beta1"]


def _adagrad(update: _Update, gradient: Array, settings: Dict[str, Any]) -> Tuple[Array, Array, float]:
    old, new = update.slot("accumulator")
    # d(g^2) = 2 g dg, elementwise at most 2 max |g| times what the gradient is off
    return new, old + np.square(gradient), 2.0 * _largest(gradient)


def _mean_of_squares(slot: str, setting: str) -> Rule:
    def rule(update: _Update, gradient: Array, settings: Dict[str, Any]) -> Tuple[Array, Array, float]:
        old, new = update.slot(slot)
        part = 1.0 - settings[setting]
        return new, settings[setting] * old + part * np.square(gradient), 2.0 * part * _largest(gradient)

    return rule


def _largest(gradient: Array) -> float:
    return float(np.max(np.abs(gradient))) if gradient.size else 0.0


# Sources: tensorflow/core/kernels/training_ops.cc (1.15).
UPDATE_RULES = {
    "GradientDescentOptimizer": _descent,
    "MomentumOptimizer": _momentum,
    "AdamOptimizer": _adam,
    "AdagradOptimizer": _adagrad,
    "RMSPropOptimizer": _mean_of_squares("rms", "decay"),
    "AdadeltaOptimizer": _mean_of_squares("accum", "rho"),
}
