"""dynamic_rnn over sequences with lengths."""

from typing import Any

import torch
from torch import Tensor

from torch_ddp.like_tf.rnn.cells import GRUCell, LSTMCell


def dynamic_rnn(
    cell: LSTMCell | GRUCell, inputs: Tensor, sequence_length: Tensor | None = None, initial_state: Any = None
) -> tuple[Tensor, Any]:
    """Runs a cell over time; past an example's length its output is zero and its state stays.

    Source: tensorflow/python/ops/rnn.py, 1.15.

    Args:
        cell: an LSTMCell or a GRUCell.
        inputs: shape [batch, time, features].
        sequence_length: int64, shape [batch], or None for all of them full.
        initial_state: the cell's state, or None for zeros.

    Returns:
        The outputs, shape [batch, time, output_size], and the last state of each example.

    Counterpart: tf.compat.v1.nn.dynamic_rnn.
    """
    state = cell.zero_state(inputs.shape[0]) if initial_state is None else initial_state
    outputs = []
    # x: [batch, features]. `state` holds, for each example, what its last step within its own length left.
    for time, x in enumerate(inputs.unbind(1)):
        output, new = cell(x, state)
        if sequence_length is not None:
            # [batch, 1], bool.
            running = (time < sequence_length).unsqueeze(1)
            # Zeros and not the last output: what follows may sum over time.
            output = torch.where(running, output, 0.0)
            new = _kept(running, new, state)
        outputs.append(output)
        state = new
    return torch.stack(outputs, 1), state


def _kept(running: Tensor, new: Any, old: Any) -> Any:
    if isinstance(new, tuple):
        return tuple(torch.where(running, n, o) for n, o in zip(new, old, strict=True))
    return torch.where(running, new, old)
