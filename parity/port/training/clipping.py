"""Writes the rule by which a script clips its combined gradients, as a hook of the optimizer."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from parity.port.source.code import number
from parity.trace.as_written import as_written

BEFORE_COMBINING = "before_combining"
BY_GLOBAL_NORM = "global_norm"


def clip_statements(rule: Mapping[str, Any], parameters: str) -> list[str] | str:
    """Returns the body of the hook that clips, or why there is none, in words.

    Args:
      rule: as of `RecordedGraph.clipping`.
      parameters: an expression for those that are clipped.
    """
    # A hook of the optimizer sees gradients that DDP has reduced already.
    if rule.get("place") == BEFORE_COMBINING or rule.get("first"):
        return "clips each tower's own gradients before they are combined, which an optimizer's hook cannot"
    settings = {name: value for name, value in rule.items() if name in ("limit", "low", "high", "factor")}
    changing = [str(value) for value in settings.values() if isinstance(value, str)]
    if changing:
        return f"is by a limit that changes from step to step: {', '.join(changing)}"
    write = CLIPPING_KINDS.get(str(rule.get("kind")))
    if write is None:
        return "of the combined gradients is by a rule that is not known"
    return write({name: _number(value) for name, value in settings.items()}, parameters)


def _by_global_norm(settings: Mapping[str, str], parameters: str) -> list[str]:
    # torch.nn.utils.clip_grad_norm_ adds 1e-6 to the norm, and clips a little below the limit.
    return [f"like_tf.clip_grads_by_global_norm_({parameters}, {settings['limit']})"]


def _by_norm(settings: Mapping[str, str], parameters: str) -> list[str]:
    # Each gradient by its own norm, in tf.clip_by_norm's order of multiplying and dividing.
    return _each(parameters, f"like_tf.clip_by_norm(weight.grad, {settings['limit']})")


def _by_value(settings: Mapping[str, str], parameters: str) -> list[str]:
    return _each(parameters, f"weight.grad.clamp({settings['low']}, {settings['high']})")


def _by_factor(settings: Mapping[str, str], parameters: str) -> list[str]:
    return _each(parameters, f"weight.grad * {settings['factor']}")


CLIPPING_KINDS: dict[str, Callable[[Mapping[str, str], str], list[str]]] = {
    BY_GLOBAL_NORM: _by_global_norm,
    "norm": _by_norm,
    "value": _by_value,
    "scale": _by_factor,
}


def _each(parameters: str, clipped: str) -> list[str]:
    return [f"for weight in {parameters}:", "    if weight.grad is not None:", f"        weight.grad = {clipped}"]


def _number(value: Any) -> str:
    return "None" if value is None else number(float(as_written(np.float32(value)))).text
