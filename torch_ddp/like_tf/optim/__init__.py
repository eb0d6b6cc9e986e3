"""TensorFlow 1 optimizers as torch.optim.Optimizer subclasses."""

from torch_ddp.like_tf.optim.adam import Adam
from torch_ddp.like_tf.optim.gradient_descent import GradientDescent
from torch_ddp.like_tf.optim.momentum import Momentum
from torch_ddp.like_tf.optim.slot_optimizer import SlotOptimizer

__all__ = [
    "Adam",
    "GradientDescent",
    "Momentum",
    "SlotOptimizer",
]
