"""Ops that have no float64 kernel, or a float32 attribute in it, written out as plain ones.

Each function takes the op's inputs and its attributes and returns the op's outputs; None for those that nothing outside the
op's own gradient reads. Sources: the CPU kernels of TensorFlow 1.15 in tensorflow/core/kernels: fused_batch_norm_op.cc,
lrn_op.cc, resize_bilinear_op.cc.
"""

import numpy as np
import tensorflow.compat.v1 as tf


def fused_batch_norm(inputs, attributes):
    """The moving variance gets Bessel's factor, the normalisation does not."""
    x, scale, offset, mean, variance = inputs
    if not attributes["is_training"]:
        return [_normalized(x, mean, variance, attributes, scale, offset), mean, variance, mean, variance, None]
    found, spread = _moments(x, attributes)
    y = _normalized(x, found, spread, attributes, scale, offset)
    count = tf.cast(tf.size(x) // tf.maximum(tf.size(found), 1), tf.float64)
    unbiased = spread * (count / tf.maximum(count - 1, 1))
    part = attributes.get("exponential_avg_factor", 1.0)
    if part != 1.0:
        found, unbiased = (1 - part) * mean + part * found, (1 - part) * variance + part * unbiased
    return [y, found, unbiased, None, None, None]


def fused_batch_norm_gradient(inputs, attributes):
    """Mean and variance are computed again from the input."""
    dy, x, scale, mean, variance = inputs[:5]
    if attributes["is_training"]:
        mean, variance = _moments(x, attributes)
    axes = _axes(attributes)
    shape = _beside(attributes)
    inverse = tf.reshape(tf.rsqrt(variance + attributes["epsilon"]), shape)
    normal = (x - tf.reshape(mean, shape)) * inverse
    dscale, doffset = tf.reduce_sum(dy * normal, axes), tf.reduce_sum(dy, axes)
    dx = dy * inverse * tf.reshape(scale, shape)
    if attributes["is_training"]:
        centred = dy - tf.reduce_mean(dy, axes, keepdims=True)
        centred -= normal * tf.reduce_mean(dy * normal, axes, keepdims=True)
        dx = centred * inverse * tf.reshape(scale, shape)
    return [dx, dscale, doffset, None, None]


def local_response_normalization(inputs, attributes):
    """Divides by a power of the sum of squares over neighbouring channels."""
    (x,) = inputs
    base, _ = _lrn_base(x, attributes)
    return [x * tf.pow(base, -attributes["beta"])]


def local_response_normalization_gradient(inputs, attributes):
    """The gradient of `local_response_normalization`."""
    dy, x, y = inputs
    base, band = _lrn_base(x, attributes)
    through = tf.tensordot(dy * y / base, band, [[3], [0]])
    return [dy * tf.pow(base, -attributes["beta"]) - 2.0 * attributes["alpha"] * attributes["beta"] * x * through]


def resize_bilinear(inputs, attributes):
    """A matrix for the rows and one for the columns."""
    images, size = inputs
    rows, columns = (
        _weights(tf.shape(images)[1], size[0], attributes),
        _weights(tf.shape(images)[2], size[1], attributes),
    )
    return [tf.einsum("oh,nhwc,pw->nopc", rows, tf.cast(images, tf.float64), columns)]


def resize_bilinear_gradient(inputs, attributes):
    """The same matrices the other way round."""
    dy, original = inputs
    size, whole = tf.shape(dy), tf.shape(original)
    rows, columns = _weights(whole[1], size[1], attributes), _weights(whole[2], size[2], attributes)
    return [tf.einsum("oh,nopc,pw->nhwc", rows, dy, columns)]


def leaky_relu(inputs, attributes):
    """The slope is an attribute in float32: taken as the script wrote it."""
    (x,) = inputs
    return [tf.where(x > 0, x, attributes["alpha"] * x)]


def leaky_relu_gradient(inputs, attributes):
    """The gradient of `leaky_relu`."""
    dy, x = inputs
    return [tf.where(x > 0, dy, attributes["alpha"] * dy)]


def accidental_hits(inputs, attributes):
    """Where a sampled class is a true one: row, place in the sample, and what takes it out of the softmax.

    Source: tensorflow/core/kernels/candidate_sampler_ops.cc (1.15), ComputeAccidentalHitsOp.
    """
    true_classes, sampled = inputs
    found = tf.where(tf.equal(tf.expand_dims(true_classes, 2), sampled))
    lowest = tf.fill(tf.shape(found)[:1], tf.constant(float(np.finfo(np.float32).min), tf.float64))
    return [tf.cast(found[:, 0], tf.int32), found[:, 2], lowest]


EXPANSIONS = {
    "ComputeAccidentalHits": accidental_hits,
    "FusedBatchNorm": fused_batch_norm,
    "FusedBatchNormV2": fused_batch_norm,
    "FusedBatchNormV3": fused_batch_norm,
    "FusedBatchNormGrad": fused_batch_norm_gradient,
    "FusedBatchNormGradV2": fused_batch_norm_gradient,
    "FusedBatchNormGradV3": fused_batch_norm_gradient,
    "LRN": local_response_normalization,
    "LRNGrad": local_response_normalization_gradient,
    "ResizeBilinear": resize_bilinear,
    "ResizeBilinearGrad": resize_bilinear_gradient,
    "LeakyRelu": leaky_relu,
    "LeakyReluGrad": leaky_relu_gradient,
}

# Ops that may be given float64 and a float attribute, which is not what they compute with.
NOT_COMPUTED_WITH = {
    "AnonymousMutableDenseHashTable": "how full a table gets",
    "ApproximateEqual": "a limit that float32 compares with too",
    "BatchNormWithGlobalNormalization": "in no graph that TensorFlow 1 makes: its function writes plain ops",
    "BatchNormWithGlobalNormalizationGrad": "in no graph that TensorFlow 1 makes: its function writes plain ops",
    "Bucketize": "limits that float32 compares with too: data in float32 lies on the same side of them",
    "CollectiveAllToAllV2": "a time",
    "CollectiveAllToAllV3": "a time",
    "CollectiveBcastRecv": "a time",
    "CollectiveBcastRecvV2": "a time",
    "CollectiveBcastSend": "a time",
    "CollectiveBcastSendV2": "a time",
    "CollectiveGather": "a time",
    "CollectiveGatherV2": "a time",
    "CollectiveReduce": "a time",
    "CollectiveReduceScatterV2": "a time",
    "CollectiveReduceV2": "a time",
    "CollectiveReduceV3": "a time",
    "CropAndResize": "what lies outside; its output is float32 always",
    "DebugNumericSummary": "limits of a count",
    "FractionalAvgPool": "how many pixels go together, a whole number",
    "FractionalMaxPool": "how many pixels go together, a whole number",
    "MutableDenseHashTable": "how full a table gets",
    "MutableDenseHashTableV2": "how full a table gets",
    "QuantizeAndDequantize": "in no graph that TensorFlow 1 makes: V2 and later take tensors",
}


def _axes(attributes):
    # Of what is fed nothing but the dtype is known: the format says how many axes there are.
    return [axis for axis, letter in enumerate(attributes.get("data_format", "NHWC")) if letter != "C"]


def _beside(attributes):
    return [-1 if letter == "C" else 1 for letter in attributes.get("data_format", "NHWC")]


def _moments(x, attributes):
    axes = _axes(attributes)
    mean = tf.reduce_mean(x, axes)
    apart = x - tf.reshape(mean, _beside(attributes))
    return mean, tf.reduce_mean(apart * apart, axes)


def _normalized(x, mean, variance, attributes, scale, offset):
    shape = _beside(attributes)
    inverse = tf.rsqrt(variance + attributes["epsilon"]) * scale
    return (x - tf.reshape(mean, shape)) * tf.reshape(inverse, shape) + tf.reshape(offset, shape)


def _lrn_base(x, attributes):
    channels, radius = tf.shape(x)[3], attributes["depth_radius"]
    band = tf.linalg.band_part(tf.ones([channels, channels], tf.float64), radius, radius)
    squares = tf.tensordot(x * x, band, [[3], [0]])
    return attributes["bias"] + attributes["alpha"] * squares, band


def _weights(whole, size, attributes):
    """Weights ``[size, whole]`` of the old pixels in the new ones, of one axis."""
    old, new = tf.cast(whole, tf.float64), tf.cast(size, tf.float64)
    scale = old / new
    if attributes.get("align_corners"):
        scale = tf.where(size > 1, (old - 1) / tf.maximum(new - 1, 1), scale)
    place = tf.cast(tf.range(size), tf.float64) * scale
    if attributes.get("half_pixel_centers"):
        place = (tf.cast(tf.range(size), tf.float64) + 0.5) * scale - 0.5
    below = tf.floor(place)
    part = tf.expand_dims(place - below, 1)
    lower = tf.one_hot(tf.cast(tf.maximum(below, 0), tf.int32), whole, dtype=tf.float64)
    upper = tf.one_hot(tf.minimum(tf.cast(tf.ceil(place), tf.int32), whole - 1), whole, dtype=tf.float64)
    return (1 - part) * lower + part * upper
