"""Activation functions, and how to undo them."""

import math
from collections.abc import Callable

import numpy as np

from parity.trace.arrays import Array


def _sigmoid(x: Array) -> Array:
    return np.asarray(np.exp(-np.logaddexp(0.0, -x)))  # as exact for small ones, and nothing overflows


def _gelu(x: Array) -> Array:
    return np.asarray(x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2)


def softmax(x: Array, axis: int | tuple[int, ...]) -> Array:
    """Returns the softmax over an axis, or over several together."""
    with np.errstate(invalid="ignore", over="ignore"):
        # The largest is taken out, so that nothing overflows; where all are -inf, as behind a mask, it is NaN as in
        # both frameworks.
        raised = np.exp(x - x.max(axis=axis, keepdims=True))
        return np.asarray(raised / raised.sum(axis=axis, keepdims=True))


def log_softmax(x: Array, axis: int | tuple[int, ...]) -> Array:
    """Returns the logarithm of the softmax over an axis, or over several together."""
    with np.errstate(invalid="ignore", over="ignore"):
        shifted = x - x.max(axis=axis, keepdims=True)
        return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True)))


def _where(condition: Array, value: Array) -> Array:
    return np.where(condition, value, np.nan)


def _logit(y: Array) -> Array:
    # Nearer to its limits the inverse loses digits: dy = 1e-16 moves x = log(y / (1 - y)) by 1e-16 / 1e-6 = 1e-10.
    inside = (y > 1e-6) & (y < 1 - 1e-6)
    return _where(inside, np.log(np.where(inside, y, 0.5) / (1 - np.where(inside, y, 0.5))))


def _atanh(y: Array) -> Array:
    # As of the logit: beyond it rounding of y moves x by more than 1e-10.
    inside = np.abs(y) < 1 - 1e-6
    return _where(inside, np.arctanh(np.where(inside, y, 0.0)))


SLOPES = (0.01, 0.1, 0.2, 0.3)  # of leaky ReLUs: the defaults of torch, of darknet's nets, of tf.nn and of keras

SCALE_OF_SELU, ALPHA_OF_SELU = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717

FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "no activation": lambda x: x,
    "ReLU": lambda x: np.maximum(x, 0.0),
    "ReLU6": lambda x: np.clip(x, 0.0, 6.0),
    "GELU": _gelu,
    # The approximation of Hendrycks and Gimpel, https://arxiv.org/abs/1606.08415.
    "GELU (tanh)": lambda x: x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
    "SiLU": lambda x: x * _sigmoid(x),
    "softplus": lambda x: np.logaddexp(x, 0.0),
    "ELU": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0.0))),
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
    # torch's slope of 1/6; that of Keras is 1/5.
    "hard sigmoid": lambda x: np.clip(x / 6 + 0.5, 0.0, 1.0),
    "hard swish": lambda x: x * np.clip(x / 6 + 0.5, 0.0, 1.0),
    "Mish": lambda x: x * np.tanh(np.logaddexp(x, 0.0)),
    # Klambauer et al., https://arxiv.org/abs/1706.02515.
    "SELU": lambda x: SCALE_OF_SELU * np.where(x > 0, x, ALPHA_OF_SELU * np.expm1(np.minimum(x, 0.0))),
}
# What the values were before: told only where the function is invertible.
INVERSES: dict[str, Callable[[Array], Array]] = {
    "ReLU": lambda y: _where(y > 0, y),
    "tanh": _atanh,
    "sigmoid": _logit,
    "no activation": lambda y: y,
}
