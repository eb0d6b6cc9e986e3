"""Recurrent layers in float64: cells with their rules, run over the steps of a sequence."""

from collections.abc import Callable, Iterator, Mapping
from itertools import permutations
from typing import NamedTuple

import numpy as np

from parity.trace.arrays import Array

Step = Callable[[Array, tuple[Array, ...]], tuple[Array, ...]]
GATE_NAMES = {"i": "input", "j": "new", "f": "forget", "o": "output", "r": "reset", "z": "update", "h": "new"}
TF_LSTM, TORCH_LSTM = "ijfo", "ifjo"  # torch calls TensorFlow's new input j the cell gate g


class Cell(NamedTuple):
    """A cell and what it may be otherwise.

    Fields:
      kind: "LSTM", "GRU" or "RNN".
      order: letters of the gates as their blocks lie in the kernel.
      forget_bias: what is added to a gate of an LSTM at run time.
      biased: the letter of that gate.
      reset: of a GRU: "before" or "after" the product with the state.
      bias_reset: of a GRU that resets after it: whether the bias of the new state is added before that.
      update: of a GRU: what the update gate multiplies, the "old" state or the "new" one.
      activation: of the new input and of an LSTM's output.
    """

    kind: str
    order: str
    forget_bias: float = 0.0
    biased: str = "f"
    reset: str = "before"
    bias_reset: bool = False
    update: str = "old"
    activation: str = "tanh"


class Weights(NamedTuple):
    """Kernels and biases of a cell, a block of columns for each gate.

    Fields:
      of_input: ``[in, gates * units]``.
      of_state: ``[units, gates * units]``.
      bias: ``[gates * units]``, added to both products.
      bias_of_state: the same, added to the state's product only; of a GRU that is reset after it.
      projection: ``[cells, units]``, of an LSTM whose output is projected, and is its state so; None of others.
    """

    of_input: Array
    of_state: Array
    bias: Array
    bias_of_state: Array
    projection: Array | None = None

    @property
    def units(self) -> int:
        """The size of the output, and of the state that it is."""
        return int(self.of_state.shape[0])

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of an LSTM's two states, c and h; in that order."""
        return (self.units if self.projection is None else len(self.projection)), self.units


class Way(NamedTuple):
    """How a cell goes over a sequence.

    Fields:
      lengths: of each example, None where all steps count.
      reverse: "" where it goes forward, else "each" where every example is reversed within its length, or "all".
      frozen: whether behind the end states stay and outputs are 0.
      keeps: ``[example, step]``, what the state before a step is multiplied by; None where it is kept.
    """

    lengths: Array | None = None
    reverse: str = ""
    frozen: bool = True
    keeps: Array | None = None


class Outputs(NamedTuple):
    """What a cell gives over a sequence.

    Fields:
      steps: ``[example, step, units]``.
      last: the state that is left behind the last step of each example, and where it goes forward what is put out last.
    """

    steps: Array
    last: tuple[Array, ...]


def weights_of(variables: Mapping[str, Array]) -> Iterator[tuple[str, Weights]]:
    """Yields the kinds of cells that some variables may be the weights of, with the weights.

    Args:
      variables: dict of name to value, of one layer: one or two kernels and their biases.
    """
    kernels = [value for value in variables.values() if value.ndim == 2]
    biases = [value for value in variables.values() if value.ndim == 1]
    if len(kernels) == 1:
        ((rows, columns),) = (kernel.shape for kernel in kernels)
        for kind, gates in (("LSTM", 4), ("RNN", 1)):
            # TensorFlow's cells have one kernel for input and state: rows of the input first, `units` rows of the state
            # behind.
            units = columns // gates
            # units of state go in too, so that the kernel has more rows than these; else it is a dense layer's.
            if columns == gates * units and rows > units and len(biases) <= 1:
                bias = biases[0] if biases else np.zeros(columns)
                if bias.shape == (columns,):
                    yield kind, Weights(kernels[0][: rows - units], kernels[0][rows - units :], bias, np.zeros(columns))
    for one, other in permutations(kernels, 2) if len(kernels) == 2 else ():
        yield from _of_two(one, other, biases)


def _of_two(one: Array, other: Array, biases: list[Array]) -> Iterator[tuple[str, Weights]]:
    units = other.shape[1]  # of GRUCell the candidate's columns
    if (
        one.shape[0] == other.shape[0] > units and one.shape[1] == 2 * units
    ):  # gates and candidate of TensorFlow's GRUCell
        fitting = [next((b for b in biases if b.shape == (k.shape[1],)), np.zeros(k.shape[1])) for k in (one, other)]
        rows = one.shape[0] - units  # of the input alone
        # Gates first, then the candidate: one kernel of three blocks, as torch has it.
        both = np.concatenate([one, other], axis=1)
        yield "GRU", Weights(both[:rows], both[rows:], np.concatenate(fitting), np.zeros(3 * units))
    # TensorFlow's LSTMCell with num_proj: one kernel for input and state, which has the projection's columns as rows.
    cells, projected = other.shape
    if (
        one.shape[1] == 4 * cells
        and one.shape[0] > projected
        and [bias.shape for bias in biases] in ([], [(4 * cells,)])
    ):
        rows = one.shape[0] - projected
        bias = biases[0] if biases else np.zeros(4 * cells)
        yield "LSTM", Weights(one[:rows], one[rows:], bias, np.zeros(4 * cells), other)
    for kind, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        # torch's two kernels: `one` meets the input, `other` the state, whose rows are the units.
        if one.shape[1] == other.shape[1] == gates * other.shape[0]:
            columns = one.shape[1]
            # One bias, two (of the input and of the state), or none: torch adds both, TensorFlow has one.
            fitting = [bias for bias in biases if bias.shape == (columns,)] or [np.zeros(columns)]
            first, second = [*fitting, np.zeros(columns)][:2]
            yield kind, Weights(one, other, first, second)
            # Which of two equal shapes meets the input, the shapes do not say.
            if first is not second and len(fitting) == 2:
                yield kind, Weights(one, other, second, first)


def step_of(cell: Cell, weights: Weights) -> Step:
    """Returns what becomes of an input ``[example, in]`` and a state, a tuple whose last is the output."""
    activate = np.tanh if cell.activation == "tanh" else (lambda x: np.maximum(x, 0.0))
    units = weights.of_state.shape[1] // len(cell.order)
    # Columns of each gate, by its letter: one block of `units` after the other, in the order of the kernel.
    place = {letter: slice(number * units, (number + 1) * units) for number, letter in enumerate(cell.order)}

    def lstm(x: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
        c, h = state
        z = x @ weights.of_input + h @ weights.of_state + weights.bias + weights.bias_of_state  # (examples, 4 units)
        parts = {
            letter: z[:, at] + (cell.forget_bias if letter == cell.biased else 0.0) for letter, at in place.items()
        }
        # c' = f c + i j, and out of it h' = o act(c'): both use the state of before the step.
        c = _sigmoid(parts["f"]) * c + _sigmoid(parts["i"]) * activate(parts["j"])
        h = _sigmoid(parts["o"]) * activate(c)
        return c, h if weights.projection is None else h @ weights.projection

    def gru(x: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
        (h,) = state
        of_x = x @ weights.of_input + weights.bias  # (examples, 3 units)
        of_h = h @ weights.of_state + weights.bias_of_state
        r, z = (_sigmoid(of_x[:, place[each]] + of_h[:, place[each]]) for each in "rz")  # (examples, units) each
        at = place["h"]
        if cell.bias_reset:
            # With `bias_reset` the new state's bias is added to the state's product, and reset with it.
            of_x, of_h = of_x - weights.bias, of_h + weights.bias
        inner = (
            # "before": r h goes through the matrix; "after", as cuDNN and torch: the product with h is scaled by r.
            r * of_h[:, at] if cell.reset == "after" else (r * h) @ weights.of_state[:, at] + weights.bias_of_state[at]
        )
        new = activate(of_x[:, at] + inner)
        # z keeps the old state (TensorFlow, torch), or takes the new one.
        return (z * h + (1 - z) * new if cell.update == "old" else (1 - z) * h + z * new,)

    def rnn(x: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
        (h,) = state
        return (activate(x @ weights.of_input + h @ weights.of_state + weights.bias + weights.bias_of_state),)

    return {"LSTM": lstm, "GRU": gru, "RNN": rnn}[cell.kind]


def over_steps(step: Step, x: Array, state: tuple[Array, ...], way: Way) -> Outputs:
    """Returns what a cell gives over a sequence.

    Args:
      step: as `step_of` returns it.
      x: ``[example, step, in]``.
      state: the first one.
      way: how it goes.
    """
    examples, steps = x.shape[:2]
    lengths = way.lengths if way.lengths is not None else np.full(examples, steps)  # (examples,)
    turned = _turned(x, lengths if way.reverse == "each" else np.full(examples, steps)) if way.reverse else x
    alive = np.arange(steps) < lengths[:, None]  # bool (examples, steps)
    outputs = []
    for t in range(steps):
        if way.keeps is not None:
            # Before the step, as an episode that begins at it has no state.
            state = tuple(each * way.keeps[:, t, None] for each in state)
        new = step(turned[:, t], state)
        # Frozen, a state stays as it was at the example's end; else it runs on over the padding.
        counts = alive[:, t, None] if way.frozen else np.ones((examples, 1), bool)
        state = tuple(np.where(counts, after, before) for after, before in zip(new, state, strict=True))
        # Behind the end dynamic_rnn gives zeros, whatever the state is.
        outputs.append(np.where(counts, new[-1], 0.0))
    found = np.stack(outputs, axis=1)
    if way.reverse:
        # Outputs are put back in the order of the steps, so that step t stands at t.
        found = _turned(found, lengths if way.reverse == "each" else np.full(examples, steps))
        return Outputs(found, state)
    # Forward the last of what is put out is one more candidate: of short examples it is padding, or zeros.
    return Outputs(found, (*state, found[:, -1]))


def _turned(x: Array, lengths: Array) -> Array:
    places = np.arange(x.shape[1])[None]
    # Within its length an example is reversed; what lies behind stays where it is, as tf.reverse_sequence leaves it.
    order = np.where(places < lengths[:, None], lengths[:, None] - 1 - places, places)
    return np.take_along_axis(x, order[..., None], axis=1)


def _sigmoid(x: Array) -> Array:
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * x)))  # by tanh: no overflow for any x
