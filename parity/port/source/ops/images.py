"""How ops of images are written that are no layers: convolutions whose kernel is computed, statistics that are given."""

from typing import Any

import numpy as np

from parity.port.source.code import Code, call, method
from parity.port.source.ops.layers import image, is_channels_first, short, space, unless
from parity.port.source.writer import Writer, writes
from parity.port.tower.ops import Op, Tensor
from parity.trace.as_written import as_written


def _window(op: Op, dimensions: int) -> dict[str, Any] | None:
    """How a window moves, None where its paddings are given one by one."""
    padding = str(op.attributes["padding"])
    if padding not in ("SAME", "VALID"):
        return None
    return {
        "stride": unless(space(op, "strides"), 1),
        "padding": None if padding == "SAME" else '"VALID"',
        "dilation": unless(space(op, "dilations") or (1,) * dimensions, 1),
    }


@writes("Conv2D", "Conv3D")
def _convolved(writer: Writer, op: Op) -> Code | None:
    x, kernel = op.inputs
    dimensions = len(kernel.shape) - 2
    window = _window(op, dimensions)
    if window is None:
        return None
    turned = method(writer.code(kernel), "permute", str(dimensions + 1), str(dimensions), *map(str, range(dimensions)))
    groups = _channels(op, x) // kernel.shape[-2]
    return call("like_tf.conv", image(writer, op), turned, **window, groups=None if groups == 1 else groups)


def _channels(op: Op, x: Tensor) -> int:
    return x.shape[1] if is_channels_first(op) else x.shape[-1]


@writes("DepthwiseConv2dNative")
def _convolved_by_channel(writer: Writer, op: Op) -> Code | None:
    height, width, channels, _ = op.inputs[1].shape
    window = _window(op, 2)
    if window is None:
        return None
    joined = method(writer.code(op.inputs[1]), "reshape", str(height), str(width), "1", "-1")
    turned = method(joined, "permute", "3", "2", "0", "1")
    return call("like_tf.conv", image(writer, op), turned, **window, groups=channels)


@writes("Conv2DBackpropInput")
def _convolved_backwards(writer: Writer, op: Op) -> Code | None:
    window = _window(op, 2)
    if window is None or window.pop("dilation") is not None:
        return None
    after = op.output().shape
    size = after[2:] if is_channels_first(op) else after[1:3]
    turned = method(writer.code(op.inputs[1]), "permute", "3", "2", "0", "1")
    x = image(writer, op, 2)
    return call("like_tf.conv2d_transpose", x, turned, **window, output_size=str(tuple(size)))


@writes("MaxPool3D", "AvgPool3D")
def _pooled(writer: Writer, op: Op) -> Code | None:
    window = _window(op, 3)
    if window is None:
        return None
    name = "max_pool" if op.kind == "MaxPool3D" else "avg_pool"
    padding = '"SAME"' if window["padding"] is None else None
    kernel, strides = space(op, "ksize"), space(op, "strides")
    stride = None if kernel == strides else short(strides)
    return call(f"like_tf.{name}", image(writer, op), short(kernel), stride=stride, padding=padding)


@writes("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def _normalised(writer: Writer, op: Op) -> Code:
    # Scale, shift, mean and variance as they are given: what is no layer because one of them is computed.
    scale, shift = (writer.code(each) for each in op.inputs[1:3])
    epsilon = repr(float(as_written(np.float32(op.attributes.get("epsilon", 1e-4)))))
    x = image(writer, op)
    if op.attributes.get("is_training", True):
        return call("F.batch_norm", x, "None", "None", scale, shift, training=True, eps=epsilon)
    mean, variance = (writer.code(each) for each in op.inputs[3:5])
    return call("F.batch_norm", x, mean, variance, scale, shift, training=False, eps=epsilon)
