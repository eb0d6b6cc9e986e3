"""TensorFlow 1 optimizers as torch.optim.Optimizer subclasses."""

from torch_ddp.like_tf.optim.adagrad import Adadelta, Adagrad
from torch_ddp.like_tf.optim.adam import Adam
from torch_ddp.like_tf.optim.base import SlotOptimizer
from torch_ddp.like_tf.optim.ftrl import Ftrl
from torch_ddp.like_tf.optim.momentum import GradientDescent, Momentum
from torch_ddp.like_tf.optim.rmsprop import RMSProp

__all__ = [
    "Adadelta",
    "Adagrad",
    "Adam",
    "Ftrl",
    "GradientDescent",
    "Momentum",
    "RMSProp",
    "SlotOptimizer",
]
