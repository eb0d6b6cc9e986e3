"""Flattening in the order in which TensorFlow keeps images: height, width, channels."""

from torch import Tensor, nn


def flatten(x: Tensor) -> Tensor:
    """Flattens all axes but the batch, channels last.

    Args:
        x: shape [batch, channels, *space], as torch keeps images.

    Returns:
        Shape [batch, product of space * channels], elements in TensorFlow's order (NHWC), so that the rows of a dense
        kernel that follows need not be permuted.

    Counterpart: tf.compat.v1.layers.flatten.
    """
    return x.movedim(1, -1).flatten(1)


class Flatten(nn.Module):
    """Flattens all axes but the batch, channels last; see ``flatten``.

    Counterpart: tf.compat.v1.layers.Flatten.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Flattens.

        Args:
            x: shape [batch, channels, *space].

        Returns:
            Shape [batch, product of space * channels].
        """
        return flatten(x)
