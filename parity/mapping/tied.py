"""Makes a state that no guess can change: whatever a variable may be taken for, the candidate is given the same numbers.

With such a state the two sides compute the same function under every assignment that is still open, and the gradients, which
no two variables share, say which variable is which, and in which layout.
"""

from collections.abc import Mapping as Map
from collections.abc import Sequence

import numpy as np

from parity.mapping.guesses import Guess
from parity.mapping.transforms import Array, Transform, parse_transform
from parity.mapping.units import Unit

ROUNDS = 24


def tied_values(guesses: Sequence[Guess], values: Map[str, Array]) -> dict[str, Array]:
    """Returns values for the variables of guesses that are the candidate's same numbers under all options of all of them.

    Elements that an option could exchange are set to one number: same-shaped kernels to each other, a square kernel to its
    own transpose, the rows of a kernel behind a flattened map to each other.

    Args:
      guesses: what is open.
      values: the reference's name to the value to start from, float.
    """
    labels, offset = {}, 0
    for guess in guesses:
        size = int(np.prod(guess.variable.shape))
        labels[guess.variable.name] = np.arange(offset, offset + size).reshape(guess.variable.shape)
        offset += size
    _spread(guesses, labels)
    start = _by_label(guesses, labels, values, offset)
    return {name: start[label].astype(np.float64) for name, label in labels.items()}


def _spread(guesses: Sequence[Guess], labels: dict[str, Array]) -> None:
    """Gives elements that may stand in one place the least of their labels, until none changes."""
    for number in range(ROUNDS + 1):
        changed = False
        units: dict[Unit, list[Array]] = {}
        for guess in guesses:
            for unit, text in guess.options:
                made = _forward(text, labels[guess.variable.name])
                units[unit] = (
                    [np.minimum(a, b) for a, b in zip(units[unit], made, strict=True)] if unit in units else made
                )
        for guess in guesses:
            own = labels[guess.variable.name]
            for unit, text in guess.options:
                least = np.minimum(own, _backward(parse_transform(text), units[unit], own.shape))
                changed, own = changed or bool((least != own).any()), least
            labels[guess.variable.name] = own
        if not changed:
            return
        if number == ROUNDS // 2:
            _flatten_axes(guesses, labels)
        if number == ROUNDS - 1:
            for guess in guesses:
                labels[guess.variable.name] = np.full(guess.variable.shape, labels[guess.variable.name].min())


def _flatten_axes(guesses: Sequence[Guess], labels: dict[str, Array]) -> None:
    # The order of a flattened map moves whole rows, or whole columns: one label for all of them ends its long cycles.
    for guess in guesses:
        own = labels[guess.variable.name]
        axes = {0 if "unflatten" not in text else own.ndim - 1 for _, text in guess.options if "flatten_hwc" in text}
        for axis in axes:
            own = np.broadcast_to(own.min(axis=axis, keepdims=True), own.shape)
        labels[guess.variable.name] = np.array(own)


def _forward(text: str, label: Array) -> list[Array]:
    # As a gradient: no constant is added, and every term of a sum gets the whole.
    return [np.array(part) for part in parse_transform(text).forward(label, linear=True)]


def _backward(transform: Transform, parts: list[Array], shape: tuple[int, ...]) -> Array:
    if transform.is_sum:
        return transform.backward(parts[0], shape=shape, linear=True)
    if transform.rows is not None:  # a block stands in for the whole of which it is one
        parts = [np.concatenate([parts[0]] * transform.rows[1])]
    return transform.backward(*parts, shape=shape, linear=True)


def _by_label(guesses: Sequence[Guess], labels: Map[str, Array], values: Map[str, Array], count: int) -> Array:
    """The value of each label: the mean over its elements in the first variable that has it."""
    start = np.zeros(count)
    done = np.zeros(count, bool)
    for guess in guesses:
        own, value = labels[guess.variable.name].reshape(-1), np.asarray(values[guess.variable.name], np.float64)
        number = np.bincount(own, minlength=count)
        mean = np.bincount(own, _uneven(value, guess.variable.name).reshape(-1), minlength=count) / np.maximum(
            number, 1
        )
        fresh = (number > 0) & ~done
        start[fresh], done[fresh] = mean[fresh], True
    return start


def _uneven(value: Array, name: str) -> Array:
    # Zeros and ones, as biases and gammas start, would make neighbours alike.
    if value.size < 2 or np.ptp(value):
        return value
    random = np.random.default_rng(sum(name.encode()))
    return value + 0.05 * random.standard_normal(value.shape)
