"""Moving averages as TensorFlow keeps them."""

from torch_ddp.like_tf.averages.exponential_moving_average import ExponentialMovingAverage
from torch_ddp.like_tf.averages.moving_average import MovingAverage

__all__ = [
    "ExponentialMovingAverage",
    "MovingAverage",
]
