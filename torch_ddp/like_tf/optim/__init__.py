"""TensorFlow 1 optimizers as torch.optim.Optimizer subclasses."""

from torch_ddp.like_tf.optim.adadelta import Adadelta
from torch_ddp.like_tf.optim.adagrad import Adagrad
from torch_ddp.like_tf.optim.adam import Adam
from torch_ddp.like_tf.optim.adam_kinds import AdamW, LazyAdam, Nadam
from torch_ddp.like_tf.optim.base import SlotOptimizer
from torch_ddp.like_tf.optim.decoupled_decay import MomentumW
from torch_ddp.like_tf.optim.ftrl import Ftrl
from torch_ddp.like_tf.optim.gradient_descent import GradientDescent
from torch_ddp.like_tf.optim.layerwise import LAMB, LARS
from torch_ddp.like_tf.optim.momentum import Momentum
from torch_ddp.like_tf.optim.proximal import AdagradDA, ProximalAdagrad, ProximalGradientDescent
from torch_ddp.like_tf.optim.rmsprop import RMSProp

__all__ = [
    "LAMB",
    "LARS",
    "Adadelta",
    "Adagrad",
    "AdagradDA",
    "Adam",
    "AdamW",
    "Ftrl",
    "GradientDescent",
    "LazyAdam",
    "Momentum",
    "MomentumW",
    "Nadam",
    "ProximalAdagrad",
    "ProximalGradientDescent",
    "RMSProp",
    "SlotOptimizer",
]
