"""TensorFlow 1 rules that a PyTorch port needs, each proven against TensorFlow in float64."""

from torch_ddp.like_tf.errors import LikeTfError
from torch_ddp.like_tf.optim import Adam, GradientDescent, Momentum

__all__ = [
    "Adam",
    "GradientDescent",
    "LikeTfError",
    "Momentum",
]
