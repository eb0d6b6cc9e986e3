"""TensorFlow 1 rules that a PyTorch port needs, each proven against TensorFlow in float64."""

from torch_ddp.like_tf.errors import LikeTfError
from torch_ddp.like_tf.optim import Adadelta, Adagrad, Adam, Ftrl, GradientDescent, Momentum, RMSProp

__all__ = [
    "Adadelta",
    "Adagrad",
    "Adam",
    "Ftrl",
    "GradientDescent",
    "LikeTfError",
    "Momentum",
    "RMSProp",
]
