"""Dropout with TensorFlow's scaling."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from torch_ddp.like_tf.arguments import also_named
from torch_ddp.like_tf.errors import LikeTfError


@also_named(rate="p")
def dropout(x: Tensor, p: float, mask: Tensor | None = None, noise_shape: Sequence[int] | None = None) -> Tensor:
    """Sets elements to zero and multiplies the others by ``1 / (1 - rate)``, rounded to the dtype of ``x`` first.

    Kept are the elements whose uniform draw is at least ``p``. TensorFlow 2 rounds the quotient alone, which in
    float32 is up to 2e-7 away. Source: dropout_v2 in tensorflow/python/ops/nn_ops.py, 1.15.

    Args:
        x: any shape, floating point.
        p: part that is dropped, in [0, 1), TensorFlow's rate; its keep_prob is one minus it.
        mask: 1 where an element is kept, of a shape that broadcasts against ``x``: a recorded draw. None draws one.
        noise_shape: shape of the draw, 1 along the axes that share it; the shape of ``x`` when None.

    Returns:
        The shape of ``x``.

    Raises:
        LikeTfError: the rate is not in [0, 1).

    Counterpart: tf.compat.v1.nn.dropout.
    """
    if not 0.0 <= p < 1.0:
        raise LikeTfError(f"dropout: expected a rate in [0, 1), got {p}. Give one minus TensorFlow's keep_prob.")
    if mask is None:
        shape = x.shape if noise_shape is None else torch.Size(noise_shape)
        # A draw of exactly p is kept, and with 0 all are: draws lie in [0, 1).
        mask = torch.rand(shape, dtype=x.dtype, device=x.device) >= p
    # Rounded to x's dtype before it is multiplied; x / (1 - rate) is 5.3e-8 away in float32 (docs/semantics.md).
    scale = 1.0 / (1.0 - torch.tensor(p, dtype=x.dtype))
    # From the left, as in TensorFlow: (x * scale) * mask.
    return x * scale * mask.to(x.dtype)


class Dropout(nn.Module):
    """Drops elements in training; see ``dropout``. tf.layers.dropout does so only when told ``training=True``.

    Args:
        p: part that is dropped, in [0, 1), TensorFlow's rate.
        noise_shape: see ``dropout``.

    Counterpart: tf.compat.v1.layers.Dropout.
    """

    @also_named(rate="p")
    def __init__(self, p: float = 0.5, noise_shape: Sequence[int] | None = None) -> None:
        super().__init__()
        self.rate, self.noise_shape = p, noise_shape

    def forward(self, x: Tensor) -> Tensor:
        """Drops elements in training, returns the input itself otherwise.

        Args:
            x: any shape.

        Returns:
            The same shape.
        """
        return dropout(x, self.rate, noise_shape=self.noise_shape) if self.training else x
