"""What may be wrong in how weights are carried over or used, undone."""

import re
from collections.abc import Iterator, Sequence

import numpy as np

from parity.diagnose.catalogue import describe
from parity.diagnose.interventions.protocol import Change
from parity.judge.result import FirstDifference
from parity.trace import Trace, parse_key, select
from parity.trace.arrays import Array, Tensors

MOST_EXCHANGES = 24


def changes_of_the_flatten(first: FirstDifference, reference: Trace, state: Tensors) -> Iterator[Change]:
    """Yields the changes that put the inputs of a dense layer behind a flatten into the other order."""
    file = reference.step(first.check.step)
    images = {file.shape(text)[1:] for text in file.names("act", "feed") if len(file.shape(text)) == 4}
    for text, weight in select(state, "var").items():
        if weight.ndim != 2:
            continue
        name = parse_key(text).name
        for h, w, c in sorted(image for image in images if int(np.prod(image)) == weight.shape[1]):
            # Place k of the port's [c, h, w] is place order[k] of the graph's [h, w, c].
            order = np.arange(h * w * c).reshape(h, w, c).transpose(2, 0, 1).reshape(-1)
            yield Change(
                *describe("flatten_order", "image", variable=name, h=h, w=w, c=c),
                f"with the inputs of {name} taken from the order {h}, {w}, {c} to {c}, {h}, {w}",
                state=lambda state, text=text, order=order: {  # type: ignore[misc]
                    **state,
                    text: np.ascontiguousarray(state[text][:, order]),
                },
            )


def changes_of_the_gates(state: Tensors) -> Iterator[Change]:
    """Yields the change that exchanges the second and third gate of every LSTM."""
    layers = [text for text in state if re.search(r"(weight|bias)_(ih|hh)", text) and not len(state[text]) % 4]
    if layers:
        names = dict.fromkeys(parse_key(text).name for text in layers)  # a variable's slots go along with it
        yield Change(
            *describe("gate_order"),
            f"with the second and third quarter of {', '.join(names)} exchanged",
            state=lambda state: {**state, **{text: _exchanged_gates(state[text]) for text in layers}},
        )


def _exchanged_gates(value: Array) -> Array:
    # TensorFlow has the gates i, j, f, o, torch i, f, g, o: exchanging the middle two makes one of the other.
    first, second, third, fourth = np.split(value, 4)
    return np.concatenate([first, third, second, fourth])


def changes_of_the_state(first: FirstDifference, state: Tensors) -> Iterator[Change]:
    """Yields the changes that transpose a square kernel, or exchange two variables or layers of the same shapes."""
    # In the layer of the difference first; where its name is in none of them, everywhere.
    weights = select(state, "var")
    near = [text for text in weights if first.name and first.name.split("/")[0] in text] or list(weights)
    for text in near:
        value = weights[text]
        if value.ndim >= 2 and value.shape[0] == value.shape[1]:
            yield Change(
                *describe("transposed_kernel", "square", variable=parse_key(text).name),
                f"with {parse_key(text).name} transposed",
                state=lambda state, text=text: {**state, text: np.ascontiguousarray(np.swapaxes(state[text], 0, 1))},  # type: ignore[misc]
            )
    for one, other in list(_alike(near, weights))[:MOST_EXCHANGES]:
        yield Change(
            *describe("swapped_variables", "variables", one=parse_key(one).name, other=parse_key(other).name),
            f"with {parse_key(one).name} and {parse_key(other).name} exchanged",
            state=lambda state, one=one, other=other: {**state, one: state[other], other: state[one]},  # type: ignore[misc]
        )
    layers = {text.rpartition(".")[0] for text in near}
    for one, other in list(_layers_alike(sorted(layers), weights))[:MOST_EXCHANGES]:
        yield Change(
            *describe("swapped_variables", "layers", one=parse_key(one).name, other=parse_key(other).name),
            f"with all variables of {parse_key(one).name} and {parse_key(other).name} exchanged",
            state=lambda state, one=one, other=other: _exchanged(state, one, other),  # type: ignore[misc]
        )


def _alike(near: Sequence[str], weights: Tensors) -> Iterator[tuple[str, str]]:
    seen = set()
    for one in near:
        for other in weights:
            pair = frozenset((one, other))
            if one != other and pair not in seen and weights[one].shape == weights[other].shape:
                seen.add(pair)
                yield one, other


def _layers_alike(near: Sequence[str], weights: Tensors) -> Iterator[tuple[str, str]]:
    layers: dict[str, dict[str, tuple[int, ...]]] = {}
    for text, value in weights.items():
        layer, _, part = text.rpartition(".")
        layers.setdefault(layer, {})[part] = value.shape
    for place, one in enumerate(near):
        for other, shapes in layers.items():
            if other != one and len(shapes) > 1 and layers.get(one) == shapes and other not in near[:place]:
                yield one, other


def _exchanged(state: Tensors, one: str, other: str) -> Tensors:
    renamed = {}
    for text, value in state.items():
        layer, dot, part = text.rpartition(".")
        renamed[{one: other, other: one}.get(layer, layer) + dot + part] = value
    return renamed
