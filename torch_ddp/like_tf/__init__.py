"""TensorFlow 1 rules that a PyTorch port needs, each proven against TensorFlow in float64."""

from torch_ddp.like_tf.batch_norm import BatchNorm1d, BatchNorm2d
from torch_ddp.like_tf.clipping import (
    clip_by_global_norm,
    clip_by_norm,
    clip_by_value,
    clip_grads_by_global_norm_,
    global_norm,
)
from torch_ddp.like_tf.conv import Conv1d, Conv2d, Conv3d, ConvTranspose2d, conv, conv2d_transpose
from torch_ddp.like_tf.cross_entropy import (
    l2_loss,
    sigmoid_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits,
    sparse_softmax_cross_entropy_with_logits,
)
from torch_ddp.like_tf.dropout import (
    Dropout,
    dropout,
)
from torch_ddp.like_tf.errors import (
    LikeTfError,
)
from torch_ddp.like_tf.initializers import (
    glorot_normal_,
    glorot_uniform_,
    he_normal_,
    truncated_normal_,
    variance_scaling_,
)
from torch_ddp.like_tf.losses import (
    absolute_difference,
    compute_weighted_loss,
    cosine_distance,
    hinge_loss,
    huber_loss,
    log_loss,
    mean_squared_error,
    sigmoid_cross_entropy,
    softmax_cross_entropy,
    sparse_softmax_cross_entropy,
)
from torch_ddp.like_tf.moving_averages import ExponentialMovingAverage, MovingAverage
from torch_ddp.like_tf.normalization import l2_normalize, layer_norm, local_response_normalization
from torch_ddp.like_tf.optim import (
    Adadelta,
    Adagrad,
    Adam,
    Ftrl,
    GradientDescent,
    Momentum,
    RMSProp,
)
from torch_ddp.like_tf.pool import AvgPool2d, Flatten, MaxPool2d, avg_pool, flatten, max_pool
from torch_ddp.like_tf.resize import resize_bilinear, resize_nearest_neighbor
from torch_ddp.like_tf.rnn import GRUCell, LSTMCell, dynamic_rnn
from torch_ddp.like_tf.same_padding import pad_same, same_padding
from torch_ddp.like_tf.schedules import (
    Scheduler,
    cosine_decay,
    cosine_decay_restarts,
    exponential_decay,
    inverse_time_decay,
    linear_warm_up,
    natural_exp_decay,
    piecewise_constant,
    polynomial_decay,
)

__all__ = [
    "Adadelta",
    "Adagrad",
    "Adam",
    "AvgPool2d",
    "BatchNorm1d",
    "BatchNorm2d",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose2d",
    "Dropout",
    "ExponentialMovingAverage",
    "Flatten",
    "Ftrl",
    "GRUCell",
    "GradientDescent",
    "LSTMCell",
    "LikeTfError",
    "MaxPool2d",
    "Momentum",
    "MovingAverage",
    "RMSProp",
    "Scheduler",
    "absolute_difference",
    "avg_pool",
    "clip_by_global_norm",
    "clip_by_norm",
    "clip_by_value",
    "clip_grads_by_global_norm_",
    "compute_weighted_loss",
    "conv",
    "conv2d_transpose",
    "cosine_decay",
    "cosine_decay_restarts",
    "cosine_distance",
    "dropout",
    "dynamic_rnn",
    "exponential_decay",
    "flatten",
    "global_norm",
    "glorot_normal_",
    "glorot_uniform_",
    "he_normal_",
    "hinge_loss",
    "huber_loss",
    "inverse_time_decay",
    "l2_loss",
    "l2_normalize",
    "layer_norm",
    "linear_warm_up",
    "local_response_normalization",
    "log_loss",
    "max_pool",
    "mean_squared_error",
    "natural_exp_decay",
    "pad_same",
    "piecewise_constant",
    "polynomial_decay",
    "resize_bilinear",
    "resize_nearest_neighbor",
    "same_padding",
    "sigmoid_cross_entropy",
    "sigmoid_cross_entropy_with_logits",
    "softmax_cross_entropy",
    "softmax_cross_entropy_with_logits",
    "sparse_softmax_cross_entropy",
    "sparse_softmax_cross_entropy_with_logits",
    "truncated_normal_",
    "variance_scaling_",
]
