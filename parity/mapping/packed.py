"""Transforms of arrays that one side packs into one: gates of recurrent cells; query, key and value."""

import math

import numpy as np

from parity.mapping.layouts import flatten_hwc
from parity.mapping.transforms import Shape, Transform, misfit, register
from parity.mapping.variables import MappingError
from parity.trace.arrays import Array


@register("lstm_gates")
def lstm_gates() -> Transform:
    """Turns an LSTM cell's kernel ``[in + h, 4 h]`` into ``weight_ih`` ``[4 h, in]`` and ``weight_hh`` ``[4 h, h]``.

    TensorFlow orders the gates i, j, f, o; torch i, f, g, o, where its g is j. Of a cell whose output is projected see
    `lstm_projected`.

    Source: tensorflow/python/ops/rnn_cell_impl.py (1.15), BasicLSTMCell.call; torch/nn/modules/rnn.py, LSTM.
    """
    return _lstm_kernel("lstm_gates", "h", None)


@register("lstm_projected")
def lstm_projected(state: int) -> Transform:
    """Turns the kernel ``[in + p, 4 h]`` of an LSTM cell whose output is projected to p into ``[4 h, in]`` and ``[4 h, p]``.

    As `lstm_gates`, for ``LSTMCell(num_proj=p)`` and ``nn.LSTM(proj_size=p)``; p does not show in the kernel's shape.

    Source: tensorflow/python/ops/rnn_cell_impl.py (1.15), LSTMCell.call; torch/nn/modules/rnn.py, LSTM.
    """
    text = f"lstm_projected({state})"
    if type(state) is not int or state < 1:
        raise MappingError(f"{text}: expected the size that the output is projected to. Write num_proj of the cell.")
    return _lstm_kernel(text, str(state), state)


def _lstm_kernel(text: str, said: str, projected: int | None) -> Transform:
    """Cuts a kernel in two behind its inputs: the state has as many rows as its output is projected to, or as h."""

    def state_of(gates: int) -> int:
        return gates // 4 if projected is None else projected

    def forward(array: Array, linear: bool) -> tuple[Array, ...]:
        if array.ndim != 2 or array.shape[1] % 4 or array.shape[0] <= state_of(array.shape[1]):
            raise misfit(text, f"[in + {said}, 4 h]", array.shape)
        # TensorFlow multiplies by [inputs, state] at once: the first rows are the inputs', the last the state's.
        inputs = array.shape[0] - state_of(array.shape[1])
        rows = swap_gates(array.T)
        return rows[:, :inputs], rows[:, inputs:]

    def backward(arrays: tuple[Array, ...], shape: Shape | None, linear: bool) -> Array:
        of_input, of_state = arrays
        if of_state.ndim != 2 or of_state.shape[0] % 4 or of_state.shape[1] != state_of(of_state.shape[0]):
            raise misfit(text, f"weight_hh [4 h, {said}]", of_state.shape)
        if of_input.ndim != 2 or of_input.shape[0] != of_state.shape[0]:
            raise misfit(text, f"weight_ih [{of_state.shape[0]}, in]", of_input.shape)
        return swap_gates(np.concatenate([of_input, of_state], axis=1)).T

    return Transform(text, 2, False, forward, backward)


@register("rnn_kernel")
def rnn_kernel() -> Transform:
    """Turns a plain recurrent cell's kernel ``[in + h, h]`` into ``weight_ih`` ``[h, in]`` and ``weight_hh`` ``[h, h]``.

    Source: tensorflow/python/ops/rnn_cell_impl.py (1.15), BasicRNNCell.call; torch/nn/modules/rnn.py, RNN.
    """

    def forward(array: Array, linear: bool) -> tuple[Array, ...]:
        if array.ndim != 2 or array.shape[0] <= array.shape[1]:
            raise misfit("rnn_kernel", "[in + h, h]", array.shape)
        inputs = array.shape[0] - array.shape[1]
        return array[:inputs].T, array[inputs:].T

    def backward(arrays: tuple[Array, ...], shape: Shape | None, linear: bool) -> Array:
        of_input, of_state = arrays
        if of_state.ndim != 2 or of_input.ndim != 2 or of_state.shape != (of_input.shape[0],) * 2:
            raise misfit("rnn_kernel", "weight_hh [h, h]", of_state.shape)
        return np.concatenate([of_input.T, of_state.T])

    return Transform("rnn_kernel", 2, False, forward, backward)


@register("lstm_rows")
def lstm_rows() -> Transform:
    """Turns one half of an LSTM's kernel, ``[in, 4 h]`` in gates i, j, f, o, into torch's ``[4 h, in]`` in i, f, g, o."""

    def forward(array: Array, linear: bool) -> tuple[Array, ...]:
        if array.ndim not in (1, 2) or array.shape[-1] % 4:
            raise misfit("lstm_rows", "[in, 4 h] or [4 h]", array.shape)
        return (swap_gates(array.T),)

    return Transform("lstm_rows", 1, False, forward, lambda arrays, shape, linear: swap_gates(arrays[0]).T)


@register("gates")
def gates(*order: int) -> Transform:
    """Puts the gates of a recurrent cell in torch's order, kernels turned: ``[in, n h]`` into ``[n h, in]``.

    A bias ``[n h]`` stays one. Block i of the result is the reference's block ``order[i]``: the gates z, r, h of a cell of
    Keras' become the r, z, n of torch's GRU by ``gates(1, 0, 2)``.

    Source: torch/nn/modules/rnn.py, GRU; keras/layers/recurrent.py, GRUCell.call.
    """
    text = f"gates({', '.join(str(place) for place in order)})"
    if len(order) < 2 or any(type(place) is not int for place in order) or sorted(order) != [*range(len(order))]:
        raise MappingError(f"{text}: expected every block's number once. Count from 0.")
    back = tuple(order.index(place) for place in range(len(order)))  # the inverse permutation: back[order[i]] = i

    def moved(array: Array, places: tuple[int, ...]) -> Array:
        blocks = np.split(array, len(places))
        return np.concatenate([blocks[place] for place in places])

    def forward(array: Array, linear: bool) -> tuple[Array, ...]:
        if array.ndim not in (1, 2) or array.shape[-1] % len(order):
            raise misfit(text, f"[in, {len(order)} h] or [{len(order)} h]", array.shape)
        return (moved(array.T, order),)  # .T of a bias is the bias

    def backward(arrays: tuple[Array, ...], shape: Shape | None, linear: bool) -> Array:
        (array,) = arrays
        if array.ndim not in (1, 2) or array.shape[0] % len(order):
            raise misfit(text, f"[{len(order)} h, in] or [{len(order)} h]", array.shape)
        return moved(array, back).T

    return Transform(text, 1, False, forward, backward)


@register("lstm_bias")
def lstm_bias(forget_bias: float = 1.0) -> Transform:
    """Turns an LSTM cell's bias ``[4 h]`` into ``bias_ih`` and ``bias_hh``, ``[4 h]`` each, whose sum counts in torch.

    TensorFlow adds `forget_bias` to the forget gate at run time and keeps it out of the variable; here `bias_hh` becomes
    that constant, 0 for the other gates, and must stay frozen: where both are trained their sum moves twice as far in a
    step. In a sum with the variable the constant would round it: in float32 a bias near 0 loses 6e-8.

    Source: tensorflow/python/ops/rnn_cell_impl.py (1.15), BasicLSTMCell.call.
    """
    if not math.isfinite(forget_bias):
        raise MappingError(f"lstm_bias: expected a finite forget_bias, got {forget_bias}. Write the cell's own.")

    def constant(array: Array) -> Array:
        if array.ndim != 1 or array.size % 4:
            raise misfit("lstm_bias", "[4 h]", array.shape)
        added = np.zeros_like(array)
        added[array.size // 4 : array.size // 2] = forget_bias
        return added

    def forward(array: Array, linear: bool) -> tuple[Array, ...]:
        added = constant(array)
        ordered = swap_gates(array)
        return (ordered, ordered) if linear else (ordered, added)

    def backward(arrays: tuple[Array, ...], shape: Shape | None, linear: bool) -> Array:
        added = constant(_of_one_shape("lstm_bias", arrays)[0])
        # Off the frozen term, where it is exact, and not off the sum: b + (1 - 1) keeps b, (b + 1) - 1 loses its last
        # bits.
        of_value = arrays if linear else (arrays[0], arrays[1] - added)
        return swap_gates(_total(of_value, linear))

    return Transform(f"lstm_bias({forget_bias})", 2, True, forward, backward)


@register("sum")
def sum_of_two() -> Transform:
    """Declares one array of the reference as the sum of two of the candidate's; split as itself and zeros."""

    def forward(array: Array, linear: bool) -> tuple[Array, ...]:
        return (array, array if linear else np.zeros_like(array))

    return Transform(
        "sum", 2, True, forward, lambda arrays, shape, linear: _total(_of_one_shape("sum", arrays), linear)
    )


def swap_gates(array: Array) -> Array:
    """Reorders four equal blocks of the first axis from i, j, f, o to i, f, g, o, and back by the same swap."""
    # The swap of two blocks is its own inverse, so one function serves both ways.
    first, second, third, fourth = np.split(array, 4)
    return np.concatenate([first, third, second, fourth])


def _of_one_shape(text: str, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    if any(array.shape != arrays[0].shape for array in arrays):
        raise misfit(text, f"{arrays[0].shape} of every part", arrays[-1].shape)
    return arrays


def _total(arrays: tuple[Array, ...], linear: bool) -> Array:
    if len(arrays) == 1:
        return arrays[0]
    # Half of twice a number is that number exactly, so gradients that agree come back unrounded.
    return (arrays[0] + arrays[1]) * arrays[0].dtype.type(0.5) if linear else arrays[0] + arrays[1]


@register("rows")
def rows(index: int, count: int) -> Transform:
    """Puts an array in place as block `index` of `count` equal blocks of rows, as `MultiheadAttention` packs its kernels.

    `torch.nn.MultiheadAttention.in_proj_weight` ``[3 d, d]`` holds query, key and value, 0 to 2, each ``[d, d]``.

    Source: torch/nn/modules/activation.py, MultiheadAttention.
    """
    text = f"rows({index}, {count})"
    if type(index) is not int or type(count) is not int or not 0 <= index < count:
        raise MappingError(f"{text}: expected a block's number below the number of blocks. Count from 0.")

    def forward(array: Array, linear: bool) -> tuple[Array, ...]:
        if not array.ndim:
            raise misfit(text, "an array with rows", array.shape)
        return (array,)

    def backward(arrays: tuple[Array, ...], shape: Shape | None, linear: bool) -> Array:
        (array,) = arrays
        if not array.ndim or array.shape[0] % count:
            raise misfit(text, f"rows in {count} equal blocks", array.shape)
        size = array.shape[0] // count
        return array[index * size : (index + 1) * size]

    return Transform(text, 1, False, forward, backward, (index, count))


@register("split")
def split(count: int) -> Transform:
    """Cuts the last axis into `count` equal pieces, kernels turned: ``[in, n out]`` into n times ``[out, in]``.

    A bias ``[n out]`` becomes n times ``[out]``.
    """
    text = f"split({count})"
    if type(count) is not int or count < 2:
        raise MappingError(f"{text}: expected a number of pieces of at least 2. Write how many.")

    def forward(array: Array, linear: bool) -> tuple[Array, ...]:
        if array.ndim not in (1, 2) or array.shape[-1] % count:
            raise misfit(text, f"[in, {count} out] or [{count} out]", array.shape)
        return tuple(piece.T for piece in np.split(array, count, axis=-1))

    def backward(arrays: tuple[Array, ...], shape: Shape | None, linear: bool) -> Array:
        if any(array.shape != arrays[0].shape or array.ndim not in (1, 2) for array in arrays):
            raise misfit(text, f"{count} arrays of one shape", arrays[-1].shape)
        return np.concatenate([array.T for array in arrays], axis=-1)

    return Transform(text, count, False, forward, backward)


@register("unflatten_hwc")
def unflatten_hwc(height: int, width: int, channels: int) -> Transform:
    """Turns the kernel of a dense layer in front of a map, ``[in, h * w * c]``, into ``[c * h * w, in]``.

    A vector ``[h * w * c]``, such as its bias, becomes ``[c * h * w]``. TensorFlow makes a map with channels last of the
    outputs, torch one with channels first.
    """
    text = f"unflatten_hwc({height}, {width}, {channels})"
    # The columns of [in, h * w * c] are reordered as the rows of a flattened map are: by its transform, kernels turned.
    inner = flatten_hwc(height, width, channels)
    outputs = math.prod((height, width, channels))

    def forward(array: Array, linear: bool) -> tuple[Array, ...]:
        if array.ndim not in (1, 2) or array.shape[-1] != outputs:
            raise misfit(text, f"[in, {outputs}] or [{outputs}]", array.shape)
        (moved,) = inner.forward(array.T if array.ndim == 2 else array[:, None], linear)
        return (moved.T if array.ndim == 2 else moved[0],)

    def backward(arrays: tuple[Array, ...], shape: Shape | None, linear: bool) -> Array:
        (array,) = arrays
        if array.ndim not in (1, 2) or array.shape[0] != outputs:
            raise misfit(text, f"[{outputs}, in] or [{outputs}]", array.shape)
        moved = inner.backward(array.T if array.ndim == 2 else array[None], linear=linear)
        return moved.T if array.ndim == 2 else moved[:, 0]

    return Transform(text, 1, False, forward, backward)
