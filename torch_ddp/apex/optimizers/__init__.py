"""Apex's fused optimizers, on CPU and GPU, by torch's foreach kernels."""

from torch_ddp.apex.missing import names_of
from torch_ddp.apex.optimizers.fused_adagrad import FusedAdagrad
from torch_ddp.apex.optimizers.fused_adam import FusedAdam
from torch_ddp.apex.optimizers.fused_lamb import FusedLAMB
from torch_ddp.apex.optimizers.fused_novograd import FusedNovoGrad
from torch_ddp.apex.optimizers.fused_sgd import FusedSGD

__all__ = ["FusedAdagrad", "FusedAdam", "FusedLAMB", "FusedNovoGrad", "FusedSGD"]

__getattr__ = names_of(__name__)
