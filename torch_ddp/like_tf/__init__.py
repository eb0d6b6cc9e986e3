"""TensorFlow 1 rules that a PyTorch port needs, each proven against TensorFlow in float64."""

from torch_ddp.like_tf.errors import LikeTfError
from torch_ddp.like_tf.initializers import (
    glorot_normal_,
    glorot_uniform_,
    he_normal_,
    truncated_normal_,
    variance_scaling_,
)
from torch_ddp.like_tf.normalization import (
    BatchNorm1d,
    BatchNorm2d,
    l2_normalize,
    layer_norm,
    local_response_normalization,
)
from torch_ddp.like_tf.optim import Adadelta, Adagrad, Adam, Ftrl, GradientDescent, Momentum, RMSProp
from torch_ddp.like_tf.spatial import (
    AvgPool2d,
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose2d,
    Flatten,
    MaxPool2d,
    avg_pool,
    conv,
    conv2d_transpose,
    flatten,
    max_pool,
    pad_same,
    same_padding,
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
    "Flatten",
    "Ftrl",
    "GradientDescent",
    "LikeTfError",
    "MaxPool2d",
    "Momentum",
    "RMSProp",
    "avg_pool",
    "conv",
    "conv2d_transpose",
    "flatten",
    "glorot_normal_",
    "glorot_uniform_",
    "he_normal_",
    "l2_normalize",
    "layer_norm",
    "local_response_normalization",
    "max_pool",
    "pad_same",
    "same_padding",
    "truncated_normal_",
    "variance_scaling_",
]
