"""What every recurrent cell of this package offers."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn


class Cell(nn.Module):
    """Computes one step of a recurrent network over a batch (abstract): ``output, state = cell(x, state)``.

    A state is a tensor of shape [batch, size], or a tuple of states.

    Attributes:
        output_size: features of the output.
    """

    output_size: int

    def zero_state(self, batch_size: int) -> Any:
        """Returns the state before the first step, zeros.

        Args:
            batch_size: examples.
        """
        raise AssertionError("a cell without a state")

    def begin_sequence(self) -> None:
        """Forgets what a cell draws once for all steps; ``dynamic_rnn`` calls it before the first one."""

    def map_outputs_of_state(self, change: Callable[[Tensor], Tensor], state: Any) -> Any:
        """Returns a state with each part changed but an LSTM's memory: what state dropout is applied to.

        Args:
            change: from a part to its successor.
            state: of this cell.
        """
        return change(state)


def map_state(change: Callable[..., Tensor], first: Any, *more: Any) -> Any:
    """Applies a function to the tensors of states of one structure.

    Args:
        change: from one tensor of each state to one.
        first: a state.
        more: further ones of the same structure.
    """
    if isinstance(first, tuple):
        return tuple(map_state(change, *parts) for parts in zip(first, *more, strict=True))
    return change(first, *more)
