"""Convolutions, pooling and resizing by TensorFlow's windows and grids."""

from torch_ddp.like_tf.spatial.conv import Conv1d, Conv2d, Conv3d, ConvTranspose2d, conv, conv2d_transpose
from torch_ddp.like_tf.spatial.pool import AvgPool2d, Flatten, MaxPool2d, avg_pool, flatten, max_pool
from torch_ddp.like_tf.spatial.resize import resize_bilinear, resize_nearest_neighbor
from torch_ddp.like_tf.spatial.same_padding import pad_same, same_padding

__all__ = [
    "AvgPool2d",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose2d",
    "Flatten",
    "MaxPool2d",
    "avg_pool",
    "conv",
    "conv2d_transpose",
    "flatten",
    "max_pool",
    "pad_same",
    "resize_bilinear",
    "resize_nearest_neighbor",
    "same_padding",
]
