"""Layers whose float64 form follows the rule of TensorFlow's float32 kernel."""

from typing import Any, List, Sequence, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from tf_towers.graph.cross_tower.collectives import running_tower, stacked_over_towers
from tf_towers.tf_types import DType, Tensor, Variable

# tensorflow/python/ops/nn_impl.py, 1.15: fused_batch_norm raises a smaller epsilon to this, as cuDNN wanted it. That of
# TensorFlow 2 does not, and no CPU kernel does.
FUSED_EPSILON_FLOOR = 1.001e-5


def batch_norm(
    inputs: Tensor, name: str, momentum: float = 0.99, epsilon: float = 1e-3, training: bool = True
) -> Tensor:
    """Normalises over all axes but the last as `tf.layers.batch_normalization(fused=True)` does.

    In a tower of ``build(..., batch_norm="synchronised")`` the statistics are those of all towers' shards together, each
    example counting once, and the moving ones move once.

    The fused kernel has no float64 form: TensorFlow 1.15 raises, and 2.x silently takes another rule (the moving
    variance gets the biased variance). Here float64 follows the fused rule: normalise with the biased variance, move
    ``moving_variance`` by the unbiased one (Bessel's factor), with a decay of ``float32(1) - float32(momentum)``.

    Args:
      inputs: ``[batch, height, width, channels]``, float32 or float64.
      name: variable scope of gamma, beta, moving_mean and moving_variance, each ``[channels]`` in the inputs' dtype.
      momentum: weight of the old statistics, 0 to 1.
      epsilon: added to the variance; a smaller one than 1.001e-5 is raised to it, on every TensorFlow and in inference
        too, as TensorFlow 1.15 does silently.
      training: normalise with the batch's statistics and put the update of the moving ones into `UPDATE_OPS`, or
        normalise with the moving ones.

    Returns:
      A tensor of the inputs' shape and dtype.

    Source: tensorflow/python/layers/normalization.py and ops/nn_impl.py (1.15).
    Counterpart: torch_ddp.like_tf.BatchNorm2d; torch_ddp.parallel.SyncBatchNorm where towers are synchronised
    """
    # Measured at a variance of 1e-6: without the floor 57 % off for an epsilon of 1e-6, 4.5e-4 for one of 1e-5.
    channels, epsilon = int(inputs.shape[-1]), max(epsilon, FUSED_EPSILON_FLOOR)
    with tf.variable_scope(name):
        gamma = _variable("gamma", channels, inputs.dtype, tf.ones_initializer())
        beta = _variable("beta", channels, inputs.dtype, tf.zeros_initializer())
        mean = _variable("moving_mean", channels, inputs.dtype, tf.zeros_initializer(), trainable=False)
        variance = _variable("moving_variance", channels, inputs.dtype, tf.ones_initializer(), trainable=False)
        if not training:
            return tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, epsilon)
        running = running_tower()
        if running is not None:
            outputs, batch_mean, batch_variance = _over_all_towers(inputs, gamma, beta, epsilon)
            # Every tower has the same statistics: tower 0 moves them, once.
            if running > 0:
                return outputs
        elif inputs.dtype == tf.float32:
            outputs, batch_mean, batch_variance = tf.nn.fused_batch_norm(inputs, gamma, beta, epsilon=epsilon)[:3]
        else:
            outputs, batch_mean, batch_variance = _fused_in_float64(inputs, gamma, beta, epsilon)
        # As TensorFlow computes it in float32, also in a float64 graph: 1 - 0.999 is off by 1.3e-5 there.
        decay = tf.constant(np.float32(1) - np.float32(momentum), inputs.dtype)
        for moving, batch in ((mean, batch_mean), (variance, batch_variance)):
            # A read of its own: the one that was made with a ref variable is older than the update of an earlier tower.
            change = (moving.read_value() - batch) * decay
            tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign_sub(moving, change))
        return outputs


def batch_norm_over_towers(
    inputs: Sequence[Tensor], name: str, momentum: float = 0.99, epsilon: float = 1e-3
) -> List[Tensor]:
    """Normalises the towers' shards with the statistics of all of them together: synchronised batch norm.

    For layers that take a list with a tensor for each tower. The moving statistics move once, by the whole batch's.

    Args:
      inputs: a list over the towers of ``[shard, ..., channels]``, float32 or float64.
      name: variable scope of gamma, beta, moving_mean and moving_variance.
      momentum: weight of the old statistics, 0 to 1.
      epsilon: added to the variance.

    Returns:
      A list of tensors of the inputs' shapes; each is computed on its input's device.

    Counterpart: torch.nn.SyncBatchNorm
    """
    axes = list(range(inputs[0].shape.ndims - 1))
    dtype, channels = inputs[0].dtype, int(inputs[0].shape[-1])
    with tf.variable_scope(name):
        gamma = _variable("gamma", channels, dtype, tf.ones_initializer())
        beta = _variable("beta", channels, dtype, tf.zeros_initializer())
        moving_mean = _variable("moving_mean", channels, dtype, tf.zeros_initializer(), trainable=False)
        moving_variance = _variable("moving_variance", channels, dtype, tf.ones_initializer(), trainable=False)
        # Values of a channel in all shards; mean and variance are [channels].
        count = tf.cast(tf.add_n([tf.reduce_prod(tf.shape(one)[:-1]) for one in inputs]), dtype)
        mean = tf.add_n([tf.reduce_sum(one, axes) for one in inputs]) / count
        # Around the mean of all: PSPNet-TF-Reproduce takes E[x^2] - E[x]^2, which cancels where the mean is large.
        variance = tf.add_n([tf.reduce_sum(tf.squared_difference(one, mean), axes) for one in inputs]) / count
        decay = tf.constant(np.float32(1) - np.float32(momentum), dtype)
        for moving, batch in ((moving_mean, mean), (moving_variance, _unbiased(variance, count))):
            change = (moving.read_value() - batch) * decay
            tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign_sub(moving, change))
        outputs = []
        for one in inputs:
            with tf.device(one.device):
                outputs.append(tf.nn.batch_normalization(one, mean, variance, beta, gamma, epsilon))
        return outputs


def local_response_normalization(
    inputs: Tensor, depth_radius: int = 5, bias: float = 1.0, alpha: float = 1.0, beta: float = 0.5
) -> Tensor:
    """Divides by ``(bias + alpha * sum of squares of the channels around) ** beta`` as `tf.nn.lrn` does.

    The kernel has no float64 form in any TensorFlow. Here float32 takes the kernel, and float64 its formula.

    Args:
      inputs: ``[batch, height, width, channels]``, float32 or float64.
      depth_radius: channels on either side that count, at least 0; beyond the first and last there is nothing.
      bias: above 0.
      alpha: of the sum; torch's counts for the mean over ``2 * depth_radius + 1`` channels instead.
      beta: the exponent.

    Returns:
      A tensor of the inputs' shape and dtype.

    Source: tensorflow/core/kernels/lrn_op.cc (1.15).
    Counterpart: torch_ddp.like_tf.local_response_normalization
    """
    if inputs.dtype != tf.float64:
        return tf.nn.local_response_normalization(inputs, depth_radius, bias, alpha, beta)
    # Shifted copies of the padded squares, (batch, height, width, channels) each, one for each offset in the radius.
    channels = int(inputs.shape[-1])
    squares = tf.pad(tf.square(inputs), [[0, 0]] * (inputs.shape.ndims - 1) + [[depth_radius, depth_radius]])
    around = tf.add_n([squares[..., at : at + channels] for at in range(2 * depth_radius + 1)])
    return inputs / tf.pow(bias + alpha * around, beta)


def _fused_in_float64(inputs: Tensor, gamma: Variable, beta: Variable, epsilon: float) -> Tuple[Tensor, Tensor, Tensor]:
    axes = list(range(inputs.shape.ndims - 1))
    mean, variance = tf.nn.moments(inputs, axes)
    outputs = tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, epsilon)
    count = tf.cast(tf.reduce_prod(tf.shape(inputs)[:-1]), inputs.dtype)
    return outputs, mean, _unbiased(variance, count)


def _over_all_towers(inputs: Tensor, gamma: Variable, beta: Variable, epsilon: float) -> Tuple[Tensor, Tensor, Tensor]:
    """Merges the moments of shards of any size, empty ones too, without the cancellation of E[x^2] - E[x]^2.

    Source: Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979.
    """
    # Whose statistics: of every value of a channel, over batch and space.
    axes, channels = list(range(inputs.shape.ndims - 1)), int(inputs.shape[-1])
    own_count = tf.cast(tf.reduce_prod(tf.shape(inputs)[:-1]), inputs.dtype)
    own_mean = tf.reduce_sum(inputs, axes) / tf.maximum(own_count, 1)
    # No gradient through the mean here and below: around their mean deviations add up to zero, but for rounding.
    own_squares = tf.reduce_sum(tf.squared_difference(inputs, tf.stop_gradient(own_mean)), axes)
    # (towers, 2 * channels + 1): mean, sum of squared deviations and count in one exchange
    everyones = stacked_over_towers(tf.concat([own_mean, own_squares, [own_count]], 0), "moments")
    means, parts, counts = tf.split(everyones, [channels, channels, 1], 1)
    # A count is data: left in, the gradient would walk back through the exchange for nothing.
    counts = tf.stop_gradient(counts)
    count = _sum_over_towers(counts)
    mean = _sum_over_towers(counts * means) / count
    # Sum over towers of M2 + n (mean of the tower - mean of all)^2, the update of Chan, Golub and LeVeque.
    squares = _sum_over_towers(parts + counts * tf.squared_difference(means, tf.stop_gradient(mean)))
    variance = squares / count
    outputs = (inputs - mean) * (gamma * tf.rsqrt(variance + epsilon)) + beta
    return outputs, mean, _unbiased(variance, count)


def _unbiased(variance: Tensor, count: Tensor) -> Tensor:
    # A single value has no variance, and the kernel gives it 0 then: fused_batch_norm_op.cc divides by max(count - 1, 1).
    return variance * (count / tf.maximum(count - 1, 1))


def _sum_over_towers(stacked: Tensor) -> Tensor:
    # Not reduce_sum, whose gradient takes several times as many ops.
    return tf.add_n(tf.unstack(stacked))


def _variable(name: str, channels: int, dtype: DType, initializer: Any, trainable: bool = True) -> Variable:
    return tf.get_variable(name, [channels], dtype.base_dtype, initializer=initializer, trainable=trainable)
