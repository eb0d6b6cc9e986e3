"""Weight decay beside the update, which contrib extends an optimizer with."""

from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from torch_ddp.like_tf.arguments import also_named
from torch_ddp.like_tf.optim.base import SlotOptimizer
from torch_ddp.like_tf.optim.momentum import Momentum


class Decayed(SlotOptimizer):
    """Subtracts ``weight_decay * w`` before the update of the class that follows it (abstract).

    Counterpart: tf.contrib.opt.DecoupledWeightDecayExtension.
    """

    # var.assign_sub(weight_decay * var) of a Python float: a constant of the variable's dtype.
    in_variable_dtype = frozenset({"weight_decay"})

    def _apply(
        self, params: list[Tensor], grads: list[Tensor], slots: dict[str, list[Tensor]], group: dict[str, Any]
    ) -> None:
        # Rows that were looked up come here by themselves, so that the others keep their length.
        torch._foreach_sub_(params, torch._foreach_mul(params, group["weight_decay"]))
        super()._apply(params, grads, slots, group)


class MomentumW(Decayed, Momentum):
    """Subtracts ``weight_decay * w`` and then updates as Momentum does.

    The decay is not multiplied by the learning rate. A sparse gradient decays and moves the touched rows alone. Source:
    tensorflow/contrib/opt/python/training/weight_decay_optimizers.py, 1.15.

    Args:
        params: parameters or groups of them, as for torch.optim; a group with ``weight_decay`` 0 is TensorFlow's
            variables outside decay_var_list.
        weight_decay: part of each weight that a step takes away, not rounded to float32.
        lr: learning rate.
        momentum: weight of the old buffer.
        nesterov: whether the update looks one step ahead.

    Counterpart: tf.contrib.opt.MomentumWOptimizer.
    """

    @also_named(learning_rate="lr", use_nesterov="nesterov")
    def __init__(
        self, params: ParamsT, weight_decay: float, lr: float, momentum: float, nesterov: bool = False
    ) -> None:
        SlotOptimizer.__init__(self, params, lr, momentum=momentum, use_nesterov=nesterov, weight_decay=weight_decay)
