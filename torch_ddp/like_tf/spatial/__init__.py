"""Convolutions, pooling and resizing by TensorFlow's windows and grids."""

from torch_ddp.like_tf.spatial.conv import Conv1d, Conv2d, Conv3d, ConvTranspose2d, conv, conv2d_transpose
from torch_ddp.like_tf.spatial.patches import extract_image_patches
from torch_ddp.like_tf.spatial.pool import AvgPool2d, Flatten, MaxPool2d, avg_pool, flatten, max_pool
from torch_ddp.like_tf.spatial.resize import resize_area, resize_bicubic, resize_bilinear, resize_nearest_neighbor
from torch_ddp.like_tf.spatial.same_padding import pad_same, same_padding
from torch_ddp.like_tf.spatial.separable import SeparableConv2d, atrous_conv2d, separable_conv2d

__all__ = [
    "AvgPool2d",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose2d",
    "Flatten",
    "MaxPool2d",
    "SeparableConv2d",
    "atrous_conv2d",
    "avg_pool",
    "conv",
    "conv2d_transpose",
    "extract_image_patches",
    "flatten",
    "max_pool",
    "pad_same",
    "resize_area",
    "resize_bicubic",
    "resize_bilinear",
    "resize_nearest_neighbor",
    "same_padding",
    "separable_conv2d",
]
