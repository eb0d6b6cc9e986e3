"""Cells made of cells: one upon the other, and with dropout."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from torch_ddp.like_tf.dropout import dropout
from torch_ddp.like_tf.errors import LikeTfError
from torch_ddp.like_tf.graph_scalar import graph_float
from torch_ddp.like_tf.rnn.cell import Cell


class MultiRNNCell(Cell):
    """Puts cells one upon the other: each takes the output of the one before.

    The state is a tuple of the cells' states. Source: tensorflow/python/ops/rnn_cell_impl.py, 1.15, with
    state_is_tuple=True.

    Args:
        cells: the first one takes the input. One cell given twice shares its weights.

    Raises:
        LikeTfError: there is no cell.

    Counterpart: tf.compat.v1.nn.rnn_cell.MultiRNNCell.
    """

    def __init__(self, cells: Sequence[Cell]) -> None:
        super().__init__()
        if not cells:
            raise LikeTfError("MultiRNNCell: expected at least one cell, got none. Give the cells in their order.")
        self.cells = nn.ModuleList(cells)
        self.output_size = cells[-1].output_size

    def _each(self) -> list[Cell]:
        return [cast(Cell, cell) for cell in self.cells]

    def zero_state(self, batch_size: int) -> tuple[Any, ...]:
        """Returns the state before the first step.

        Args:
            batch_size: examples.

        Returns:
            The zero states of the cells.
        """
        return tuple(cell.zero_state(batch_size) for cell in self._each())

    def begin_sequence(self) -> None:
        """Forgets what the cells draw once for all steps."""
        for cell in self._each():
            cell.begin_sequence()

    def map_outputs_of_state(self, change: Callable[[Tensor], Tensor], state: Any) -> Any:
        """Returns the states of the cells with each part changed but an LSTM's memory.

        Args:
            change: from a part to its successor.
            state: of this cell.
        """
        pairs = zip(self._each(), state, strict=True)
        return tuple(cell.map_outputs_of_state(change, part) for cell, part in pairs)

    def forward(self, x: Tensor, state: tuple[Any, ...]) -> tuple[Tensor, tuple[Any, ...]]:
        """Computes one step of every cell.

        Args:
            x: shape [batch, features].
            state: one state for each cell.

        Returns:
            The last cell's output, shape [batch, output_size], and the new states.
        """
        if not isinstance(state, tuple) or len(state) != len(self.cells):
            raise LikeTfError(
                f"MultiRNNCell: expected a state that is a tuple of length {len(self.cells)}, got {_described(state)}. "
                "Take zero_state(batch_size), or one state for each cell."
            )
        states = []
        for cell, part in zip(self._each(), state, strict=True):
            x, new = cell(x, part)
            states.append(new)
        return x, tuple(states)


class DropoutWrapper(Cell):
    """Drops elements of a cell's input, output and state, in training alone.

    The state that goes on is dropped, but an LSTM's memory c is not. Source:
    tensorflow/python/ops/rnn_cell_wrapper_impl.py, 1.15.

    Args:
        cell: the cell.
        input_keep_prob: part of the input that is kept, in (0, 1].
        output_keep_prob: part of the output that is kept.
        state_keep_prob: part of the state that is kept.
        variational_recurrent: whether all steps of a sequence and all examples share one draw, which is made after
            ``begin_sequence``; else each step draws anew.

    Attributes:
        noise: with ``variational_recurrent`` the uniform draws of the present sequence, each of shape [1, features], under
            "input", "output" and "state_0", "state_1" and so on; what stands here is used.

    Raises:
        LikeTfError: a probability is not in (0, 1].

    Counterpart: tf.compat.v1.nn.rnn_cell.DropoutWrapper.
    """

    def __init__(
        self,
        cell: Cell,
        input_keep_prob: float = 1.0,
        output_keep_prob: float = 1.0,
        state_keep_prob: float = 1.0,
        variational_recurrent: bool = False,
    ) -> None:
        super().__init__()
        keep = {"input": input_keep_prob, "output": output_keep_prob, "state": state_keep_prob}
        for name, probability in keep.items():
            # TensorFlow takes 0 as well, and divides by it.
            if not 0.0 < probability <= 1.0:
                raise LikeTfError(
                    f"DropoutWrapper: expected {name}_keep_prob in (0, 1], got {probability}. "
                    "Give the part that is kept, not the part that is dropped."
                )
        # TensorFlow reads them back from float32 constants: 1 - 0.7 is 0.30000001192092896 to it.
        self.keep = {name: graph_float(probability) for name, probability in keep.items()}
        self.cell, self.variational_recurrent = cell, variational_recurrent
        self.output_size = cell.output_size
        self.noise: dict[str, Tensor] = {}

    def zero_state(self, batch_size: int) -> Any:
        """Returns the state of the cell before the first step.

        Args:
            batch_size: examples.
        """
        return self.cell.zero_state(batch_size)

    def begin_sequence(self) -> None:
        """Forgets the draws of the last sequence."""
        self.noise = {}
        self.cell.begin_sequence()

    def map_outputs_of_state(self, change: Callable[[Tensor], Tensor], state: Any) -> Any:
        """Returns the cell's state with each part changed but an LSTM's memory.

        Args:
            change: from a part to its successor.
            state: of this cell.
        """
        return self.cell.map_outputs_of_state(change, state)

    def forward(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Computes one step, with dropout in training.

        Args:
            x: shape [batch, features].
            state: of the cell.

        Returns:
            The output, shape [batch, output_size], and the new state.
        """
        output, new = self.cell(self._dropped("input", "input", x), state)
        parts = 0

        def dropped(part: Tensor) -> Tensor:
            nonlocal parts
            parts += 1
            return self._dropped("state", f"state_{parts - 1}", part)

        new = self.map_outputs_of_state(dropped, new)
        return self._dropped("output", "output", output), new

    def extra_repr(self) -> str:
        """Names the settings for ``repr``."""
        return f"keep={self.keep}, variational_recurrent={self.variational_recurrent}"

    def _dropped(self, kind: str, name: str, x: Tensor) -> Tensor:
        keep = self.keep[kind]
        if not self.training or keep == 1.0:
            return x
        if not self.variational_recurrent:
            return dropout(x, 1.0 - keep)
        if name not in self.noise:
            self.noise[name] = torch.rand((1, x.shape[1]), dtype=x.dtype, device=x.device)
        # floor(keep + noise): 1 for the part `keep` of all draws. A quotient here, where `dropout` multiplies.
        return x / keep * (keep + self.noise[name]).floor()


def _described(state: Any) -> str:
    return f"a tuple of length {len(state)}" if isinstance(state, tuple) else f"a {type(state).__name__}"
