"""Cells over time, for sequences with lengths, in one direction and in both."""

from typing import Any

import torch
from torch import Tensor

from torch_ddp.like_tf.errors import LikeTfError
from torch_ddp.like_tf.rnn.cell import Cell, map_state


def dynamic_rnn(
    cell: Cell,
    inputs: Tensor,
    sequence_length: Tensor | None = None,
    initial_state: Any = None,
    time_major: bool = False,
) -> tuple[Tensor, Any]:
    """Runs a cell over time; past an example's length its output is zero and its state stays.

    Source: tensorflow/python/ops/rnn.py, 1.15.

    Args:
        cell: any cell of this package.
        inputs: shape [batch, time, features].
        sequence_length: int64, shape [batch], or None for all of them full.
        initial_state: the cell's state, or None for zeros.
        time_major: whether inputs and outputs have time as their first axis.

    Returns:
        The outputs, shape [batch, time, output_size], and the last state of each example.

    Raises:
        LikeTfError: the inputs have not three axes, or there is not one length for each example.

    Counterpart: tf.compat.v1.nn.dynamic_rnn.
    """
    inputs = _batch_first("dynamic_rnn", inputs, sequence_length, time_major)
    outputs, state = _run(cell, inputs, sequence_length, initial_state)
    return (outputs.transpose(0, 1) if time_major else outputs), state


def bidirectional_dynamic_rnn(
    cell_fw: Cell,
    cell_bw: Cell,
    inputs: Tensor,
    sequence_length: Tensor | None = None,
    initial_state_fw: Any = None,
    initial_state_bw: Any = None,
    time_major: bool = False,
) -> tuple[tuple[Tensor, Tensor], tuple[Any, Any]]:
    """Runs one cell forward over time and another one backward, each example from its own end.

    Source: tensorflow/python/ops/rnn.py, 1.15. torch reverses in the same way, but for packed sequences alone.

    Args:
        cell_fw: runs forward.
        cell_bw: runs backward.
        inputs: shape [batch, time, features].
        sequence_length: int64, shape [batch], at most time, or None for all of them full.
        initial_state_fw: the state of cell_fw, or None for zeros.
        initial_state_bw: the state of cell_bw, or None for zeros.
        time_major: whether inputs and outputs have time as their first axis.

    Returns:
        The outputs of both, each of shape [batch, time, output_size] and in the order of the inputs, and both last states.

    Raises:
        LikeTfError: the inputs have not three axes, or the lengths do not fit.

    Counterpart: tf.compat.v1.nn.bidirectional_dynamic_rnn.
    """
    inputs = _batch_first("bidirectional_dynamic_rnn", inputs, sequence_length, time_major)
    # reverse_sequence checks it, and dynamic_rnn does not: there a longer length is a full one.
    if sequence_length is not None and bool((sequence_length > inputs.shape[1]).any()):
        raise LikeTfError(
            f"bidirectional_dynamic_rnn: expected lengths of at most {inputs.shape[1]} steps, "
            f"got {int(sequence_length.max())}. Cut them."
        )
    forward, state_fw = _run(cell_fw, inputs, sequence_length, initial_state_fw)
    backward, state_bw = _run(cell_bw, _reversed(inputs, sequence_length), sequence_length, initial_state_bw)
    both = forward, _reversed(backward, sequence_length)
    if time_major:
        both = both[0].transpose(0, 1), both[1].transpose(0, 1)
    return both, (state_fw, state_bw)


def _batch_first(who: str, inputs: Tensor, sequence_length: Tensor | None, time_major: bool) -> Tensor:
    if inputs.dim() != 3:
        raise LikeTfError(
            f"{who}: expected inputs of three axes, got shape {tuple(inputs.shape)}. Add the axis of time."
        )
    inputs = inputs.transpose(0, 1) if time_major else inputs
    if sequence_length is not None and sequence_length.shape != inputs.shape[:1]:
        raise LikeTfError(
            f"{who}: expected sequence_length of shape ({inputs.shape[0]},), got {tuple(sequence_length.shape)}. "
            "Give one length for each example."
        )
    return inputs


def _run(cell: Cell, inputs: Tensor, sequence_length: Tensor | None, initial_state: Any) -> tuple[Tensor, Any]:
    cell.begin_sequence()
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
            new = map_state(lambda n, o, running=running: torch.where(running, n, o), new, state)
        outputs.append(output)
        state = new
    if not outputs:
        return inputs.new_zeros(inputs.shape[0], 0, cell.output_size), state
    return torch.stack(outputs, 1), state


def _reversed(x: Tensor, lengths: Tensor | None) -> Tensor:
    if lengths is None:
        return x.flip(1)
    # Step t of an example of length n comes from n - 1 - t; what lies behind the end stays where it is.
    times = torch.arange(x.shape[1], device=x.device)
    ends = lengths.unsqueeze(1)
    source = torch.where(times < ends, ends - 1 - times, times)
    return x.gather(1, source.unsqueeze(2).expand_as(x))
