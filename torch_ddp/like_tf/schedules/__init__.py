"""Learning rate schedules in the graph's float32."""

from torch_ddp.like_tf.schedules.cosine import cosine_decay, cosine_decay_restarts
from torch_ddp.like_tf.schedules.exponential import exponential_decay, inverse_time_decay, natural_exp_decay
from torch_ddp.like_tf.schedules.piecewise import piecewise_constant
from torch_ddp.like_tf.schedules.polynomial import polynomial_decay
from torch_ddp.like_tf.schedules.scheduler import Scheduler
from torch_ddp.like_tf.schedules.warm_up import linear_warm_up

__all__ = [
    "Scheduler",
    "cosine_decay",
    "cosine_decay_restarts",
    "exponential_decay",
    "inverse_time_decay",
    "linear_warm_up",
    "natural_exp_decay",
    "piecewise_constant",
    "polynomial_decay",
]
