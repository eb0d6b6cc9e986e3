"""Batch normalisation with TensorFlow's moving statistics."""

import math
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torch_ddp.like_tf.arguments import also_named
from torch_ddp.like_tf.errors import LikeTfError
from torch_ddp.like_tf.graph_scalar import graph_float

# tensorflow/python/ops/nn_impl.py, 1.15: fused_batch_norm raises a smaller epsilon to this, as cuDNN wanted it.
FUSED_EPSILON_FLOOR = 1.001e-5

STATISTICS = ("running_mean", "running_var")
Scale = bool | Literal["fixed"]
ZeroDebias = bool | Literal["mean"]


class _BatchNorm(nn.modules.batchnorm._BatchNorm):
    """Normalises over the batch and all spatial axes, with the biased variance (abstract).

    The moving variance is fed the **unbiased** variance when fused and the biased one when not. One value per channel
    (a batch of one, no space) has the variance 0, where torch raises. After construction ``momentum`` is torch's, the
    weight of the new statistics, rounded as the graph rounds it, so that ``convert_sync_batchnorm`` keeps it.
    """

    def __init__(
        self,
        num_features: int,
        eps: float,
        momentum: float,
        fused: bool,
        scale: Scale,
        center: bool,
        fused_epsilon_floor: float,
        zero_debias: ZeroDebias,
    ) -> None:
        if not 0.0 <= momentum <= 1.0:
            raise LikeTfError(
                f"{type(self).__name__}: expected momentum in [0, 1], the weight of the old statistics, "
                f"got {momentum}. It is one minus torch's momentum."
            )
        # The fused layer subtracts two float32 tensors, the other one rounds the difference of two Python floats.
        # Of 0.99 it is 0.0099999905 or 0.0099999998, of 0.999 0.00099998713 or 0.0010000000475: apart by 1e-6 and
        # 1.3e-5. A statistic that is debiased is moved by assign_moving_average, which is given the Python float.
        of_tensors = fused and not zero_debias
        new = float(np.float32(1.0) - np.float32(momentum)) if of_tensors else graph_float(1.0 - momentum)
        super().__init__(num_features, eps=max(eps, fused_epsilon_floor) if fused else eps, momentum=new)
        self.fused = fused
        # Kept beside `momentum`: SyncBatchNorm takes over the one, and `_move` uses the other.
        self.decay = new
        if not scale:
            self.register_parameter("weight", None)
        elif scale == "fixed":
            del self.weight
            self.register_buffer("weight", torch.ones(num_features))
        if not center:
            self.register_parameter("bias", None)
        self.debiased = STATISTICS[: 1 if zero_debias == "mean" else 2] if zero_debias else ()
        for name in self.debiased:
            self.register_buffer(f"{name}_biased", torch.zeros(num_features))
            self.register_buffer(f"{name}_local_step", torch.zeros(()))

    def forward(self, input: Tensor) -> Tensor:
        """Normalises, in training by the batch's own statistics, which also move the moving ones.

        Args:
            input: shape [batch, channels, *space].

        Returns:
            The same shape.
        """
        self._check_axes(input)
        if not self.training:
            return F.batch_norm(
                input, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps
            )
        count = input.numel() // input.shape[1]
        # torch raises for one value. In TensorFlow x - mean is 0 and so is the variance, whose fused form divides by
        # max(n - 1, 1).
        if count == 1:
            zeros = torch.zeros_like(self._statistics()[1])
            self._move(input.detach().flatten(), zeros)
            return self._scaled_and_shifted(input)
        # With momentum 1 torch leaves the batch's mean and unbiased variance in the buffers it is given.
        mean, variance = (torch.zeros_like(buffer) for buffer in self._statistics())
        output = F.batch_norm(input, mean, variance, self.weight, self.bias, True, 1.0, self.eps)
        # torch's is divided by n - 1; (n - 1) / n makes it the biased one of an unfused graph, 6% less for 16 values
        # per channel.
        self._move(mean, variance if self.fused else variance * ((count - 1) / count))
        return output

    def extra_repr(self) -> str:
        """Names the settings for ``repr``."""
        return f"{self.num_features}, eps={self.eps}, decay={self.decay}, fused={self.fused}"

    def _check_axes(self, input: Tensor) -> None:
        raise AssertionError("a batch norm that takes no input")

    def _statistics(self) -> tuple[Tensor, Tensor]:
        assert self.running_mean is not None and self.running_var is not None
        return self.running_mean, self.running_var

    @torch.no_grad()
    def _move(self, mean: Tensor, variance: Tensor) -> None:
        for name, moving, batch in zip(STATISTICS, self._statistics(), (mean, variance), strict=True):
            # The form of assign_moving_average. Both are [channels], in the dtype of the buffers.
            averaged = getattr(self, f"{name}_biased") if name in self.debiased else moving
            averaged.sub_((averaged - batch) * self.decay)
            if name in self.debiased:
                # An average that starts at 0 lacks what of the 0 is left in it: _zero_debias of moving_averages.py, 1.15.
                step = getattr(self, f"{name}_local_step").add_(1)
                moving.copy_(averaged / (1 - (1 - self.decay) ** step))
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)

    def _scaled_and_shifted(self, input: Tensor) -> Tensor:
        shape = (1, -1, *[1] * (input.dim() - 2))
        # Zeros by way of the input: its gradient is there and 0, and a NaN in it stays one.
        output = (input - input) / math.sqrt(self.eps)
        if self.weight is not None:
            output = output * self.weight.reshape(shape)
        return output if self.bias is None else output + self.bias.reshape(shape)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        # Statistics that come from a TensorFlow checkpoint have no count of batches.
        assert self.num_batches_tracked is not None
        # A count of its own in place of a missing one: it decides nothing, as momentum is never None.
        state_dict.setdefault(f"{prefix}num_batches_tracked", self.num_batches_tracked)
        super()._load_from_state_dict(state_dict, prefix, *args)

    def reset_parameters(self) -> None:
        """Sets gamma and moving variance to 1, beta and moving mean to 0."""
        self.reset_running_stats()
        if self.weight is not None:
            nn.init.ones_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)


class BatchNorm1d(_BatchNorm):
    """Normalises [batch, channels] or [batch, channels, length] as TensorFlow does.

    Under DDP each rank normalises by its own shard, as each tower does. Source: BatchNormalizationBase in
    tensorflow/python/keras/layers/normalization.py, 1.15.

    Args:
        num_features: channels.
        eps: added to the variance.
        momentum: weight of the **old** statistics: 0.99 for tf.layers, 0.999 for slim.
        fused: whether TensorFlow's graph has FusedBatchNorm here. False for tf.layers; slim fuses two axes as well.
        scale: whether there is a gamma; slim's default is False. "fixed" for one that is not trained, a buffer.
        center: whether there is a beta.
        fused_epsilon_floor: least epsilon when fused; 0 for TensorFlow 2, which has none.
        zero_debias: whether the moving statistics, or the "mean" alone, make up for their start at zero, as those of
            assign_moving_average do. Each has its own buffers for it, as in a checkpoint of TensorFlow's.

    Raises:
        LikeTfError: the momentum is not in [0, 1].

    Counterpart: tf.compat.v1.layers.BatchNormalization.
    """

    @also_named(epsilon="eps")
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-3,
        momentum: float = 0.99,
        fused: bool = False,
        scale: Scale = True,
        center: bool = True,
        fused_epsilon_floor: float = FUSED_EPSILON_FLOOR,
        zero_debias: ZeroDebias = False,
    ) -> None:
        super().__init__(num_features, eps, momentum, fused, scale, center, fused_epsilon_floor, zero_debias)

    def _check_axes(self, input: Tensor) -> None:
        if input.dim() not in (2, 3):
            raise LikeTfError(f"BatchNorm1d: expected 2 or 3 axes, got {input.dim()}. Take BatchNorm2d for images.")


class BatchNorm2d(_BatchNorm):
    """Normalises [batch, channels, height, width] as TensorFlow does.

    Under DDP each rank normalises by its own shard, as each tower does. Source: BatchNormalizationBase in
    tensorflow/python/keras/layers/normalization.py and fused_batch_norm in tensorflow/python/ops/nn_impl.py, 1.15.

    Args:
        num_features: channels.
        eps: added to the variance.
        momentum: weight of the **old** statistics: 0.99 for tf.layers, 0.999 for slim.
        fused: whether TensorFlow's graph has FusedBatchNorm here, as tf.layers and slim give four axes.
        scale: whether there is a gamma; slim's default is False. "fixed" for one that is not trained, a buffer.
        center: whether there is a beta.
        fused_epsilon_floor: least epsilon when fused; 0 for TensorFlow 2, which has none.
        zero_debias: whether the moving statistics, or the "mean" alone, make up for their start at zero, as those of
            assign_moving_average do. Each has its own buffers for it, as in a checkpoint of TensorFlow's.

    Raises:
        LikeTfError: the momentum is not in [0, 1].

    Counterpart: tf.compat.v1.layers.BatchNormalization.
    """

    @also_named(epsilon="eps")
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-3,
        momentum: float = 0.99,
        fused: bool = True,
        scale: Scale = True,
        center: bool = True,
        fused_epsilon_floor: float = FUSED_EPSILON_FLOOR,
        zero_debias: ZeroDebias = False,
    ) -> None:
        super().__init__(num_features, eps, momentum, fused, scale, center, fused_epsilon_floor, zero_debias)

    def _check_axes(self, input: Tensor) -> None:
        if input.dim() != 4:
            raise LikeTfError(f"BatchNorm2d: expected 4 axes, got {input.dim()}. Take BatchNorm1d for 2 or 3.")
