"""What contrib made of Adam: lazy, Nesterov's, with decoupled weight decay."""

from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from torch_ddp.like_tf.arguments import also_named
from torch_ddp.like_tf.graph_scalar import kernel_float, kernel_scalar
from torch_ddp.like_tf.optim.adam import Adam, correction
from torch_ddp.like_tf.optim.decoupled_decay import Decayed


class LazyAdam(Adam):
    """Updates as Adam does, a sparse gradient the touched rows alone: slots of the others neither decay nor move them.

    Source: tensorflow/contrib/opt/python/training/lazy_adam_optimizer.py, 1.15.

    Args:
        params: parameters or groups of them, as for torch.optim.
        lr: learning rate.
        beta1: weight of the old first moment.
        beta2: weight of the old second moment.
        eps: added to the root of the second moment before its bias is corrected.
        betas: beta1 and beta2 at once, as torch.optim has them.

    Counterpart: tf.contrib.opt.LazyAdamOptimizer.
    """

    def _apply_sparse(
        self, param: Tensor, rows: Tensor, values: Tensor, slots: dict[str, Tensor], group: dict[str, Any]
    ) -> None:
        one = kernel_scalar(1.0, param.dtype)
        beta1, beta2 = (kernel_scalar(group[name], param.dtype) for name in ("beta1", "beta2"))
        # Not the dense kernel's form, m + (g - m) * (1 - beta1): contrib writes both products out.
        m = beta1 * slots["m"][rows] + (one - beta1) * values
        v = beta2 * slots["v"][rows] + (one - beta2) * values.square()
        slots["m"][rows], slots["v"][rows] = m, v
        steps = (correction(group, param.dtype) * m).div_(v.sqrt().add_(kernel_float(group["epsilon"], param.dtype)))
        param.index_add_(0, rows, steps, alpha=-1)


class Nadam(Adam):
    """Updates as Adam does, with ``beta1 * m + (1 - beta1) * g`` in the place of m.

    torch.optim.NAdam has a schedule of the momentum, and none here. A sparse gradient decays the slots of all rows and
    moves the weights of the touched ones alone. Source: tensorflow/contrib/opt/python/training/nadam_optimizer.py, 1.15,
    and kernels/training_ops.cc.

    Args:
        params: parameters or groups of them, as for torch.optim.
        lr: learning rate.
        beta1: weight of the old first moment.
        beta2: weight of the old second moment.
        eps: added to the root of the second moment before its bias is corrected.
        betas: beta1 and beta2 at once, as torch.optim has them.

    Counterpart: tf.contrib.opt.NadamOptimizer.
    """

    def _direction(self, grads: list[Tensor], m: list[Tensor], group: dict[str, Any]) -> list[Tensor]:
        dtype = m[0].dtype
        one, beta1 = kernel_scalar(1.0, dtype), kernel_scalar(group["beta1"], dtype)
        ahead = list(torch._foreach_mul(grads, (one - beta1).item()))
        torch._foreach_add_(ahead, torch._foreach_mul(m, beta1.item()))
        return ahead

    def _apply_sparse(
        self, param: Tensor, rows: Tensor, values: Tensor, slots: dict[str, Tensor], group: dict[str, Any]
    ) -> None:
        one = kernel_scalar(1.0, param.dtype)
        beta1, beta2 = (kernel_scalar(group[name], param.dtype) for name in ("beta1", "beta2"))
        new = values * (one - beta1)
        slots["m"].mul_(beta1).index_add_(0, rows, new)
        slots["v"].mul_(beta2).index_add_(0, rows, values.square() * (one - beta2))
        ahead = new + beta1 * slots["m"][rows]
        root = slots["v"][rows].sqrt_().add_(kernel_float(group["epsilon"], param.dtype))
        param.index_add_(0, rows, (-correction(group, param.dtype) * ahead).div_(root))


class AdamW(Decayed, Adam):
    """Subtracts ``weight_decay * w`` and then updates as Adam does.

    The decay is **not** multiplied by the learning rate, as that of torch.optim.AdamW is: a schedule has to be applied
    to both. A sparse gradient decays the touched rows alone, and Adam moves them all. Source:
    tensorflow/contrib/opt/python/training/weight_decay_optimizers.py, 1.15.

    Args:
        params: parameters or groups of them, as for torch.optim; a group with ``weight_decay`` 0 is TensorFlow's
            variables outside decay_var_list.
        weight_decay: part of each weight that a step takes away; TensorFlow casts it to the variable's dtype without
            rounding to float32.
        lr: learning rate.
        beta1: weight of the old first moment.
        beta2: weight of the old second moment.
        eps: added to the root of the second moment before its bias is corrected.
        betas: beta1 and beta2 at once, as torch.optim has them.

    Counterpart: tf.contrib.opt.AdamWOptimizer.
    """

    @also_named(learning_rate="lr", epsilon="eps")
    def __init__(
        self,
        params: ParamsT,
        weight_decay: float,
        lr: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        *,
        betas: tuple[float, float] | None = None,
    ) -> None:
        super().__init__(params, lr, beta1, beta2, eps, betas=betas, weight_decay=weight_decay)

    def _apply_sparse(
        self, param: Tensor, rows: Tensor, values: Tensor, slots: dict[str, Tensor], group: dict[str, Any]
    ) -> None:
        # Adam has a rule of its own for these, which moves all rows; the decay is of those that were looked up.
        param.index_add_(0, rows, param[rows] * -group["weight_decay"])
        super()._apply_sparse(param, rows, values, slots, group)
