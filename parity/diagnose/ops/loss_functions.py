"""Loss functions of both frameworks as functions of arrays, by name: of each example, and what becomes of all of them."""

from collections.abc import Callable

import numpy as np

from parity.diagnose.ops.activations import log_softmax
from parity.diagnose.ops.arguments import Arguments, Attributes, set_to
from parity.trace.arrays import Array

REDUCED = {0: "none", 1: "mean", 2: "sum"}  # torch's enumeration


def _sparse_entropy(arguments: Arguments, attributes: Attributes) -> Array:
    logs, labels = log_softmax(np.asarray(arguments[0], np.float64), -1), np.asarray(arguments[1]).astype(np.int64)
    return -np.take_along_axis(logs, labels[..., None], -1)[..., 0]


def _entropy(arguments: Arguments, attributes: Attributes) -> Array:
    logs = log_softmax(np.asarray(arguments[0], np.float64), -1)
    return np.asarray(-(logs * np.asarray(arguments[1], np.float64)).sum(-1))


def _entropy_of_each(arguments: Arguments, attributes: Attributes) -> Array:
    logits, labels = np.asarray(arguments[0], np.float64), np.asarray(arguments[1])
    smoothing = float(set_to("label_smoothing", "5", arguments, attributes, 0.0))
    logs = log_softmax(np.moveaxis(logits, 1, -1), -1)
    if labels.ndim == logits.ndim:
        held = np.moveaxis(np.asarray(labels, np.float64), 1, -1)
    else:
        ignored = int(set_to("ignore_index", "4", arguments, attributes, -100))
        held = (labels.astype(np.int64)[..., None] == np.arange(logs.shape[-1])).astype(np.float64)
        # What is ignored has the loss 0, and no part in the smoothing.
        held[labels == ignored] = 0.0
    made = -(logs * held).sum(-1)
    # (1 - s) of the label and s spread over all classes, the label's own among them: torch and tf.losses do so alike.
    spread = -logs.mean(-1) * held.sum(-1)
    return np.asarray((1.0 - smoothing) * made + smoothing * spread)


def _of_two(function: Callable[[Array, Array], Array]) -> Callable[[Arguments, Attributes], Array]:
    def made(arguments: Arguments, attributes: Attributes) -> Array:
        return function(np.asarray(arguments[0], np.float64), np.asarray(arguments[1], np.float64))

    return made


def _smooth_l1(arguments: Arguments, attributes: Attributes) -> Array:
    beta = float(set_to("beta", "3", arguments, attributes, 1.0))
    apart = np.abs(np.asarray(arguments[0], np.float64) - np.asarray(arguments[1], np.float64))
    return np.where(apart < beta, 0.5 * apart**2 / beta, apart - 0.5 * beta)


def _huber(arguments: Arguments, attributes: Attributes) -> Array:
    delta = float(set_to("delta", "3", arguments, attributes, 1.0))
    apart = np.abs(np.asarray(arguments[0], np.float64) - np.asarray(arguments[1], np.float64))
    return np.where(apart < delta, 0.5 * apart**2, delta * (apart - 0.5 * delta))


def _of_all(arguments: Arguments, attributes: Attributes) -> Array:
    """What becomes of each loss: torch's last argument says it; no weights."""
    # torch_ddp/step/fused_functions.py records a loss of torch as `NAME of each`, and then as NAME, which reduces that.
    x = np.asarray(arguments[0], np.float64)
    told = next((REDUCED[at] for at in (attributes.get(place) for place in ("2", "3")) if at in REDUCED), "mean")
    how = attributes.get("reduction", told)
    name = REDUCED.get(how, str(how))
    if name not in ("mean", "sum"):
        raise ValueError(name)
    return np.asarray(x.mean() if name == "mean" else x.sum())


def _cross_entropy(arguments: Arguments, attributes: Attributes) -> Array:
    none = attributes.get("reduction", REDUCED.get(attributes.get("3", 1))) in ("none", 0)
    return _entropy_of_each(arguments, attributes) if none else _of_all(arguments, attributes)


LOSS_FUNCTIONS: dict[str, Callable[[Arguments, Attributes], Array]] = {
    "sparsesoftmaxcrossentropywithlogits": _sparse_entropy,
    "softmaxcrossentropywithlogits": _entropy,
    "cross_entropy_loss of each": _entropy_of_each,
    "mse_loss of each": _of_two(lambda x, y: (x - y) ** 2),
    "l1_loss of each": _of_two(lambda x, y: np.abs(x - y)),
    "smooth_l1_loss of each": _smooth_l1,
    "huber_loss of each": _huber,
    "binary_cross_entropy_with_logits of each": _of_two(
        lambda x, z: np.maximum(x, 0) - x * z + np.log1p(np.exp(-abs(x)))
    ),
    **dict.fromkeys(("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"), _of_all),
    "cross_entropy_loss": _cross_entropy,
    "binary_cross_entropy_with_logits": _of_all,
}
