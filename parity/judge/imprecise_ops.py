"""What rests on ops of the reference whose float64 kernel is as rough as float32, TensorFlow's CTC loss among them."""

from collections.abc import Mapping
from typing import Any

from parity.trace import GRADIENTS, OPTIMIZED, TensorKey, parse_evaluated

INEXACT_FACT = "inexact_in_float64"
NAMELESS_LOSS = ""
OUTPUT_QUANTITIES = frozenset(["act", "metric"])
# All that is made of the loss by differentiating it: its gradients and what an optimizer makes of these.
OF_GRADIENTS = GRADIENTS | OPTIMIZED


def is_inexact(key: TensorKey, facts: Mapping[str, Any]) -> bool:
    """Returns whether a tensor of the reference's float64 run is known to float32 only.

    Args:
      key: its name.
      facts: the reference's; `inexact_in_float64` has the `outputs` that depend on such ops, "" of them the loss.
    """
    outputs = (facts.get(INEXACT_FACT) or {}).get("outputs", ())
    # Gradients of all variables come of the loss: one rough op in it makes all of them rough.
    if key.quantity in OF_GRADIENTS or (key.quantity == "loss" and not key.name):
        return NAMELESS_LOSS in outputs
    if key.quantity == "eval":  # comes after the last update
        return NAMELESS_LOSS in outputs or (parse_evaluated(key.name).output or NAMELESS_LOSS) in outputs
    return key.quantity in OUTPUT_QUANTITIES and key.name in outputs


def inexact_notes(facts: Mapping[str, Any]) -> list[str]:
    """Returns what a report says of it, or nothing."""
    known = facts.get(INEXACT_FACT) or {}
    if not known:
        return []
    named = ["the loss, gradients and updates"] if NAMELESS_LOSS in known["outputs"] else []
    named += [name for name in known["outputs"] if name != NAMELESS_LOSS]
    return [
        f"TensorFlow's float64 kernel is no more accurate than float32 at {', '.join(known['places'])}: what depends on it "
        f"is judged as float32 ({', '.join(named)})"
    ]
