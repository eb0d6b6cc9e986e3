"""Plain, LSTM and GRU cells with TensorFlow's gates."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torch_ddp.like_tf.arguments import also_named
from torch_ddp.like_tf.initializers import glorot_uniform_
from torch_ddp.like_tf.rnn.cell import Cell


class BasicRNNCell(Cell):
    """Computes one step of a plain recurrent network: ``h' = tanh(W [x, h] + b)``.

    torch has two biases, whose sum counts. Source: tensorflow/python/ops/rnn_cell_impl.py, 1.15.

    Args:
        input_size: features of the input.
        hidden_size: TensorFlow's num_units.
        activation: in the place of tanh.

    Attributes:
        weight: shape [hidden_size, input_size + hidden_size], TensorFlow's kernel transposed.
        bias: shape [hidden_size].
        output_size: hidden_size.

    Counterpart: tf.compat.v1.nn.rnn_cell.BasicRNNCell.
    """

    @also_named(num_units="hidden_size")
    def __init__(self, input_size: int, hidden_size: int, activation: Callable[[Tensor], Tensor] = torch.tanh) -> None:
        super().__init__()
        self.output_size, self.activation = hidden_size, activation
        self.weight = nn.Parameter(torch.empty(hidden_size, input_size + hidden_size))
        self.bias = nn.Parameter(torch.empty(hidden_size))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the initial values of TensorFlow's cell: glorot uniform, bias zero."""
        glorot_uniform_(self.weight)
        nn.init.zeros_(self.bias)

    def zero_state(self, batch_size: int) -> Tensor:
        """Returns the state before the first step.

        Args:
            batch_size: examples.

        Returns:
            Zeros of shape [batch, hidden_size].
        """
        return self.weight.new_zeros(batch_size, self.output_size)

    def forward(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Computes one step.

        Args:
            x: shape [batch, input_size].
            state: shape [batch, hidden_size].

        Returns:
            The output and the new state, which are the same tensor, shape [batch, hidden_size].
        """
        new = self.activation(F.linear(torch.cat([x, state], 1), self.weight, self.bias))
        return new, new


class LSTMCell(Cell):
    """Computes one step of an LSTM over a batch.

    One kernel takes the input and the last output together; its rows are the gates i, j (the new input), f and o, in
    that order, where torch has i, f, g, o. ``forget_bias`` is added to f at run time. There is one bias, not two: two
    trained ones would move twice as fast. Without the options it is BasicLSTMCell. Source:
    tensorflow/python/ops/rnn_cell_impl.py, 1.15.

    Args:
        input_size: features of the input.
        hidden_size: TensorFlow's num_units.
        use_peepholes: whether the gates see the cell through a diagonal each, o the new one.
        cell_clip: limit of the cell's absolute value, or None.
        proj_size: features of the output where it is projected, TensorFlow's num_proj, or None.
        proj_clip: limit of the projected output's absolute value, or None.
        forget_bias: added to f.

    Attributes:
        weight: shape [4 * hidden_size, input_size + output_size], TensorFlow's kernel transposed.
        bias: shape [4 * hidden_size].
        w_f_diag, w_i_diag, w_o_diag: shape [hidden_size], or None without peepholes.
        projection: shape [proj_size, hidden_size], TensorFlow's projection/kernel transposed, or None.
        output_size: proj_size, or hidden_size without it.

    Counterpart: tf.compat.v1.nn.rnn_cell.LSTMCell, tf.compat.v1.nn.rnn_cell.BasicLSTMCell.
    """

    w_f_diag: nn.Parameter | None
    w_i_diag: nn.Parameter | None
    w_o_diag: nn.Parameter | None
    projection: nn.Parameter | None

    @also_named(num_units="hidden_size", num_proj="proj_size")
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        use_peepholes: bool = False,
        cell_clip: float | None = None,
        proj_size: int | None = None,
        proj_clip: float | None = None,
        forget_bias: float = 1.0,
    ) -> None:
        super().__init__()
        self.hidden_size, self.output_size = hidden_size, proj_size or hidden_size
        self.cell_clip, self.proj_clip, self.forget_bias = cell_clip, proj_clip, forget_bias
        self.weight = nn.Parameter(torch.empty(4 * hidden_size, input_size + self.output_size))
        # One, where torch has two whose sum counts: gradients of both are the same, and SGD moves the sum twice as
        # far.
        self.bias = nn.Parameter(torch.empty(4 * hidden_size))
        for name in ("w_f_diag", "w_i_diag", "w_o_diag"):
            self.register_parameter(name, nn.Parameter(torch.empty(hidden_size)) if use_peepholes else None)
        projection = nn.Parameter(torch.empty(proj_size, hidden_size)) if proj_size else None
        self.register_parameter("projection", projection)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the initial values of TensorFlow's cell: glorot uniform, bias zero."""
        for name, parameter in self.named_parameters():
            if name == "bias":
                nn.init.zeros_(parameter)
            else:
                glorot_uniform_(parameter)

    def zero_state(self, batch_size: int) -> tuple[Tensor, Tensor]:
        """Returns the state before the first step.

        Args:
            batch_size: examples.

        Returns:
            Zeros of shapes [batch, hidden_size] and [batch, output_size].
        """
        return self.weight.new_zeros(batch_size, self.hidden_size), self.weight.new_zeros(batch_size, self.output_size)

    def map_outputs_of_state(self, change: Callable[[Tensor], Tensor], state: Any) -> Any:
        """Returns the state with the last output changed, and the memory as it is.

        Args:
            change: from a part to its successor.
            state: of this cell.
        """
        memory, output = state
        return memory, change(output)

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Computes one step.

        Args:
            x: shape [batch, input_size].
            state: the cell, shape [batch, hidden_size], and the last output, shape [batch, output_size]; TensorFlow's
                order, which is the reverse of torch's.

        Returns:
            The output, shape [batch, output_size], and the new state, whose second part it is.
        """
        cell, output = state
        # [batch, input_size + output_size] times the kernel: [batch, 4 * hidden_size], cut into the four gates.
        i, j, f, o = F.linear(torch.cat([x, output], 1), self.weight, self.bias).chunk(4, 1)
        # Added in every step and no part of the bias: a bias that held it would be decayed and saved with it.
        f = f + self.forget_bias
        if self.w_f_diag is not None and self.w_i_diag is not None:
            f, i = f + self.w_f_diag * cell, i + self.w_i_diag * cell
        # Peepholes of i and f see the old cell, that of o the new one, after it was clipped.
        cell = f.sigmoid() * cell + i.sigmoid() * j.tanh()
        if self.cell_clip is not None:
            cell = cell.clamp(-self.cell_clip, self.cell_clip)
        if self.w_o_diag is not None:
            o = o + self.w_o_diag * cell
        # The state keeps the clipped cell, and the projected output where there is a projection.
        output = o.sigmoid() * cell.tanh()
        if self.projection is not None:
            output = F.linear(output, self.projection)
            if self.proj_clip is not None:
                output = output.clamp(-self.proj_clip, self.proj_clip)
        return output, (cell, output)


class GRUCell(Cell):
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

    @also_named(num_units="hidden_size")
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
        # So that both gates begin open; torch draws its biases.
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
        # r scales the state before the product; torch scales the product, W (r * h) against r * (W h). No weights
        # make one of the other: 0.25 of the largest output apart at best (docs/semantics.md).
        candidate = F.linear(torch.cat([x, r * state], 1), self.candidate_weight, self.candidate_bias).tanh()
        new = u * state + (1 - u) * candidate
        return new, new


class GRUBlockCell(GRUCell):
    """Computes what GRUCell does: contrib's fused form of it, whose variables are w_ru, b_ru, w_c and b_c.

    Source: tensorflow/contrib/rnn/python/ops/gru_ops.py and kernels/gru_ops.cc, 1.15.

    Args:
        input_size: features of the input.
        hidden_size: TensorFlow's num_units.

    Attributes:
        gates_weight: shape [2 * hidden_size, input_size + hidden_size], w_ru transposed.
        gates_bias: shape [2 * hidden_size], b_ru.
        candidate_weight: shape [hidden_size, input_size + hidden_size], w_c transposed.
        candidate_bias: shape [hidden_size], b_c.
        output_size: hidden_size.

    Counterpart: tf.contrib.rnn.GRUBlockCell, tf.contrib.rnn.GRUBlockCellV2.
    """
