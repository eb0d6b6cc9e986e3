"""The GRU cell that resets before the product, which torch's cannot be turned into."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torch_ddp.like_tf.initializers import glorot_uniform_


class GRUCell(nn.Module):
    """Computes one step of a GRU over a batch: ``c = tanh(W [x, r * h] + b); h' = u * h + (1 - u) * c``.

    torch multiplies by the reset gate after the product with W. Source: tensorflow/python/ops/rnn_cell_impl.py, 1.15.

    Args:
        input_size: features of the input.
        hidden_size: TensorFlow's num_units.

    Attributes:
        gates_weight: shape [2 * hidden_size, input_size + hidden_size], gates r and u, TensorFlow's kernel transposed.
        gates_bias: shape [2 * hidden_size]; starts at 1.
        candidate_weight: shape [hidden_size, input_size + hidden_size], TensorFlow's kernel transposed.
        candidate_bias: shape [hidden_size].
        output_size: hidden_size.

    Counterpart: tf.compat.v1.nn.rnn_cell.GRUCell.
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.output_size = hidden_size
        self.gates_weight = nn.Parameter(torch.empty(2 * hidden_size, input_size + hidden_size))
        self.gates_bias = nn.Parameter(torch.empty(2 * hidden_size))
        self.candidate_weight = nn.Parameter(torch.empty(hidden_size, input_size + hidden_size))
        self.candidate_bias = nn.Parameter(torch.empty(hidden_size))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the initial values of TensorFlow's cell: glorot uniform, bias 1 of the gates, 0 of the candidate."""
        glorot_uniform_(self.gates_weight)
        glorot_uniform_(self.candidate_weight)
        nn.init.ones_(self.gates_bias)
        nn.init.zeros_(self.candidate_bias)

    def zero_state(self, batch_size: int) -> Tensor:
        """Returns the state before the first step.

        Args:
            batch_size: examples.

        Returns:
            Zeros of shape [batch, hidden_size].
        """
        return self.gates_weight.new_zeros(batch_size, self.output_size)

    def forward(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Computes one step.

        Args:
            x: shape [batch, input_size].
            state: shape [batch, hidden_size].

        Returns:
            The output and the new state, which are the same tensor, shape [batch, hidden_size].
        """
        r, u = F.linear(torch.cat([x, state], 1), self.gates_weight, self.gates_bias).sigmoid().chunk(2, 1)
        candidate = F.linear(torch.cat([x, r * state], 1), self.candidate_weight, self.candidate_bias).tanh()
        new = u * state + (1 - u) * candidate
        return new, new
